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
			var out bytes.Buffer
			sum, err := Run(bytes.NewReader(b[:cut]), &out, Options{Meta: recording.Meta{Path: request, Cause: "aborted"}})
			want := engine(string(b[:cut]), p, rewrite.CauseAborted)
			if err != nil || out.String() != want {
				t.Errorf("%s: %v\n%s\nwant\n%s", path, err, out.String(), want)
			}
			if strings.Contains(want, `"error"`) && cut < len(b) && sum.Code == "" {
				t.Errorf("%s: %+v", path, sum)
			}
		}
	}
}

func TestHeaderOfCurlIsSkipped(t *testing.T) {
	body := read(t, "g0-v0.8.0", "one_tool.sse")
	for _, header := range []string{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "HTTP/2 200\ncontent-type: text/event-stream\n\n"} {
		var plain, headed bytes.Buffer
		if _, err := Run(strings.NewReader(body), &plain, Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(strings.NewReader(header+body), &headed, Options{}); err != nil || headed.String() != plain.String() {
			t.Errorf("%v: %s", err, headed.String())
		}
	}
}

func TestAnswersThatAreNotStreamed(t *testing.T) {
	var out bytes.Buffer
	sum, err := Run(strings.NewReader(read(t, "g0-v0.8.0", "nonstream.failed_result.http")), &out, Options{})
	if err != nil || sum.Code != "agent_incomplete" || !strings.HasPrefix(out.String(), `{"error":{"message":"API call failed`) {
		t.Errorf("%+v, %v: %s", sum, err, out.String())
	}
}

func TestExplanation(t *testing.T) {
	var out bytes.Buffer
	sum, err := Run(strings.NewReader(read(t, "g0-v0.8.0", "one_tool.sse")), &out, Options{Explain: true, Width: 80})
	if err != nil || sum.Code != "" {
		t.Fatalf("%+v, %v", sum, err)
	}
	got := out.String()
	for _, want := range []string{
		"    1  =  data: {… \"choices\"", "    4  ~  data: {… \"choices\"", "\n          §1 a tool marker, the whole content of one chunk: leaves the text\n",
		"\n          §2 tool terminal starts: its marker is here\n       +  event: hermes.tool.progress\n       +  data: {… ", "§2 tool terminal has ended: what comes now proves it",
		"=  data: [DONE]\n", "\nended well, finish_reason stop, id chatcmpl-",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if n := len([]rune(line)); n > 80+12 && !strings.HasPrefix(line, "ended") {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	for _, in := range []string{
		"event: hermes.tool.progress\ndata: {\"tool\": \"evil\\u001b]0;x\\u0007\\nfake\", \"emoji\": \"x\", \"label\": \"\\u202ey\"}\n\n",
		"data: {\"choices\": [\u202e\u2028\n\n",
	} {
		out.Reset()
		if _, err := Run(strings.NewReader(in), &out, Options{Explain: true, Meta: recording.Meta{Path: "/v1/chat/completions", Outcome: "\x1b"}}); err != nil || strings.ContainsAny(out.String(), "\x1b\x07\u202e\u2028") || strings.Contains(out.String(), "\nfake") {
			t.Errorf("what a terminal acts upon: %q", out.String())
		}
	}
	out.Reset()
	if _, err := Run(strings.NewReader("data: {\"choices\": [\x1b[31m\n\n"), &out, Options{Explain: true}); err != nil || strings.Contains(out.String(), "\x1b") {
		t.Errorf("a control character reaches the terminal: %q", out.String())
	}
}

// failing fails to read and to write.
type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errors.New("broken") }
func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestErrorsOfFiles(t *testing.T) {
	if _, err := Run(failing{}, new(bytes.Buffer), Options{}); err == nil {
		t.Error("no error of reading")
	}
	for _, o := range []Options{{}, {Explain: true}} {
		for _, in := range []string{"data: [DONE]\n\n", "{}"} {
			if _, err := Run(strings.NewReader(in), failing{}, o); err == nil {
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
		var out bytes.Buffer
		sum, err := Run(strings.NewReader(body), &out, Options{Meta: c.m, Explain: true})
		if err != nil || sum.Code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%+v: %+v, %v\n%s", c.m, sum, err, out.String())
		}
	}
	var out bytes.Buffer
	if _, err := Run(strings.NewReader(read(t, "g0-v0.8.0", "one_tool.sse")), &out, Options{Meta: recording.Meta{Progress: "comment"}}); err != nil || !strings.Contains(out.String(), ": hermes.tool.progress {") {
		t.Errorf("%v: %s", err, out.String())
	}
}

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
