package rewrite

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

var causes = []Cause{CauseEOF, CauseAborted, CauseTimeout, CauseShutdown}

// otherStreams returns the recorded event streams other than those of chat completions.
func otherStreams(t testing.TB) (rs []recording) {
	t.Helper()
	for _, r := range recordings(t) {
		if !r.chat() && !strings.HasPrefix(r.body, "{") {
			rs = append(rs, r)
		}
	}
	if len(rs) < 15 {
		t.Fatalf("%d recordings of other streams only", len(rs))
	}
	return rs
}

// otherParams returns the params of a request for such a stream. That of a run's events names it in its path.
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

func TestOtherStreamsThatAreCompletePassByteForByte(t *testing.T) {
	t.Parallel()
	for _, r := range otherStreams(t) {
		want := ""
		if strings.Contains(r.body, `"response.failed"`) || strings.Contains(r.body, `"run.failed"`) || r.scenario == "session.error" {
			want = CodeAgentError
		}
		s := New(&Options{}, r.params())
		for _, f := range frames(r.body) {
			same(t, string(s.Feed(nil, []byte(f), epoch)), f, r.name()+": an event at once")
		}
		if !s.Guarded() || s.Active() || !s.Done() {
			t.Errorf("%s: guarded %v, active %v, done %v", r.name(), s.Guarded(), s.Active(), s.Done())
		}
		for framing, in := range reframed(r.body) {
			for _, cause := range causes {
				out, sum := anyCut(t, in, Options{}, r.params(), cause)
				same(t, out, in, r.name()+" in "+framing+": bytes")
				if sum.Code != want || !strings.Contains(in, `"`+sum.ID+`"`) || sum.ID == "" {
					t.Errorf("%s: %+v", r.name(), sum)
				}
			}
		}
	}
}

// checkFails checks that in gets at its end what it lacks, and that a second sidecar adds nothing.
func checkFails(t *testing.T, name, in, lacks string, p Params, code string) {
	t.Helper()
	out, sum := anyCut(t, in, Options{}, p, CauseEOF)
	same(t, out, in+lacks, name+": bytes")
	equal(t, sum.Code, code, name)
	again, _ := run(out, Options{}, p, oneByte, CauseEOF)
	same(t, again, out, name+": outputs of a second sidecar")
}

// Some events end a stream, whatever comes after them and however it ends.
func TestEventsThatEnd(t *testing.T) {
	for name, code := range map[string]string{
		"response.completed": "", "response.incomplete": "", "response.cancelled": "",
		"response.canceled": "", "response.done": "", "response.failed": CodeAgentError,
		"run.completed": "", "run.cancelled": "", "run.canceled": "", "run.failed": CodeAgentError,
		"run.interrupted": CodeAgentError,
	} {
		in, p := runEvent("message.delta", `, "delta": "a"`)+runEvent(name, ``), Params{RunID: "run_1"}
		late := outputDelta(1) + created(2, responseOfTests)
		if strings.HasPrefix(name, "response") {
			in, p = created(0, responseOfTests)+strings.ReplaceAll(created(1, responseOfTests), "response.created", name), Params{}
			late += strings.ReplaceAll(late, "created", "failed") + strings.ReplaceAll(late, "created", "completed") + named("error", `{"type":"error","message":"late"}`) + doneFrame
		}
		for _, tail := range []string{"", ": stream closed\n\n", ": stream cl", "data: {\"a", doneFrame, late} {
			if p.RunID != "" && strings.Contains(tail, "response") {
				continue
			}
			for _, cause := range causes {
				out, sum := run(in+tail, Options{}, p, oneByte, cause)
				same(t, out, in+tail, name+": bytes")
				equal(t, sum.Code, code, name)
			}
		}
	}
	// One that lacks only its blank line is left alone if upstream has ended the stream so, and closed if it was torn.
	in := created(0, responseOfTests) + strings.TrimSuffix(strings.ReplaceAll(created(1, responseOfTests), "created", "completed"), "\n\n")
	for _, end := range []string{"", "\n"} {
		checkFails(t, "no blank line", in+end, "", Params{}, "")
		out, _ := run(in+end, Options{}, Params{}, inOne, CauseAborted)
		same(t, out, in+"\n\n", "bytes of a torn stream")
	}
}

