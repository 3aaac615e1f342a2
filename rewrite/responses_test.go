package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

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

const incompleteError = `{"code":"server_error","message":"the agent's answer ended before it was complete"}`

func TestResponseFailed(t *testing.T) {
	failed := func(response, more string) string {
		return named("response.failed", `{"type":"response.failed","response":`+response+more+`}`)
	}
	full := `{"id":"resp_1","object":"response","created_at":1741487325,"status":"failed","error":` + incompleteError +
		`,"incomplete_details":null,"model":"gpt","output":[],"usage":null,"metadata":{}}`
	p := Params{ID: always("chatcmpl-abc"), Created: 1700000000}
	huge := strings.Repeat("x", maxResponse)
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
		"no response was shown": {
			outputDelta(7), failed(`{"id":"resp_abc","object":"response","status":"failed","created_at":1700000000,"model":"hermes-agent","output":[],"error":`+incompleteError+`}`, `,"sequence_number":8`)},
		"a response that is too large to remember": {
			created(0, responseOfTests+`,"instructions":"`+huge+`"`),
			failed(`{"id":"resp_1","object":"response","status":"failed","created_at":1741487325,"model":"gpt","output":[],"error":`+incompleteError+`}`, `,"sequence_number":1`)},
		"a response that is no JSON": {
			created(0, `"id":"resp_1","model":nil`), failed(`{"id":"resp_1","object":"response","status":"failed","created_at":1700000000,"model":"hermes-agent","output":[],"error":`+incompleteError+`}`, `,"sequence_number":1`)},
		"a response that is nested too deep": {
			created(0, `"id":"resp_1","model":"m","a":`+strings.Repeat("[", jsonspan.MaxDepth+1)+strings.Repeat("]", jsonspan.MaxDepth+1)),
			failed(`{"id":"resp_1","object":"response","status":"failed","created_at":1700000000,"model":"m","output":[],"error":`+incompleteError+`}`, `,"sequence_number":1`)},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			out, sum := run(c.in, Options{}, p, cut, CauseEOF)
			same(t, out, c.in+c.want, name+": bytes")
			if sum.Code != CodeIncomplete {
				t.Errorf("%s: %+v", name, sum)
			}
			again, _ := run(out, Options{}, p, cut, CauseEOF)
			same(t, again, out, name+": outputs of a second sidecar")
		}
	}
}

func TestCauseOfAFailedResponse(t *testing.T) {
	for cause, code := range map[Cause]string{
		CauseEOF: CodeIncomplete, CauseAborted: CodeAborted, CauseTimeout: CodeTimeout, CauseShutdown: CodeShutdown,
	} {
		out, sum := run(created(0, responseOfTests), Options{}, Params{}, inOne, cause)
		if !strings.Contains(out, `"message":"`+Message(code)+`"`) || sum.Code != code || sum.ID != "resp_1" || sum.Model != "gpt" {
			t.Errorf("cause %d: %+v, %s", cause, sum, out)
		}
	}
}

func TestEventsThatEndAResponse(t *testing.T) {
	for name, code := range map[string]string{
		"response.completed": "", "response.incomplete": "", "response.cancelled": "", "response.canceled": "", "response.done": "",
		"response.failed": CodeAgentError,
	} {
		in := created(0, responseOfTests) + strings.ReplaceAll(created(1, responseOfTests), "response.created", name)
		for _, tail := range []string{"", ": x", doneFrame, outputDelta(1), "data: {\"a"} {
			for _, cause := range causes {
				out, sum := run(in+tail, Options{}, Params{}, oneByte, cause)
				same(t, out, in+tail, name+": bytes")
				if sum.Code != code {
					t.Errorf("%s: %+v", name, sum)
				}
			}
		}
	}
}

