package agentapi

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

const (
	createdFrame = `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1"}}` + "\n\n"
	startedFrame = `data: {"event":"tool.started","run_id":"run_1","tool":"t"}` + "\n\n"
)

var responseParams, runParams, sessionParams = contract.Params{Responses: true}, contract.Params{RunID: "run_1"}, contract.Params{SessionID: "s"}

// feed feeds the frames to a stream, and returns it with what has left.
func feed(p contract.Params, frames ...string) (*Stream, string) {
	var edits sse.Splice
	var out sse.Writer
	s := New(&p, nil)
	for _, in := range frames {
		var f sse.Frame
		f.Parse([]byte(in))
		s.Frame(&out, &f, &edits)
	}
	return s, string(out.Take())
}

// What a stream is, and whether an event ends it.
func TestKindsAndEnds(t *testing.T) {
	for _, c := range []struct {
		name         string
		p            contract.Params
		frame        string
		known, ended bool
	}{
		{"a response", responseParams, createdFrame, true, false},
		{"its end", responseParams, strings.Replace(createdFrame, "created", "done", 1), true, true},
		{"neither a response nor a number", responseParams, `data: {"type":"response.created"}` + "\n\n", false, false},
		{"another name", responseParams, "event: x\n" + createdFrame, false, false},
		{"no JSON", responseParams, "data: x\n\n", false, false},
		{"a run's event elsewhere", responseParams, startedFrame, false, false},
		{"a run", runParams, startedFrame, true, false},
		{"its end", runParams, strings.Replace(startedFrame, "tool.started", "run.interrupted", 1), true, true},
		{"an event that is none of a run's", runParams, strings.Replace(startedFrame, "tool.started", "on_end", 1), true, false},
		{"a session's end, whatever its data", sessionParams, "event: done\ndata: x\n\n", true, true},
		{"an error in a session", sessionParams, "event: error\ndata: {}\n\n", true, false},
	} {
		if s, out := feed(c.p, c.frame); s.Known() != c.known || s.Ended() != c.ended || out != c.frame {
			t.Errorf("%s: known is %v, ended is %v, %q", c.name, s.Known(), s.Ended(), out)
		}
	}
}

// The beginning of a large frame says what it is, or it may have been the last one.
func TestLargeFrames(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		limit       int
		cut, clean  bool // whether the stream counts as cut, and if upstream has ended cleanly
	}{
		{"its end", `data: {"type":"response.completed","response":{"output":["`, 64, false, false},
		{"its end by the name alone", "event: response.completed\ndata: {\"a\":\"", 64, false, false},
		{"an event", `data: {"type":"response.output_text.done","text":"`, 64, true, true},
		{"any", `data: {"text":"`, 64, true, false},
		{"the beginning of a name", "event: response.completed", 20, true, false},
		{"a comment", `: response.completed`, 64, true, true},
	} {
		s, _ := feed(responseParams, createdFrame)
		s.Raw([]byte(c.frame), false, c.limit)
		s.Raw([]byte("\n\n"), true, c.limit)
		if cut, clean := s.Cut(contract.CodeAborted), s.Cut(contract.CodeIncomplete); cut != c.cut || clean != c.clean {
			t.Errorf("%s: cut is %v, and %v at a clean end", c.name, cut, clean)
		}
	}
}

// What a stream lacks is written in its own form, after the ends of its tools.
func TestWhatACutStreamGets(t *testing.T) {
	const message = `"the connection to the agent was lost before its answer was complete"`
	for _, c := range []struct {
		p            contract.Params
		frames, want string
	}{
		{runParams, startedFrame, `data: {"event": "tool.completed", "run_id": "run_1", "tool": "t", "duration": 0.0, "error": true}` + "\n\n" +
			`data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		{runParams, "", `data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		{responseParams, createdFrame, `data: {"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error",` +
			`"message":` + message + `}},"sequence_number":1}` + "\n\n"},
		{sessionParams, "id: 4\nevent: error\ndata: {\"session_id\":\"s\",\"seq\":7,\"ts\":2}\n\n", `id: 5` + "\nevent: done\n" + `data: {"session_id": "s", "seq": 8, "ts": 2}` + "\n\n"},
	} {
		s, out := feed(c.p, c.frames)
		w := sse.Writer{Bytes: []byte(out)}
		s.Finish(&w, contract.CodeAborted, 0)
		if got := strings.TrimPrefix(string(w.Bytes), c.frames); got != c.want {
			t.Errorf("after %q\n%s\nwant\n%s", c.frames, got, c.want)
		}
	}
}

// Very many secrets of a text, whose rest is replaced as a whole, do not hide those of an error
// after it.
func TestSecretsOfATextAndOfAnErrorAfterIt(t *testing.T) {
	text := "Provider said: " + strings.Repeat("sk-abcdefghijkl ", 300)
	event := func(text, key string) string {
		return `data: {"type":"response.completed","sequence_number":1,"response":{"output":[{"type":"message","content":[` +
			`{"type":"output_text","text":"` + text + `"}]}],"error":{"message":"` + key + `"}},"error":"` + key + `"}` + "\n\n"
	}
	want := event(strings.ReplaceAll(text, "sk-abcdefghijkl", "[redacted]"), "[redacted]")
	if _, got := feed(responseParams, event(text, "sk-abcdefghijkl")); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// A status that is no JSON is no event, even if its brackets match: it is redacted as text.
func TestSecretsOfAStatusThatIsNoJSON(t *testing.T) {
	for _, data := range []string{`{"kind"sk-abcdefghijkl: "x"}`, `{"text": sk-abcdefghijkl"x"}`, `{"text": "x"}`[:12] + "sk-abcdefghijkl"} {
		in := "event: hermes.status\ndata: " + data + "\n\n"
		if _, got := feed(sessionParams, in); got != strings.ReplaceAll(in, "sk-abcdefghijkl", "[redacted]") {
			t.Errorf("%q", got)
		}
	}
}
