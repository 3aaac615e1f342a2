package repair

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const captures = "../../testdata/captures"

func read(t testing.TB, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{captures}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// repaired returns what c writes of a recording.
func repaired(in string, c repairCommand) (out, code string, err error) {
	var b bytes.Buffer
	c.out = &b
	code, err = c.repair(strings.NewReader(in))
	return b.String(), code, err
}

// engine repairs as a live stream is repaired.
func engine(body string, p rewrite.Params, cause rewrite.Cause) string {
	s := rewrite.New(&rewrite.Options{}, p)
	out := s.Feed(nil, []byte(body), time.Unix(1, 0))
	return string(s.Finish(out, cause))
}

func TestRecordingsAreRepairedAsLive(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join(captures, "*", "*.sse"))
	if len(paths) < 100 {
		t.Fatalf("%d recordings", len(paths))
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "data:") {
			continue
		}
		request, p := "/v1/chat/completions", rewrite.Params{Active: true}
		switch name := filepath.Base(path); {
		case strings.HasPrefix(name, "responses."):
			request, p = "/v1/responses", rewrite.Params{}
		case strings.HasPrefix(name, "runs."):
			request, p = "/v1/runs/run_1/events", rewrite.Params{RunID: "run_1"}
		case strings.HasPrefix(name, "session."):
			request, p = "/api/sessions/s1/chat/stream", rewrite.Params{SessionID: "s1"}
		}
		for _, cut := range []int{len(b), len(b) * 2 / 3} {
			out, code, err := repaired(string(b[:cut]), repairCommand{meta: recording.Meta{Path: request, Cause: "aborted"}})
			want := engine(string(b[:cut]), p, rewrite.CauseAborted)
			if err != nil || out != want {
				t.Errorf("%s: %v\n%s\nwant\n%s", path, err, out, want)
			}
			if strings.Contains(want, `"error"`) && cut < len(b) && code == "" {
				t.Errorf("%s: no code", path)
			}
		}
	}
}

// failing fails to read and to write.
type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errors.New("broken") }
func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestErrorsOfFiles(t *testing.T) {
	if _, err := (&repairCommand{out: io.Discard}).repair(failing{}); err == nil {
		t.Error("no error of reading")
	}
	for _, explain := range []bool{false, true} {
		for _, in := range []string{"data: [DONE]\n\n", "{}"} {
			c := repairCommand{out: failing{}, explain: explain}
			if _, err := c.repair(strings.NewReader(in)); err == nil {
				t.Errorf("no error of writing %q", in)
			}
		}
	}
}

// TestWhatIsKnownDecides as it did live.
func TestWhatIsKnownDecides(t *testing.T) {
	body := read(t, "g0-v0.8.0", "crash_after_text.sse")
	for _, c := range []struct {
		m          recording.Meta
		code, says string
	}{
		{recording.Meta{}, "", ""},
		{recording.Meta{UsageReported: true, Outcome: "agent_crashed"}, "agent_crashed", "live, its outcome was agent_crashed\n"},
		{recording.Meta{Truncated: true}, "", "had become too large"},
		{recording.Meta{Cause: recording.CauseClientGone}, "", "the client left"},
	} {
		out, code, err := repaired(body, repairCommand{meta: c.m, explain: true})
		if err != nil || code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%+v: %s, %v\n%s", c.m, code, err, out)
		}
	}
	comment := repairCommand{meta: recording.Meta{Progress: "comment"}}
	if out, _, err := repaired(read(t, "g0-v0.8.0", "one_tool.sse"), comment); err != nil || !strings.Contains(out, ": hermes.tool.progress {") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestRecordingsAreNotHeld: the memory that it takes to repair one does not depend on its
// size.
func TestRecordingsAreNotHeld(t *testing.T) {
	alone.NotUnderRace(t)
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
			c := repairCommand{out: io.Discard, explain: explain}
			_, err := c.repair(in)
			if in.Peak > most {
				t.Errorf("%s, explained %v: %d MiB in use", name, explain, in.Peak>>20)
			}
			if (err == nil) != (name == "frames") {
				t.Errorf("%s, explained %v: %v", name, explain, err)
			}
		}
	}
}

// TestAnswersAboveMaxFrame pass, and are an error that names the option.
func TestAnswersAboveMaxFrame(t *testing.T) {
	in := `{"object": "chat.completion", "choices": [{"message": {"content": "` + strings.Repeat("x", 2000) + `"}}]}`
	for limit, says := range map[int]string{1000: "max_frame, 1000 bytes", len(in): ""} {
		var c repairCommand
		c.options.MaxFrame = limit
		out, _, err := repaired(in, c)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) || strings.TrimSpace(out) != in {
			t.Errorf("%d: %v: %s", limit, err, out)
		}
	}
}

// TestStreamsAreRepairedWhileTheyCome, and not only when all of them has.
func TestStreamsAreRepairedWhileTheyCome(t *testing.T) {
	body := read(t, "g0-v0.8.0", "one_tool.sse")
	in, upstream := io.Pipe()
	downstream, out := io.Pipe()
	go func() {
		c := repairCommand{out: out}
		_, err := c.repair(in)
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