func TestRunFailed(t *testing.T) {
	message, delta := `"the agent's answer ended before it was complete"`, runEvent("message.delta", ``)
	failed := func(timestamp, seq string) string {
		return strings.Replace(runEvent("run.failed", timestamp+`, "error": `+message+seq), ", }", "}", 1)
	}
	at := func(name, members string) string { return runEvent(name, `, "timestamp": `+members) }
	for name, c := range map[string]struct{ in, want string }{
		"the last timestamp":             {at("message.delta", `1.5, "delta": "a"`) + at("message.delta", `1795165131.688888, "tool": "terminal"`), failed(`, "timestamp": 1795165131.688888`, "")},
		"no timestamp":                   {delta, failed("", "")},
		"no timestamp in the last event": {at("message.delta", `1.5`) + runEvent("approval.request", ``), failed("", "")},
		"a timestamp that is no number":  {at("reasoning.available", `"now"`), failed("", "")},
		"a timestamp that is no JSON":    {at("reasoning.available", `1x`), failed("", "")},
		"another event between":          {at("message.delta", `2`) + "data: {\"event\": \"ping\"}\n\n: x\n\n", failed(`, "timestamp": 2`, "")},
		"a new event":                    {at("message.delta", `2`) + at("subagent.start", `3, "goal": "x"`), failed(`, "timestamp": 3`, "")},
		"numbered, as newer ones are": {"id: 1\n" + at("message.interim", `2, "text": "x"`) + "id: 2\n" + at("run.steered", `4, "accepted": true`),
			"id: 3\n" + failed(`, "timestamp": 4`, "")},
		"numbered twice": {": open\n\nid: 0\n" + at("message.delta", `2, "delta": "x", "seq": 0`) + "id: 1\n" + at("message.delta", `2, "delta": "x", "seq": 1`),
			"id: 2\n" + failed(`, "timestamp": 2`, `, "seq": 2`)},
		"numbered by a member alone": {at("message.delta", `2, "seq": 41`), failed(`, "timestamp": 2`, `, "seq": 42`)},
		"ids that are no numbers": {"id: a/1\n" + runEvent("message.delta", `, "seq": "1"`) + "id:\n" + runEvent("message.delta", `, "seq": 1.5`) +
			"id\n" + runEvent("message.delta", `, "seq": -1`), failed("", "")},
		"ids without a space": {"id:8\nid:9\n" + delta, "id: 10\n" + failed("", "")},
		"open tools": {
			"id: 4\n" + at("tool.started", `1, "tool": "a", "preview": "x", "seq": 4`) + "id: 5\n" + at("tool.started", `2, "tool": "b\u0062", "preview": null, "seq": 5`) +
				"id: 6\n" + at("tool.started", `3, "tool": "a", "seq": 6`) + "id: 7\n" + at("tool.completed", `4, "tool": "a", "duration": 0.1, "error": false, "seq": 7`) +
				"id: 8\n" + at("tool.completed", `5, "tool": "c", "duration": 0.1, "error": false, "seq": 8`),
			"id: 9\n" + at("tool.completed", `5, "tool": "b\u0062", "duration": 0.0, "error": true, "seq": 9`) + "id: 10\n" + at("tool.completed", `5, "tool": "a", "duration": 0.0, "error": true, "seq": 10`) +
				"id: 11\n" + failed(`, "timestamp": 5`, `, "seq": 11`)},
		"an id that is a number": {strings.Replace(delta, `"run_1"`, `7`, 1), failed("", "")},
		"an id that is null":     {strings.Replace(delta, `"run_1"`, `null`, 1), failed("", "")},
		"an id in an array":      {strings.Replace(delta, `"run_1"`, `["run_2"]`, 1), failed("", "")},
		"a long id":              {strings.ReplaceAll(delta, "run_1", strings.Repeat("r", maxEnvelope)), failed("", "")},
		"an end without one":     {delta + ": stream closed\n\n", failed("", "")},
		"nothing":                {"", failed("", "")},
	} {
		checkFails(t, name, c.in, c.want, Params{RunID: "run_1"}, CodeIncomplete)
	}
	in := delta + named("error", `{"message": "overloaded"}`)
	message = `"overloaded"`
	checkFails(t, "an error event", in, failed("", ""), Params{RunID: "run_1"}, CodeAgentError)
}

// The failed event says the cause, whatever a run has shown.
func TestCausesOfOtherStreams(t *testing.T) {
	for cause, code := range causeCodes {
		out, sum := run(created(0, responseOfTests), Options{}, Params{}, inOne, cause)
		if !strings.Contains(out, `"message":"`+Message(code)+`"`) || sum.Code != code || sum.ID != "resp_1" || sum.Model != "gpt" {
			t.Errorf("%+v, %s", sum, out)
		}
		for _, in := range []string{"", ": keepalive\n\n", "data: {\"event\": \"message.delta\", \"ru"} {
			out, sum := run(in, Options{}, Params{RunID: "run_\"1"}, oneByte, cause)
			whole, _, _ := strings.Cut(in, "data")
			same(t, out, whole+`data: {"event": "run.failed", "run_id": "run_\"1", "error": `+string(jsonspan.Quote(Message(code)))+"}\n\n", "bytes")
			equal(t, sum.Code+sum.ID, code+`run_"1`, "summary")
		}
	}
}

