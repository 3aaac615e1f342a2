package replay

import (
	"slices"
	"testing"
)

func TestColumnsCountsWhatATerminalShows(t *testing.T) {
	for text, want := range map[string]int{
		"":         0,
		"ls -la":   6,
		"é":        1,
		"e\u0301":  1, // with a combining accent
		"日本":       4,
		"ﾊ":        1, // half width
		"💻 ls":     5,
		"✍️":       2, // narrow without the variation selector
		"⏰":        2,
		"👍🏽":       2, // with a skin tone
		"👩‍💻":      2, // joined
		"🇩🇪🇫🇷":     4, // two flags
		"a\u200bb": 2, // zero width space
	} {
		if got := columns(text); got != want {
			t.Errorf("%q: %d columns, want %d", text, got, want)
		}
	}
}

func TestWrapBreaksAtSpacesAndCutsLongWords(t *testing.T) {
	for _, test := range []struct {
		text string
		max  int
		want []string
	}{
		{"", 10, []string{""}},
		{"one two three", 20, []string{"one two three"}},
		{"one two three", 7, []string{"one two", "three"}},
		{"one two three", 8, []string{"one two", "three"}},
		{"one two three", 6, []string{"one", "two", "three"}},
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"ab cdefgh", 4, []string{"ab", "cdef", "gh"}},
		{"日本語日本語", 5, []string{"日本", "語日", "本語"}},
		{"💻💻💻", 1, []string{"💻", "💻", "💻"}}, // at least one character
		{"  indented", 20, []string{"  indented"}},
		{"a\x1b[31mb\tc", 20, []string{"a [31mb c"}},
	} {
		if got := wrap(test.text, test.max); !slices.Equal(got, test.want) {
			t.Errorf("%q at %d: %q, want %q", test.text, test.max, got, test.want)
		}
	}
}
