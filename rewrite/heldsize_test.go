package rewrite

import (
	"strings"
	"testing"
)

// Frames are held back while they are no larger than max_frame together, to the byte.
func TestHeldFramesOfMaxFrame(t *testing.T) {
	first, last := text("`💻 ls"), text("`\n")
	o := Options{MaxFrame: len(first)}
	v := look(t, repairWith(first+last+text("x")+stop(), o))
	if v.content != "x" {
		t.Errorf("with max_frame %d a line of that many bytes is no imitation: %q", o.MaxFrame, v.content)
	}
	out := repairWith(first+": c\n\n"+last+text("x")+stop(), o)
	if want := first + ": c\n\n" + last; !strings.HasPrefix(out, want) {
		t.Errorf("a comment more, and the frames are held still:\n%s", out)
	}
}

// What is remembered of upstream is remembered up to its bound, to the byte, and not
// beyond it.
func TestWhatIsRememberedToTheByte(t *testing.T) {
	const usage = `{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "x": ""}`
	for more, kept := range map[int]bool{0: true, 1: false} {
		large := strings.Replace(usage, `""`, `"`+strings.Repeat("u", maxUsage-len(usage)+more)+`"`, 1)
		v := look(t, repair(role()+`data: {`+envelopeOfTests+`, "choices": [], "usage": `+large+"}\n\n"))
		if got := string(v.finish.Usage) == large; got != kept {
			t.Errorf("a usage of %d bytes is kept: %v", len(large), got)
		}
		response := responseOfTests + `,"x":""`
		response = strings.Replace(response, `"x":""`, `"x":"`+strings.Repeat("x", maxResponse-len(response)-len("{}")+more)+`"`, 1)
		out, _ := run(created(0, response), Options{}, Params{}, inOne, CauseEOF)
		if got := strings.Count(out, "xxx") > 0 && strings.Count(out, `"metadata":{}`) == 2; got != kept {
			t.Errorf("a response of %d bytes is kept: %v", len(response)+len("{}"), got)
		}
		message := strings.Repeat("m", maxMessage-len(`""`)+more)
		out, _ = run(created(0, responseOfTests)+named("error", `{"type":"error","message":"`+message+`","sequence_number":1}`), Options{}, Params{}, inOne, CauseEOF)
		if got := strings.Count(out, message) == 2; got != kept {
			t.Errorf("a message of %d bytes is kept: %v", len(message)+len(`""`), got)
		}
	}
}

// Behind the event that ends a stream of another kind nothing changes how it has ended.
func TestWhatComesBehindTheEndOfAnotherStream(t *testing.T) {
	event := func(name string, seq int) string {
		return named(name, `{"type":"`+name+`","sequence_number":`+string(rune('0'+seq))+`,"response":{"id":"resp_1"}}`)
	}
	for _, c := range []struct{ in, code string }{
		{created(0, responseOfTests) + event("response.completed", 1) + event("response.failed", 2), ""},
		{created(0, responseOfTests) + event("response.completed", 1) + named("error", `{"type":"error","message":"late"}`) + doneFrame, ""},
		{created(0, responseOfTests) + event("response.failed", 1) + event("response.completed", 2), CodeAgentError},
		{created(0, responseOfTests) + event("response.cancelled", 1) + outputDelta(2), ""},
	} {
		for _, cause := range []Cause{CauseEOF, CauseAborted} {
			out, sum := run(c.in, Options{}, Params{}, oneByte, cause)
			same(t, out, c.in, "bytes")
			if sum.Code != c.code {
				t.Errorf("the code is %q behind %s", sum.Code, c.in)
			}
		}
	}
}