// An event of no such stream, or of a stream on another path, passes. A stream is known by its path.
func TestOtherStreamsThatAreNone(t *testing.T) {
	for path, id := range map[string]string{
		"/api/sessions/s1/chat/stream": "s1", "/p/coder/api/sessions/s1/chat/stream": "s1", "/x/p/a/api/sessions/s1/chat/stream": "s1",
		"/api/sessions/s1/chat": "", "/api/sessions/chat/stream": "", "/api/sessions//chat/stream": "", "/api/sessions/a/b/chat/stream": "", "/chat/stream": "", "": "",
		"/v1/sessions/s1/chat/stream": "", "/api/sessions/s1/chat/stream/": "",
	} {
		equal(t, SessionOfPath(path), id, path)
	}
	quote := `data: {"response": {"a"b" "incomplete_details": {"}": ">", "error": "sk-abcdefgh"}` + "\n\n" // is one too many
	for in, p := range map[string]Params{
		readFile(t, "../testdata/written/session.tools.sse")[:900]: {}, runEvent("message.created", `, "text": "hi"`): {},
		quote: {Responses: true}, strings.ReplaceAll(quote, " ", ""): {Responses: true},
	} {
		out, sum := run(in, Options{}, p, oneByte, CauseAborted)
		same(t, out, in, "bytes")
		equal(t, sum.Code == "" || p.Responses, true, "no code")
	}
	in := `data: {"event": "message.delta", "run_id": "run_1", "delta": "x"}` + "\n\n" + role() + text("hi") // becomes a chat
	out, sum := run(in, Options{}, Params{}, inOne, CauseAborted)
	look(t, out).checkErrorFinish(t, CodeAborted)
	if strings.Contains(out, "run.failed") || sum.ID != "chatcmpl-1" {
		t.Errorf("%+v of %s", sum, out)
	}
	in = inCRLF(created(0, responseOfTests)) // whose CR is all that has come of the last CRLF: the two are not torn apart
	want, _ := run(in, Options{}, Params{}, inOne, CauseAborted)
	out, _ = run(strings.TrimSuffix(in, "\n"), Options{}, Params{}, oneByte, CauseAborted)
	same(t, out, want, "bytes")
}

// callID matches the id of a call, or of its output, in an event of a response.
var callID = regexp.MustCompile(`"type": ?"(function_call|function_call_output)".*?"call_id": ?"([^"]+)"`)

// checkLacks checks that out, which ends with what a stream of r lacked, has the end of each tool that
// has started, and one event that says that it failed, or that upstream has said so before.
func checkLacks(t *testing.T, r recording, out, lacked string, cause Cause) {
	t.Helper()
	for _, e := range decode(lacked) {
		equal(t, json.Valid([]byte(e.data)), true, e.data)
	}
	count := func(name string) int { return strings.Count(out, name) }
	ended := map[string]bool{}
	for _, m := range callID.FindAllStringSubmatch(out, -1) {
		ended[m[2]] = ended[m[2]] || m[1] == "function_call_output"
	}
	for id, is := range ended {
		equal(t, is, true, id+" has an output")
	}
	equal(t, count(`"event": "tool.started"`), count(`"event": "tool.completed"`), "ends of tools of a run")
	equal(t, count("event: tool.started\n"), count("event: tool.completed\n")+count("event: tool.failed\n"), "ends of tools of a session")
	equal(t, count(`"event": "run.failed"`)+count(`"type":"response.failed"`)+count("event: error\n"), 1, "failures")
	equal(t, r.session(), strings.HasPrefix(lacked[strings.LastIndex("\n\n"+strings.TrimSuffix(lacked, "\n\n"), "\n\n"):], "event: done\n"), "done is last")
	if !strings.Contains(strings.TrimSuffix(out, lacked), "event: error\n") {
		contains(t, lacked, string(jsonspan.Quote(Message(cause.Code()))))
	}
}

// lastEvent matches an event that ends a recording.
var lastEvent = regexp.MustCompile(`(?m)^(event: done$|data: \{"(type|event)": "(response\.(completed|failed)|run\.(completed|failed|cancelled))")`)

// A recording cut at any byte gets the ends of its open tools and says that it has failed
// after upstream's complete events, and passes as it is once it has had its own last event.
func TestOtherStreamsCutAnywhere(t *testing.T) {
	t.Parallel()
	for n, r := range otherStreams(t) {
		for i := range placesOf(len(r.body)-1, n) {
			in := r.body[:i]
			known := completeFrames(in)
			unknown := known == "" && !r.session() && r.params().RunID == ""
			over := unknown || lastEvent.MatchString(known)
			n++
			for _, cause := range []Cause{CauseEOF, causes[1+n%3]} {
				want, code := known, cause.Code()
				switch rest := in[min(len(known), i):]; {
				case over && (cause == CauseEOF || len(known) < len(in)):
					want = in
				case rest == ": keepalive\n": // a comment leaves line by line
					want += rest
				}
				out, sum := run(in, Options{}, r.params(), atRandom(uint64(i), 99), cause)
				begins(t, out, want)
				if over {
					same(t, out, want, "bytes")
				} else {
					checkLacks(t, r, out, out[min(len(out), len(want)):], cause)
				}
				if r.session() && strings.Contains(known, "event: error") {
					code = CodeAgentError
				}
				equal(t, over || sum.Code == code, true, "the code "+code)
				again, _ := run(out, Options{}, r.params(), atRandom(uint64(i), 99), CauseEOF)
				if same(t, again, out, "outputs of a second sidecar"); t.Failed() {
					t.Fatalf("%s cut at %d with cause %d: %+v\n%s", r.name(), i, cause, sum, out)
				}
			}
		}
	}
}

