package replay

import "testing"

func TestMarkersAreLinesWithAnEmoji(t *testing.T) {
	for _, test := range []struct {
		content string
		real    bool // as the content of a chunk
		line    int  // lines that look like one
	}{
		{"\n`💻 ls -la`\n", true, 1},
		{"\n`✍️ out.txt`\n", true, 1},
		{"\n`💻 ``\n", true, 1},
		{"Sure\n`💻 ls -la`\ndone", false, 1},
		{"\n`git status`\n", false, 0},
		{"`💻` icon.", false, 0},
		{"Use `💻 x` here", false, 0},
	} {
		if _, ok := parseMarker(test.content); ok != test.real {
			t.Errorf("%q: a marker %v, want %v", test.content, ok, test.real)
		}
		if _, n := withoutMarkers(test.content); n != test.line {
			t.Errorf("%q: %d marker lines, want %d", test.content, n, test.line)
		}
	}
}