// A run has the id of the request's path until an event names it with a string.
func TestRunWhoseEventsNameItOtherwise(t *testing.T) {
	for _, id := range []string{`7`, `null`, `["run_2"]`} {
		in := `data: {"event": "message.delta", "run_id": ` + id + `, "timestamp": 5, "delta": "a"}` + "\n\n"
		out, sum := run(in, Options{}, Params{RunID: "run_1"}, inOne, CauseEOF)
		if !strings.HasPrefix(out, in) || !strings.Contains(out[len(in):], `"run_id": "run_1"`) || sum.ID != "run_1" {
			t.Errorf("%s: %q, %s", id, sum.ID, out[len(in):])
		}
	}
}

// Where a large frame may have been the last, comments after it decide nothing: a frame
// that begins does.
func TestWhatBeginsBehindALargeFrame(t *testing.T) {
	large := `data: {"x": "` + strings.Repeat("x", 600) + "\"}\n\n"
	for tail, cut := range map[string]bool{"": false, ": c": false, ":": false, ": c\n": false, "\n": false, "\r": false, "data": true, "data: {\"type\"": true, "event: x\n": true} {
		in := created(0, `"id":"resp_1"`) + large
		out, sum := run(in+tail, Options{MaxFrame: 400}, Params{}, inOne, CauseEOF)
		if got := strings.Contains(out, "response.failed"); got != cut || (sum.Code != "") != cut || !cut && out != in+tail {
			t.Errorf("%q: failed is %v, code %q\n%s", tail, got, sum.Code, out[len(in):])
		}
	}
}

// Of a response that is too large to be remembered, its members are, unless they are
// empty.
func TestLargeResponseWithEmptyMembers(t *testing.T) {
	huge := `"x":"` + strings.Repeat("x", maxResponse) + `"`
	p := Params{ID: func() string { return "chatcmpl-abc" }, Created: 1700000000}
	for members, want := range map[string]string{
		`"id":"r","created_at":5,"model":"m"`:     `{"id":"r","object":"response","status":"failed","created_at":5,"model":"m"`,
		`"id":"","created_at":null,"model":""`:    `{"id":"resp_abc","object":"response","status":"failed","created_at":1700000000,"model":"hermes-agent"`,
		`"id":7,"created_at":"now","model":["m"]`: `{"id":"resp_abc","object":"response","status":"failed","created_at":1700000000,"model":"hermes-agent"`,
	} {
		if out, _ := run(created(0, members+","+huge), Options{}, p, inOne, CauseEOF); !strings.Contains(out, want) {
			t.Errorf("%s: want %s in %s", members, want, out[strings.LastIndex(out, "event:"):])
		}
	}
}

// A run whose id is too long to be remembered ends without it.
func TestRunWithAnIDThatIsTooLong(t *testing.T) {
	for more, want := range map[int]string{0: strings.Repeat("r", maxEnvelope-2), 1: ""} {
		out, _ := run("data: 1\n\n", Options{}, Params{RunID: strings.Repeat("r", maxEnvelope-2+more)}, inOne, CauseEOF)
		if !strings.Contains(out, `"run_id": "`+want+`"`) {
			t.Errorf("%d bytes more: %s", more, out)
		}
	}
}

// The name of an event that is cut where a large frame is no longer looked at may go on:
// it is none.
func TestNameThatIsCutInALargeFrame(t *testing.T) {
	const ends = "event: response.completed"
	begun := created(0, responseOfTests)
	for _, c := range []struct {
		limit  int
		more   string
		failed bool
	}{
		{len(ends), "", true}, {len(ends), "x", true}, {len(ends), ".then", true}, {len(ends), " ", true},
		{len(ends) + 1, "", false}, {len(ends) + 1, "\r", false}, {len(ends) + 1, "x", true}, {len(ends) + 1, " ", true},
	} {
		in := begun + ends + c.more + "\ndata: {\"x\": 1}\n\n"
		out, _ := run(in, Options{MaxFrame: c.limit}, Params{}, inOne, CauseAborted)
		if got := strings.Contains(out, "response.failed"); got != c.failed || !strings.HasPrefix(out, in) {
			t.Errorf("%d bytes, %q: failed is %v\n%s", c.limit, c.more, got, out[len(begun):])
		}
	}
}