// Nothing is added to a stream that only looks like one of Hermes.
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

// The events of the tests are built as the API's reference has them.

func created(seq int, members string) string {
	return named("response.created", fmt.Sprintf(`{"type":"response.created","sequence_number":%d,"response":{%s}}`, seq, members))
}

const responseOfTests = `"id":"resp_1","object":"response","created_at":1741487325,"status":"in_progress","error":null,"incomplete_details":null,"model":"gpt","output":[],"usage":null,"metadata":{}`

func outputDelta(seq int) string {
	return named("response.output_text.delta", fmt.Sprintf(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"In","sequence_number":%d}`, seq))
}

// unnamed takes the event lines out of a stream.
func unnamed(stream string) string {
	var b strings.Builder
	for line := range strings.Lines(stream) {
		if !strings.HasPrefix(line, "event:") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// callEvent is an event of a function call of a response.
func callEvent(what string, index int, id string, seq int) string {
	return named("response.output_item."+what, fmt.Sprintf(`{"type":"response.output_item.%s","output_index":%d,"item":{"type":"function_call","id":"fc_%s","status":"x","name":"n","call_id":"%s","arguments":"{}"},"sequence_number":%d}`, what, index, id, id, seq))
}

// outputEvents are the output of a call that is interrupted.
func outputEvents(index int, id string, seq int) (events string) {
	for i, name := range []string{"response.output_item.added", "response.output_item.done"} {
		events += named(name, fmt.Sprintf(`{"type":"%s","output_index":%d,"item":{"type":"function_call_output","id":"fco_%s","call_id":"%s","output":[{"type":"input_text","text":"Error: interrupted"}],"status":"incomplete"},"sequence_number":%d}`, name, index, id, id, seq+i))
	}
	return events
}

const incompleteError = `{"code":"server_error","message":"the agent's answer ended before it was complete"}`

func TestResponseFailed(t *testing.T) {
	failed := func(response, more string) string {
		return named("response.failed", `{"type":"response.failed","response":`+response+more+`}`)
	}
	full := `{"id":"resp_1","object":"response","created_at":1741487325,"status":"failed","error":` + incompleteError +
		`,"incomplete_details":null,"model":"gpt","output":[],"usage":null,"metadata":{}}`
	p := Params{ID: always("chatcmpl-abc"), Created: 1700000000}
	huge := strings.Repeat("x", maxResponse)
	const unknown = `{"id":"resp_abc","object":"response","status":"failed","created_at":1700000000,"model":"hermes-agent","output":[],"error":` + incompleteError + `}`
	for name, c := range map[string]struct{ in, want string }{
		"the next number": {
			created(0, responseOfTests) + outputDelta(1), failed(full, `,"sequence_number":2`)},
		"numbers that do not begin with 0": {
			created(41, responseOfTests) + outputDelta(57), failed(full, `,"sequence_number":58`)},
		"numbers in disorder": {
			created(9, responseOfTests) + outputDelta(3), failed(full, `,"sequence_number":10`)},
		"no numbers": {
			named("response.created", `{"type":"response.created","response":{`+responseOfTests+`}}`), failed(full, "")},
		"a number that is none": {
			named("response.created", `{"type":"response.created","sequence_number":1.5e300,"response":{`+responseOfTests+`}}`), failed(full, "")},
		"no event lines": {
			unnamed(created(0, responseOfTests) + outputDelta(1)), unnamed(failed(full, `,"sequence_number":2`))},
		"events named message": {
			strings.ReplaceAll(created(0, responseOfTests), "event: response.created", "event: message"), unnamed(failed(full, `,"sequence_number":1`))},
		"the last response that was shown": {
			created(0, `"id":"old"`) + strings.ReplaceAll(created(1, responseOfTests), "created", "queued") + strings.ReplaceAll(created(2, responseOfTests), "response.created", "response.in_progress"),
			failed(full, `,"sequence_number":3`)},
		"members in any order, with escapes and white space": {
			created(0, ` "st\u0061t":1, "error" : {"a":"}"} , "id" : "r\u0031" , "status" : "in_progress" `),
			failed(`{ "st\u0061t":1, "error" : `+incompleteError+` , "id" : "r\u0031" , "status" : "failed" }`, `,"sequence_number":1`)},
		"no status and no error": {
			created(0, `"id":"resp_1"`), failed(`{"id":"resp_1","status":"failed","error":`+incompleteError+`}`, `,"sequence_number":1`)},
		"an empty response": {
			created(0, ``), failed(`{"status":"failed","error":`+incompleteError+`}`, `,"sequence_number":1`)},
		"data of several lines": {
			"event: response.created\ndata: {\"type\":\"response.created\",\ndata: \"response\":{\"id\":\"resp_1\",\ndata: \"status\":\"queued\"}}\n\n",
			failed(`{"id":"resp_1", "status":"failed","error":`+incompleteError+`}`, "")},
		"open calls": {
			created(0, `"id":"resp_1"`) + callEvent("added", 0, "a", 1) + callEvent("added", 1, "b", 2) + callEvent("done", 1, "b", 3),
			strings.Replace(callEvent("done", 0, "a", 4), `"x"`, `"incomplete"`, 1) + outputEvents(2, "a", 5) + outputEvents(3, "b", 7) +
				failed(`{"id":"resp_1","status":"failed","error":`+incompleteError+`}`, `,"sequence_number":9`)},
		"open calls with one id": {
			created(0, `"id":"resp_1"`) + callEvent("added", 0, "a", 1) + callEvent("added", 1, "a", 2) + callEvent("done", 1, "a", 3),
			strings.Replace(callEvent("done", 0, "a", 4), `"x"`, `"incomplete"`, 1) + outputEvents(2, "a", 5) + outputEvents(3, "a", 7) +
				failed(`{"id":"resp_1","status":"failed","error":`+incompleteError+`}`, `,"sequence_number":9`)},
		"an id that comes again": {
			created(0, `"id":"resp_1"`) + callEvent("added", 0, "a", 1) + callEvent("done", 0, "a", 2) + outputEvents(1, "a", 3) + callEvent("added", 2, "a", 5) + callEvent("done", 2, "a", 6),
			outputEvents(3, "a", 7) + failed(`{"id":"resp_1","status":"failed","error":`+incompleteError+`}`, `,"sequence_number":9`)},
		"no response was shown": {
			outputDelta(7), failed(unknown, `,"sequence_number":8`)},
		"a response that is too large to remember": {
			created(0, responseOfTests+`,"instructions":"`+huge+`"`),
			failed(`{"id":"resp_1","object":"response","status":"failed","created_at":1741487325,"model":"gpt","output":[],"error":`+incompleteError+`}`, `,"sequence_number":1`)},
		"a large one with empty members": {
			created(0, `"id":"","created_at":null,"model":"","x":"`+huge+`"`), failed(unknown, `,"sequence_number":1`)},
		"a large one with odd members": {
			created(0, `"id":7,"created_at":"now","model":["m"],"x":"`+huge+`"`), failed(unknown, `,"sequence_number":1`)},
		"a secret": {
			created(0, `"id":"r","last_error":"\u0085 sk-abcdEFGH"`),
			failed(`{"id":"r","last_error":"\u0085 [redacted]","status":"failed","error":`+incompleteError+`}`, `,"sequence_number":1`)},
		"a response that is no JSON": {
			created(0, `"id":"resp_1","model":nil`), failed(`{"id":"resp_1","object":"response","status":"failed","created_at":1700000000,"model":"hermes-agent","output":[],"error":`+incompleteError+`}`, `,"sequence_number":1`)},
		"a response that is nested too deep": {
			created(0, `"id":"resp_1","model":"m","a":`+strings.Repeat("[", jsonspan.MaxDepth+1)+strings.Repeat("]", jsonspan.MaxDepth+1)),
			failed(`{"id":"resp_1","object":"response","status":"failed","created_at":1700000000,"model":"m","output":[],"error":`+incompleteError+`}`, `,"sequence_number":1`)},
	} {
		checkFails(t, name, c.in, c.want, p, CodeIncomplete)
	}
}

// A [DONE] without a last event ends a stream that was cut before it.
func TestDoneOfAResponseThatHasNotEnded(t *testing.T) {
	in := created(0, responseOfTests)
	failed, _ := run(in, Options{}, Params{}, inOne, CauseEOF)
	for _, tail := range []string{"", "\n", ": x\n\n"} {
		out, sum := run(in+doneFrame+tail, Options{}, Params{}, oneByte, CauseAborted)
		same(t, out, failed+doneFrame+tail, "bytes")
		equal(t, sum.Code, CodeIncomplete, "the code")
	}
	out, _ := run(in+doneFrame+outputDelta(1)+created(2, responseOfTests), Options{}, Params{}, oneByte, CauseEOF)
	same(t, out, failed+doneFrame, "bytes with events after [DONE]")
	out, _ = run(in+doneFrame+named("x", strings.Repeat("x", 1000)), Options{MaxFrame: 400}, Params{}, oneByte, CauseEOF)
	same(t, out, failed+doneFrame, "bytes with a large frame after [DONE]")
	out, _ = run(in+"data: [DONE]", Options{}, Params{}, oneByte, CauseEOF)
	same(t, out, failed+doneFrame, "bytes with a [DONE] that lacks its blank line")
	for _, tail := range []string{"data: {\"type\": \"resp", "data: {\"error\": \"sk-abcdef123456\"}\n", "event: x", ": x"} { // what has no end passes no more than what has one
		out, _ = run(in+doneFrame+tail, Options{}, Params{}, oneByte, CauseEOF)
		same(t, out, failed+doneFrame, "bytes with a tail after [DONE]")
	}
	crlf := strings.ReplaceAll(in+doneFrame, "\n", "\r\n")
	out, _ = run(crlf, Options{}, Params{}, oneByte, CauseEOF)
	same(t, out, strings.ReplaceAll(in, "\n", "\r\n")+strings.TrimPrefix(failed, in)+"data: [DONE]\r\n\r\n", "bytes with CRLF")
}

// An error event does not end a response. The event that ends it repeats the error, without secrets.
func TestErrorEventOfAResponse(t *testing.T) {
	for name, c := range map[string]struct{ event, message, number string }{
		"the reference's":     {named("error", `{"type":"error","code":"x","message":"over\u006coaded","param":null,"sequence_number":1}`), `over\u006coaded`, "2"},
		"with an object":      {named("error", `{"type":"error","sequence_number":1,"error":{"type":"t","code":"c","message":"overloaded"}}`), "overloaded", "2"},
		"unnamed":             {`data: {"type":"error","message":"overloaded","sequence_number":5}` + "\n\n", "overloaded", "6"},
		"an error alone":      {`data: {"error":{"message":"overloaded"}}` + "\n\n", "overloaded", "1"},
		"a string":            {`data: {"error":"overloaded"}` + "\n\n", "overloaded", "1"},
		"with a secret":       {named("error", `{"type":"error","message":"bad key sk-abcdef123456"}`), "bad key [redacted]", "1"},
		"without a message":   {named("error", `{"type":"error"}`), "", "1"},
		"with a long one":     {named("error", `{"type":"error","message":"`+strings.Repeat("x", 2*maxMessage)+`"}`), strings.Repeat("x", maxMessage), "1"},
		"a secret at its cut": {named("error", `{"type":"error","message":"`+strings.Repeat("x", maxMessage-20)+` sk-abcdef123456 tail tail"}`), strings.Repeat("x", maxMessage-20) + " [redacted] tail tai", "1"},
		"null":                {`data: {"error":null}` + "\n\n", "", "1"},
		"of another event":    {named("x", `{"error":"overloaded"}`), "", "1"},
		"of no valid string":  {named("error", `{"type":"error","message":"\x"}`), "", "1"},
	} {
		in := created(0, responseOfTests) + c.event
		out, sum := run(in, Options{}, Params{}, oneByte, CauseAborted)
		code := CodeAgentError
		if c.message == "" {
			c.message, code = Message(CodeAborted), CodeAborted
		}
		in = strings.Replace(in, "sk-abcdef123456", redacted, 1)
		want := `"error":{"code":"server_error","message":"` + c.message + `"}`
		if !strings.HasPrefix(out, in) || !strings.Contains(out[len(in):], want) || !strings.HasSuffix(out, `,"sequence_number":`+c.number+"}\n\n") || sum.Code != code {
			t.Errorf("%s: %+v, %s", name, sum, strings.TrimPrefix(out, in))
		}
	}
}

func TestResponseRememberedIsBounded(t *testing.T) {
	s := New(&Options{}, Params{})
	got := held(s, rounds(200, func(i int) string {
		n := 199 - i // the last is small: what is held is not the read
		return created(i, fmt.Sprintf(`"id":"%s%d","model":"%s","x":"%s"`, strings.Repeat("i", n*100), n, strings.Repeat("m", n*100), strings.Repeat("x", n*1000)))
	}), func([]byte) {})
	atMost(t, got, maxResponse*3/2+4*maxEnvelope+2*maxIdleBuffer, "bytes that are held")
}

// runEvent is an event of a run as Hermes writes it, with more members.
func runEvent(name, more string) string {
	return `data: {"event": "` + name + `", "run_id": "run_1"` + more + "}\n\n"
}

const sessionID = "sess_3f9c2a"

var sessionParams = Params{SessionID: sessionID, Created: 1795165000}

// sessionFrame is a frame of a session as Hermes writes it, with its own members.
func sessionFrame(name, own string, seq int) string {
	if own != "" {
		own += ", "
	}
	return named(name, fmt.Sprintf(`{%s"session_id": "sess_1", "run_id": "run_1", "seq": %d, "ts": 1795165131.%d}`, own, seq, seq))
}

func TestEndOfASession(t *testing.T) {
	const incomplete = `"message": "the agent's answer ended before it was complete"`
	end := func(seq int) string {
		return sessionFrame("error", incomplete, seq) + strings.Replace(sessionFrame("done", "", seq+1), fmt.Sprintf("131.%d}", seq+1), fmt.Sprintf("131.%d}", seq), 1)
	}
	at := func(frames string, ts int) string { // with the time of the last event
		for i := range 20 {
			frames = strings.ReplaceAll(frames, fmt.Sprintf(`"ts": 1795165131.%d}`, i), fmt.Sprintf(`"ts": 1795165131.%d}`, ts))
		}
		return frames
	}
	started := func(tool, message string, seq int) string {
		return sessionFrame("tool.started", message+`"tool_name": "`+tool+`", "preview": "x", "args": {}`, seq)
	}
	completed := func(tool, message string, seq int) string {
		return sessionFrame("tool.completed", message+`"tool_name": "`+tool+`", "preview": null, "args": null`, seq)
	}
	const m1, m2 = `"message_id": "m1", `, `"message_id": "m2", `
	for name, c := range map[string]struct{ in, want, code string }{
		"nothing open": {sessionFrame("assistant.delta", `"delta": "a"`, 7), at(end(8), 7), CodeIncomplete},
		"tools of one name": {
			started("t", m1, 1) + started("t", m2, 2) + started("u\\u0061", m2, 3) + completed("t", m2, 4),
			at(completed("t", m2, 5)+completed("u\\u0061", m2, 6)+end(7), 4), CodeIncomplete},
		"a tool that failed":                      {started("t", m1, 1) + strings.Replace(completed("t", m1, 2), "completed", "failed", 1), at(end(3), 2), CodeIncomplete},
		"a tool without a message":                {started("t", "", 1), at(completed("t", "", 2)+end(3), 1), CodeIncomplete},
		"an error":                                {started("t", m1, 1) + sessionFrame("error", `"message": "boom"`, 2), at(completed("t", m1, 3)+sessionFrame("done", "", 4), 2), CodeAgentError},
		"an end that was completed, but for done": {sessionFrame("run.completed", m1+`"completed": true`, 3), at(end(4), 3), CodeIncomplete},
		"no numbers":                              {named("assistant.delta", `{"delta": "a"}`), strings.NewReplacer("sess_1", sessionID, `"run_id": "run_1", `, "", "1795165131.1", "1795165000").Replace(at(end(1), 1)), CodeIncomplete},
		"an error of a proxy's": {sessionFrame("assistant.delta", `"delta": "a"`, 1) + `data: {"error": {"message": "overloaded"}}` + "\n\n",
			strings.Replace(at(end(2), 1), incomplete, `"message": "overloaded"`, 1), CodeAgentError},
		"a name that is no JSON": {started("\\x", m1, 1) + started("t", `"message_id": "\x", `, 2), at(end(3), 2), CodeIncomplete},
		"a run that failed":      {sessionFrame("run.failed", m1+`"failed": true`, 1) + sessionFrame("done", "", 2), "", CodeAgentError},
		"a run that failed, but for done": {sessionFrame("run.failed", m1+`"failed": true`, 3),
			strings.Replace(at(end(4), 3), incomplete, `"message": "`+Message(CodeAgentError)+`"`, 1), CodeAgentError},
		"a done that is no JSON": {"event: done\ndata: ok\n\n", "", ""},
	} {
		checkFails(t, name, c.in, c.want, sessionParams, c.code)
	}
	in := sessionFrame("assistant.delta", `"delta": "a"`, 1)
	out, _ := run(in+doneFrame, Options{}, sessionParams, oneByte, CauseEOF)
	same(t, out, in+at(end(2), 1)+doneFrame, "bytes with a [DONE] instead")
}

// The beginning of an event that is larger than max_frame says which tool it starts.
func TestLargeEventsOfASession(t *testing.T) {
	o := Options{MaxFrame: 400}
	big := strings.Repeat("x", 1000)
	in := sessionFrame("run.started", "", 1) + sessionFrame("tool.started", `"message_id": "m", "tool_name": "write_file", "preview": null, "args": {"content": "`+big+`"}`, 2)
	out, _ := anyCut(t, in, o, sessionParams, CauseAborted)
	rest := strings.TrimPrefix(out, in)
	if !strings.HasPrefix(rest, "event: tool.completed\ndata: {\"message_id\": \"m\", \"tool_name\": \"write_file\", ") || !strings.Contains(rest, `"seq": 3`) || !strings.HasSuffix(rest, "event: done\ndata: {\"session_id\": \"sess_1\", \"run_id\": \"run_1\", \"seq\": 5, \"ts\": 1795165131.1}\n\n") {
		t.Errorf("got %q", rest)
	}
	whole := in + sessionFrame("error", `"message": "`+big+`"`, 3)
	out, _ = anyCut(t, whole, o, sessionParams, CauseAborted)
	if rest = strings.TrimPrefix(out, whole); strings.Contains(rest, "event: error") || strings.Count(rest, "event:") != 2 {
		t.Errorf("got %q", rest)
	}
	if _, sum := run(whole+sessionFrame("done", "", 4), o, sessionParams, oneByte, CauseEOF); sum.Code != CodeAgentError {
		t.Errorf("%+v", sum)
	}
}

// Open tools hold as little as those of a chat; the one that started first is forgotten.
func TestOpenToolsOfASessionAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ tools, size, most int }{
		"many":       {100000 / cutStride, 10, maxOpenTools},
		"long names": {100, 60 << 10, maxOpenBytes / (60 << 10)},
		"too long":   {3, maxOpenBytes + 1, 0},
	} {
		s := New(&Options{}, sessionParams)
		got := held(s, rounds(c.tools, func(i int) string {
			return sessionFrame("tool.started", fmt.Sprintf(`"message_id": "m", "tool_name": "%s%d"`, strings.Repeat("t", c.size), i), i+1)
		}), func([]byte) {})
		out := string(s.Finish(nil, CauseEOF))
		n := strings.Count(out, "tool.completed")
		if n != c.most || c.most > 0 && !strings.Contains(out, fmt.Sprintf(`t%d"`, c.tools-1)) || got > maxOpenBytes+maxOpenTools*100+4*maxIdleBuffer {
			t.Errorf("%s: %d ends, want %d; %d bytes are held", name, n, c.most, got)
		}
	}
}

