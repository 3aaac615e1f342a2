package rewrite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

var causes = []Cause{CauseEOF, CauseAborted, CauseTimeout, CauseShutdown}

// others returns the recordings of event streams that are none of chat completions, nor of
// a session.
func others(t testing.TB) (rs []recording) {
	t.Helper()
	for _, r := range recordings(t) {
		if !r.chat() && !r.session() && !strings.HasPrefix(r.body, "{") {
			rs = append(rs, r)
		}
	}
	if len(rs) < 10 {
		t.Fatalf("%d recordings of other streams only", len(rs))
	}
	return rs
}

// otherParams are those of a request for such a stream: that for a run's events
// has the run's id in its path.
func otherParams(body string) Params {
	if strings.Contains(body, `"run_id"`) {
		return Params{RunID: "run_1"}
	}
	return Params{}
}

// reframed returns body in the framings of an event stream.
func reframed(body string) map[string]string {
	return map[string]string{
		"LF":            body,
		"CRLF":          strings.ReplaceAll(body, "\n", "\r\n"),
		"CR":            strings.ReplaceAll(body, "\n", "\r"),
		"BOM":           "\ufeff" + body,
		"BOM and CRLF":  "\ufeff" + strings.ReplaceAll(body, "\n", "\r\n"),
		"comments":      ": hello\n\n" + strings.ReplaceAll(body, "\n\n", "\n\n: keepalive\n\n"),
		"lone comments": strings.ReplaceAll(body, "\n\n", "\n\n: keepalive\n"),
		"more fields":   "retry: 5\n\n" + strings.ReplaceAll(body, "data: {", "id: 7\ndata: {"),
	}
}

// ends tells whether an event with the data is the one that ends a stream.
func ends(data string) bool {
	for _, name := range []string{"response.completed", "response.failed", "run.completed", "run.failed", "run.cancelled"} {
		if strings.HasPrefix(data, `{"type": "`+name+`"`) || strings.HasPrefix(data, `{"event": "`+name+`"`) {
			return true
		}
	}
	return false
}

func TestOtherStreamsThatAreCompletePassByteForByte(t *testing.T) {
	for _, r := range others(t) {
		for framing, in := range reframed(r.body) {
			for _, cause := range causes {
				for _, cut := range []cutter{inOne, oneByte, atRandom(3, 99)} {
					out, sum := run(in, Options{}, otherParams(in), cut, cause)
					same(t, out, in, r.name()+" in "+framing+": bytes")
					want := ""
					if strings.Contains(in, `"response.failed"`) || strings.Contains(in, `"run.failed"`) {
						want = CodeAgentError
					}
					if sum.Code != want || !strings.Contains(in, `"`+sum.ID+`"`) || sum.ID == "" {
						t.Errorf("%s: %+v", r.name(), sum)
					}
				}
			}
		}
	}
}

// wholeFrames returns the frames of a part of a recording that count, without
// their blank lines, and whether one of them ends the stream.
func wholeFrames(in string) (frames []string, ended bool) {
	for in != "" {
		frame, rest, ok := strings.Cut(in, "\n\n")
		frame = strings.TrimSuffix(frame, "\n")
		last := frame[strings.LastIndex(frame, "\n")+1:]
		data, isData := strings.CutPrefix(last, "data: ")
		if !isData || !ok && !json.Valid([]byte(data)) {
			break
		}
		frames, ended, in = append(frames, frame), ended || ends(last[6:]), rest
	}
	return frames, ended
}

// otherEvent is what the tests read of an event of a run or of a response.
type otherEvent struct {
	Event, Type string
	RunID       string      `json:"run_id"`
	Timestamp   json.Number `json:"timestamp"`
	Seq         *int        `json:"seq"`
	Tool        string
	OutputIndex int `json:"output_index"`
	Item        struct {
		Type, ID, Name, Arguments string
		CallID                    string `json:"call_id"`
	}
}

