package repair

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/caddytest"
)

// TestRecordingsAreNotHeld: the memory that it takes to repair one does not depend on its
// size.
func TestRecordingsAreNotHeld(t *testing.T) {
	const size, most = 24 << 20, 12 << 20
	frame := strings.Split(read(t, "g3-v0.20.3", "plain.sse"), "\n\n")[1] + "\n\n"
	for name, text := range map[string]string{
		"frames":           frame,
		"a line":           "x",
		"zeros":            "\x00",
		"blank lines":      "\n",
		"an answer":        `{"a": "` + strings.Repeat("x", 1<<20),
		"a header":         "HTTP/1.1 200 OK\r\nA: b\r\n",
		"headers":          "HTTP/1.1 200 OK\r\n\r\n",
		"one large header": "HTTP/1.1 200 OK " + strings.Repeat("x", 1<<20),
	} {
		for _, explain := range []bool{false, true} {
			if explain && name != "frames" && name != "an answer" {
				continue // to make so much printable takes long
			}
			in := &caddytest.Endless{Text: text, Size: size}
			_, err := Run(in, io.Discard, Options{Explain: explain})
			if in.Peak > most {
				t.Errorf("%s, explained %v: %d MiB in use", name, explain, in.Peak>>20)
			}
			if (err == nil) != (name == "frames") {
				t.Errorf("%s, explained %v: %v", name, explain, err)
			}
		}
	}
}

// TestEndlessRecordingsEnd, and the error names the bound.
func TestEndlessRecordingsEnd(t *testing.T) {
	_, body, err := Open(&caddytest.Endless{Text: "\x00"})
	if err != nil {
		t.Fatal(err)
	}
	err = Pieces(body, func([]byte) error { return nil })
	if !errors.Is(err, errLong) || !strings.Contains(err.Error(), "longer than 1024 MiB") {
		t.Error(err)
	}
}

// TestAnswersAboveMaxFrame pass, and are an error that names the option.
func TestAnswersAboveMaxFrame(t *testing.T) {
	in := `{"object": "chat.completion", "choices": [{"message": {"content": "` + strings.Repeat("x", 2000) + `"}}]}`
	var o Options
	o.Rewrite.MaxFrame = 1000
	var out strings.Builder
	if _, err := Run(strings.NewReader(in), &out, o); err == nil || !strings.Contains(err.Error(), "max_frame, 1000 bytes") || out.String() != in {
		t.Errorf("%v: %s", err, out.String())
	}
	o.Rewrite.MaxFrame = len(in)
	if _, err := Run(strings.NewReader(in), io.Discard, o); err != nil {
		t.Error(err)
	}
}

// TestStreamsAreRepairedWhileTheyCome, and not only when all of them has.
func TestStreamsAreRepairedWhileTheyCome(t *testing.T) {
	body := read(t, "g0-v0.8.0", "one_tool.sse")
	in, upstream := io.Pipe()
	downstream, out := io.Pipe()
	go func() {
		_, err := Run(in, out, Options{})
		out.CloseWithError(err)
	}()
	first := strings.SplitAfter(body, "\n\n")[0]
	go io.WriteString(upstream, first)
	got := make([]byte, len(first))
	if _, err := io.ReadFull(downstream, got); err != nil || string(got) != first {
		t.Fatalf("%v: %q", err, got)
	}
	go func() {
		io.WriteString(upstream, body[len(first):])
		upstream.Close()
	}()
	if rest, err := io.ReadAll(downstream); err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("%v: %q", err, rest)
	}
}

// TestMetaIsReadUpToABound: a larger file is none of ours.
func TestMetaIsReadUpToABound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.sse")
	for size, want := range map[int]string{maxMeta - 100: "/x", maxMeta: ""} {
		text := `{"path": "/x"` + strings.Repeat(" ", size) + "}"
		if err := os.WriteFile(strings.TrimSuffix(file, Extension)+MetaExtension, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := ReadMeta(file); err != nil || m.Path != want {
			t.Errorf("%d: %+v, %v", size, m, err)
		}
	}
}