// Facts about upstream are remembered up to their bound, to the byte, and not beyond it.
func TestWhatIsRememberedToTheByte(t *testing.T) {
	const usage = `{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "x": ""}`
	for more, kept := range map[int]bool{0: true, 1: false} {
		large := strings.Replace(usage, `""`, `"`+strings.Repeat("u", maxUsage-len(usage)+more)+`"`, 1)
		v := look(t, repair(role()+`data: {`+envelopeOfTests+`, "choices": [], "usage": `+large+"}\n\n"))
		equal(t, string(v.finish.Usage) == large, kept, "a usage is kept")
		response := responseOfTests + `,"x":""`
		response = strings.Replace(response, `"x":""`, `"x":"`+strings.Repeat("x", maxResponse-len(response)-len("{}")+more)+`"`, 1)
		out, _ := run(created(0, response), Options{}, Params{}, inOne, CauseEOF)
		if got := strings.Count(out, "xxx") > 0 && strings.Count(out, `"metadata":{}`) == 2; got != kept {
			t.Errorf("a response of %d bytes is kept: %v", len(response)+len("{}"), got)
		}
		message := strings.Repeat("m", maxMessage+more)
		out, _ = run(created(0, responseOfTests)+named("error", `{"type":"error","message":"`+message+`","sequence_number":1}`), Options{}, Params{}, inOne, CauseEOF)
		equal(t, strings.Count(out, message) == 2, kept, "a message is kept whole")
		id := strings.Repeat("r", maxEnvelope-len(`""`)+more)
		out, _ = run("data: 1\n\n", Options{}, Params{RunID: id}, inOne, CauseEOF)
		contains(t, out, `"run_id": "`+map[bool]string{true: id}[kept]+`"`)
	}
}