// [DONE] without one of them is the end of a stream that was cut before it.
func TestDoneOfAResponseThatHasNotEnded(t *testing.T) {
	in := created(0, responseOfTests)
	failed, _ := run(in, Options{}, Params{}, inOne, CauseEOF)
	for _, tail := range []string{"", "\n", ": x\n\n"} {
		out, sum := run(in+doneFrame+tail, Options{}, Params{}, oneByte, CauseAborted)
		same(t, out, failed+doneFrame+tail, "bytes")
		if sum.Code != CodeIncomplete {
			t.Errorf("%+v", sum)
		}
	}
	out, _ := run(in+doneFrame+outputDelta(1)+created(2, responseOfTests), Options{}, Params{}, oneByte, CauseEOF)
	same(t, out, failed+doneFrame, "bytes with events behind [DONE]")
	out, _ = run(in+"data: [DONE]", Options{}, Params{}, oneByte, CauseEOF)
	same(t, out, failed+doneFrame, "bytes with a [DONE] that lacks its blank line")
	crlf := strings.ReplaceAll(in+doneFrame, "\n", "\r\n")
	out, _ = run(crlf, Options{}, Params{}, oneByte, CauseEOF)
	same(t, out, strings.ReplaceAll(in, "\n", "\r\n")+strings.TrimPrefix(failed, in)+"data: [DONE]\r\n\r\n", "bytes with CRLF")
}

// An error event is none of those that end a response. What ends it says the
// same, without secrets.
func TestErrorEventOfAResponse(t *testing.T) {
	for name, c := range map[string]struct{ event, message, number string }{
		"the reference's":    {named("error", `{"type":"error","code":"x","message":"over\u006coaded","param":null,"sequence_number":1}`), `over\u006coaded`, "2"},
		"with an object":     {named("error", `{"type":"error","sequence_number":1,"error":{"type":"t","code":"c","message":"overloaded"}}`), "overloaded", "2"},
		"unnamed":            {`data: {"type":"error","message":"overloaded","sequence_number":5}` + "\n\n", "overloaded", "6"},
		"an error alone":     {`data: {"error":{"message":"overloaded"}}` + "\n\n", "overloaded", "1"},
		"a string":           {`data: {"error":"overloaded"}` + "\n\n", "overloaded", "1"},
		"with a secret":      {named("error", `{"type":"error","message":"bad key sk-abcdef123456"}`), "bad key [redacted]", "1"},
		"without a message":  {named("error", `{"type":"error"}`), "", "1"},
		"with a long one":    {named("error", `{"type":"error","message":"`+strings.Repeat("x", maxMessage)+`"}`), "", "1"},
		"null":               {`data: {"error":null}` + "\n\n", "", "1"},
		"of another event":   {named("x", `{"error":"overloaded"}`), "", "1"},
		"of no valid string": {named("error", `{"type":"error","message":"\x"}`), "", "1"},
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

// A completed response that lacks only its blank line is left alone where
// upstream has ended it so, and closed where it was torn.
func TestLastEventOfAResponseWithoutItsBlankLine(t *testing.T) {
	in := created(0, responseOfTests) + strings.TrimSuffix(strings.ReplaceAll(created(1, responseOfTests), "created", "completed"), "\n\n")
	for _, end := range []string{"", "\n"} {
		out, sum := run(in+end, Options{}, Params{}, inOne, CauseEOF)
		same(t, out, in+end, "bytes")
		out, _ = run(in+end, Options{}, Params{}, inOne, CauseAborted)
		same(t, out, in+"\n\n", "bytes of a torn stream")
		if sum.Code != "" {
			t.Errorf("%+v", sum)
		}
	}
}

func TestOtherStreamsCostNoAllocations(t *testing.T) {
	for name, frame := range map[string]string{
		"responses": outputDelta(1),
		"runs":      runEvent("message.delta", `, "timestamp": 1795165131.810072, "delta": "Partial "`),
	} {
		s := New(&Options{}, Params{})
		out := s.Feed(make([]byte, 0, 1<<12), []byte(created(0, responseOfTests)[:0]+frame), epoch)
		in := []byte(frame)
		if n := testing.AllocsPerRun(100, func() { out = s.Feed(out[:0], in, epoch) }); n > 0 {
			t.Errorf("%s: %v allocations for each frame", name, n)
		}
	}
}

func TestResponseRememberedIsBounded(t *testing.T) {
	s := New(&Options{}, Params{})
	const rounds = 200
	got := held(s, rounds, func(i int) string {
		n := rounds - 1 - i // the last is small: what is held is not the read
		return created(i, fmt.Sprintf(`"id":"%s%d","model":"%s","x":"%s"`, strings.Repeat("i", n*100), n, strings.Repeat("m", n*100), strings.Repeat("x", n*1000)))
	}, func([]byte) {})
	checkHeld(t, got, maxResponse*3/2+4*maxEnvelope+2*maxIdleBuffer)
}