// failedBehind returns the events that end a recording whose frames so far are these: the
// ends of open tools, and that it has failed.
func failedBehind(frames []string, cause Cause) (ends string) {
	message := string(jsonspan.Quote(Message(cause.Code())))
	first := frames[0]
	isRun := !strings.HasPrefix(first, "event:")
	var open []otherEvent
	var last otherEvent
	seq, index := len(frames), 0
	for _, f := range frames {
		var e otherEvent
		if err := json.Unmarshal([]byte(f[strings.Index(f, "data: ")+6:]), &e); err != nil {
			panic(err)
		}
		last, index = e, max(index, e.OutputIndex+1)
		called := slices.IndexFunc(open, func(o otherEvent) bool { return o.Tool == e.Tool && o.Item.CallID == e.Item.CallID })
		switch {
		case e.Event == "tool.started", called < 0 && e.Item.Type == "function_call":
			open = append(open, e)
		case e.Event == "tool.completed", e.Item.Type == "function_call_output" && called >= 0:
			open = slices.Delete(open, called, called+1)
		case e.Item.Type == "function_call":
			open[called].Type = e.Type
		}
	}
	number := ""
	write := func(name, format string, values ...any) {
		switch {
		case isRun && last.Seq != nil:
			*last.Seq++
			ends += fmt.Sprintf("id: %d\n", *last.Seq)
			number = fmt.Sprintf(`, "seq": %d`, *last.Seq)
		case !isRun:
			ends += "event: " + name + "\n"
			number = fmt.Sprintf(`,"sequence_number":%d`, seq)
			seq++
		}
		ends += "data: {" + fmt.Sprintf(format, values...) + number + "}\n\n"
	}
	for _, e := range open {
		if isRun {
			write("", `"event": "tool.completed", "run_id": "%s", "timestamp": %s, "tool": "%s", "duration": 0.0, "error": true`, last.RunID, last.Timestamp, e.Tool)
			continue
		}
		if e.Type == "response.output_item.added" {
			write("response.output_item.done", `"type":"response.output_item.done","output_index":%d,"item":{"id": "%s", "type": "function_call", "status": "incomplete", "name": "%s", "call_id": "%s", "arguments": %s}`,
				e.OutputIndex, e.Item.ID, e.Item.Name, e.Item.CallID, asciiJSON(e.Item.Arguments))
		}
		for _, what := range []string{"response.output_item.added", "response.output_item.done"} {
			write(what, `"type":"%s","output_index":%d,"item":{"type":"function_call_output","id":"fco_%s","call_id":"%s","output":[{"type":"input_text","text":"Error: interrupted"}],"status":"incomplete"}`, what, index, e.Item.CallID, e.Item.CallID)
		}
		index++
	}
	if isRun {
		write("", `"event": "run.failed", "run_id": "%s", "timestamp": %s, "error": %s`, last.RunID, last.Timestamp, message)
		return ends
	}
	from, to := strings.Index(first, `"response": `)+len(`"response": `), strings.Index(first, `}, "sequence_number"`)
	write("response.failed", `"type":"response.failed","response":%s,"error":{"code":"server_error","message":%s}}`, strings.Replace(first[from:to], `"status": "in_progress"`, `"status": "failed"`, 1), message)
	return ends
}

// A recording cut at any byte ends with the ends of its open tools and one failed event after
// upstream's complete ones, and passes as it is once it has had its own last event.
func TestOtherStreamsCutAnywhere(t *testing.T) {
	for _, r := range others(t) {
		for i := 0; i < len(r.body); i += cutStride {
			in := r.body[:i]
			inOne, ended := wholeFrames(in)
			for _, cause := range causes {
				want := in
				switch {
				case len(inOne) == 0 && otherParams(r.body).RunID != "":
					want = `data: {"event": "run.failed", "run_id": "run_1", "error": ` + string(jsonspan.Quote(Message(cause.Code()))) + "}\n\n"
				case len(inOne) == 0 || ended && cause == CauseEOF:
				case ended: // its last event may lack the blank line
					if n := strings.Join(inOne, "\n\n") + "\n\n"; len(n) > len(in) {
						want = n
					}
				default:
					want = strings.Join(inOne, "\n\n") + "\n\n" + failedBehind(inOne, cause)
				}
				out, _ := run(in, Options{}, otherParams(r.body), atRandom(uint64(i), 99), cause)
				same(t, out, want, fmt.Sprintf("%s cut at %d with cause %d: bytes", r.name(), i, cause))
				again, _ := run(out, Options{}, otherParams(r.body), oneByte, CauseEOF)
				same(t, again, out, "outputs of a second sidecar")
				if t.Failed() {
					return
				}
			}
		}
	}
}

// Nothing is held back but frames that are not complete, and none beyond the
// limit.
func TestOtherStreamLeavesEventByEvent(t *testing.T) {
	for _, r := range others(t) {
		s := New(&Options{}, otherParams(r.body))
		for _, f := range strings.SplitAfter(r.body, "\n\n") {
			same(t, string(s.Feed(nil, []byte(f), epoch)), f, r.name()+": events")
		}
		if !s.Guarded() || s.Active() || !s.Done() {
			t.Errorf("%s: guarded %v, active %v, done %v", r.name(), s.Guarded(), s.Active(), s.Done())
		}
	}
}

func TestOtherStreamsInEveryFramingAndCut(t *testing.T) {
	for _, r := range others(t) {
		if r.generation != "g3-v0.20.3" {
			continue
		}
		cut := strings.LastIndex(r.body, "data: {") - 20
		if cut < 0 {
			continue
		}
		for framing, in := range reframed(r.body[:cut]) {
			for _, o := range []Options{{}, {MaxFrame: 300}, {MaxFrame: 20}} {
				want, wantSum := run(in, o, otherParams(r.body), inOne, CauseAborted)
				if n := strings.Count(want, `.failed"`); o.MaxFrame == 0 && (n != 1 || wantSum.Code != CodeAborted) {
					t.Errorf("%s in %s: %d failed events, %+v", r.name(), framing, n, wantSum)
				}
				for i := 0; i <= len(in); i += cutStride {
					s := New(&o, otherParams(r.body))
					out := s.Feed(nil, []byte(in[:i]), epoch)
					out = s.Feed(out, []byte(in[i:]), epoch)
					same(t, string(s.Finish(out, CauseAborted)), want, fmt.Sprintf("%s in %s: outputs", r.name(), framing))
					if s.Summary() != wantSum {
						t.Errorf("summary %+v, want %+v", s.Summary(), wantSum)
					}
					if t.Failed() {
						return
					}
				}
			}
		}
	}
}