// After a large frame that may have been the last, only a frame that begins shows that the stream was cut.
func TestWhatBeginsAfterALargeFrame(t *testing.T) {
	large := `data: {"x": "` + strings.Repeat("x", 600) + "\"}\n\n"
	for tail, cut := range map[string]bool{"": false, ": c": false, ":": false, ": c\n": false, "\n": false, "\r": false, "data": true, "data: {\"type\"": true, "event: x\n": true} {
		in := created(0, `"id":"resp_1"`) + large
		out, sum := run(in+tail, Options{MaxFrame: 400}, Params{}, inOne, CauseEOF)
		if got := strings.Contains(out, "response.failed"); got != cut || (sum.Code != "") != cut || !cut && out != in+tail {
			t.Errorf("%q: failed is %v, code %q\n%s", tail, got, sum.Code, out[len(in):])
		}
	}
}

// A name that is cut where the beginning of a large frame ends may go on, so it names no event.
func TestNameThatIsCutInALargeFrame(t *testing.T) {
	const name = "event: response.completed"
	begun := created(0, responseOfTests)
	for more, fails := range map[string][2]bool{ // with max_frame where the name ends, and one byte later
		"": {true, false}, "\r": {true, false}, "x": {true, true}, ".then": {true, true}, " ": {true, true},
	} {
		for i, failed := range fails {
			in := begun + name + more + "\ndata: {\"x\": 1}\n\n"
			out, _ := run(in, Options{MaxFrame: len(name) + i}, Params{}, inOne, CauseAborted)
			if got := strings.Contains(out, "response.failed"); got != failed || !strings.HasPrefix(out, in) {
				t.Errorf("%d bytes, %q: failed is %v\n%s", len(name)+i, more, got, out[len(begun):])
			}
		}
	}
}
