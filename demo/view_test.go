package demo

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares rows with a file in testdata.
func golden(t *testing.T, name string, rows []string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	got := strings.Join(rows, "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPictures(t *testing.T) {
	crash := played(t, "crash_in_tool", crashRepaired)
	parallel := played(t, "parallel_tools", recording(t, "g3-v0.20.3", "parallel_tools"))
	wide := played(t, "seq_tools", recording(t, "g3-v0.20.3", "seq_tools"))
	broken := played(t, "one_tool", recording(t, "g3-v0.20.3", "one_tool"))
	broken.left.end(io.ErrUnexpectedEOF)
	running := played(t, "crash_in_tool", strings.Split(crashRepaired, "event: hermes.tool.progress\ndata: {\"tool\":\"terminal\",\"toolCallId\"")[0])
	running.right.ended = false
	for _, test := range []struct {
		name   string
		play   play
		screen screen
	}{
		{"crash", crash, screen{}},
		{"crash_narrow", crash, screen{columns: 50}},
		{"crash_ansi", crash, screen{columns: 80, ansi: true}},
		{"parallel", parallel, screen{columns: 80}},
		{"wide_runes", wide, screen{columns: 72}},
		{"broken", broken, screen{columns: 200}},
		{"running", running, screen{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.play.title = "1/5 " + test.play.Name + ": " + test.play.Title
			test.play.leftHead = "without the sidecar, 127.0.0.1:8642"
			test.play.rightHead = "with the sidecar, 127.0.0.1:8643"
			golden(t, test.name, test.play.picture(test.screen))
		})
	}
}

func TestNoRowIsWiderThanTheScreen(t *testing.T) {
	labels := recording(t, "g3-v0.20.3", "labels")
	p := play{scenario: byName(t, "one_tool"), title: strings.Repeat("title ", 30), left: transcribe(labels), right: transcribe(labels)}
	p.leftHead, p.rightHead = strings.Repeat("l", 200), strings.Repeat("日本", 50)
	for w := minWidth; w <= 130; w++ {
		for _, row := range p.picture(screen{columns: w}) {
			if n := lipgloss.Width(row); n > w {
				t.Fatalf("at %d: %d columns: %s", w, n, row)
			}
		}
	}
}

func TestPainterDrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	p := painter{w: &out, height: 3}
	for _, step := range []struct {
		rows []string
		last bool
		want string
	}{
		{[]string{"a"}, false, "a\x1b[K\n\x1b[J"},
		{[]string{"a", "b"}, false, "\x1b[Aa\x1b[K\nb\x1b[K\n\x1b[J"},
		{[]string{"a", "b", "c"}, false, "\x1b[2Ab\x1b[K\nc\x1b[K\n\x1b[J"}, // no room for the first
		{[]string{"a", "b", "c"}, true, "\x1b[2Aa\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J"},
		{[]string{"d"}, false, "d\x1b[K\n\x1b[J"},
	} {
		out.Reset()
		if err := p.draw(step.rows, step.last); err != nil {
			t.Fatal(err)
		}
		if out.String() != step.want {
			t.Errorf("drew %q, want %q", out.String(), step.want)
		}
	}
}