// What only looks like one of the streams is none: nothing is added to it.
func TestLookAlikesOfOtherStreamsPass(t *testing.T) {
	for name, in := range map[string]string{
		"a name that is not the type":   named("response.created", `{"type": "response.in_progress", "response": {"id": "r"}, "sequence_number": 0}`),
		"another name":                  named("x", `{"type": "response.created", "response": {"id": "r"}, "sequence_number": 0}`),
		"no response and no number":     `data: {"type": "response.text", "text": "x"}` + "\n\n",
		"another type":                  `data: {"type": "responses", "response": {}, "sequence_number": 0}` + "\n\n",
		"a type that is no string":      `data: {"type": ["response.created"], "response": {}, "sequence_number": 0}` + "\n\n",
		"an array":                      `data: [{"type": "response.created", "response": {}, "sequence_number": 0}]` + "\n\n",
		"an object that is torn":        `data: {"type": "response.created", "response": {}, "sequence_number": 0` + "\n\n",
		"LangChain's events":            `data: {"event": "on_chain_start", "run_id": "b7a0", "name": "x", "data": {}}` + "\n\n",
		"Agno's events":                 `data: {"event": "RunContent", "run_id": "b7a0", "content": "x"}` + "\n\n",
		"a named event of a run":        named("message.delta", `{"event": "message.delta", "run_id": "run_1", "delta": "x"}`),
		"a run without an id":           `data: {"event": "message.delta", "delta": "x"}` + "\n\n",
		"a run whose id is no string":   `data: {"event": "message.delta", "run_id": 1, "delta": "x"}` + "\n\n",
		"an event of the Assistants":    named("thread.run.created", `{"id": "run_1", "object": "thread.run", "status": "queued"}`),
		"[DONE] alone":                  doneFrame,
		"an error alone":                named("error", `{"type": "error", "message": "x"}`),
		"an answer that is no stream":   `{"id": "resp_1", "object": "response", "status": "completed"}`,
		"comments alone":                ": stream closed\n\n",
		"a chunk of legacy completions": `data: {"id": "cmpl-1", "object": "text_completion", "choices": [{"text": "x", "index": 0}]}` + "\n\n",
	} {
		for _, tail := range []string{"", "\n\ndata: {\"a\": 1}", "data: {\"a", ": x", doneFrame} {
			for _, cause := range causes {
				s := New(&Options{}, Params{})
				out := s.Finish(feedAll(s, in+tail, oneByte), cause)
				same(t, string(out), in+tail, name+": bytes")
				if s.Guarded() || s.Summary().Code != "" {
					t.Errorf("%s: guarded %v, %+v", name, s.Guarded(), s.Summary())
				}
			}
		}
	}
}

func TestOtherStreamThatBecomesOneOfChatCompletions(t *testing.T) {
	in := `data: {"event": "message.delta", "run_id": "run_1", "delta": "x"}` + "\n\n" + role() + text("hi")
	out, sum := run(in, Options{}, Params{}, inOne, CauseAborted)
	look(t, out).checkErrorFinish(t, CodeAborted)
	if strings.Contains(out, "run.failed") || sum.ID != "chatcmpl-1" {
		t.Errorf("%+v of %s", sum, out)
	}
}

// What stands after the object that a member is looked for in is none of it, however
// the quotes of an event that is not well formed stand.
func TestEventWithAQuoteTooManyPasses(t *testing.T) {
	in := `data: {"response": {"a"b" "incomplete_details": {"}": ">", "error": "sk-abcdefgh"}` + "\n\n"
	for _, in := range []string{in, strings.ReplaceAll(in, " ", "")} {
		out, _ := run(in, Options{}, Params{Responses: true}, inOne, CauseEOF)
		same(t, out, in, "bytes")
	}
}

// Where the CR that ends the last event is all that has come of its CRLF, the
// LF comes before the failed event: the two are not torn apart.
func TestFailedEventBehindATornCRLF(t *testing.T) {
	in := strings.ReplaceAll(created(0, responseOfTests), "\n", "\r\n")
	want, _ := run(in, Options{}, Params{}, inOne, CauseAborted)
	out, _ := run(strings.TrimSuffix(in, "\n"), Options{}, Params{}, oneByte, CauseAborted)
	same(t, out, want, "bytes")
}
