package rewrite

import (
	"strings"
	"testing"
)

// The last event repeats the whole answer. It counts although it is too large to be examined.
func TestLargeEventOfAnotherStream(t *testing.T) {
	o := Options{MaxFrame: 400}
	big := strings.Repeat("x", 1000)
	began := created(0, responseOfTests)
	ran := runEvent("message.delta", ``)
	completed := strings.ReplaceAll(created(1, `"id":"resp_1","output":"`+big+`"`), "response.created", "response.completed")
	typeLast := `data: {"response":{"x":"` + big + `"},"type":"response.completed"}` + "\n\n"
	for name, c := range map[string]struct {
		in, failed string // what the failed event ends with, empty for none
		cause      Cause
	}{
		"completed":                       {began + completed, "", CauseAborted},
		"completed, unnamed":              {unnamed(began + completed), "", CauseAborted},
		"completed, with CRLF":            {strings.ReplaceAll(began+completed, "\n", "\r\n"), "", CauseAborted},
		"a run's":                         {ran + runEvent("run.completed", `, "output": "`+big+`"`), "", CauseAborted},
		"another":                         {began + strings.ReplaceAll(completed, "response.completed", "response.output_text.done"), `,"sequence_number":2}`, CauseEOF},
		"the first":                       {created(0, `"x":"`+big+`"`) + outputDelta(1), `,"sequence_number":2}`, CauseEOF},
		"the first, and no other":         {created(0, `"x":"`+big+`"`), `"}}}`, CauseEOF},
		"a run's that does not end it":    {ran + runEvent("tool.started", `, "preview": "`+big+`"`), `"}`, CauseEOF},
		"completed, cut":                  {began + completed[:800], `,"sequence_number":1}`, CauseAborted},
		"unknown and last":                {began + typeLast, "", CauseEOF},
		"unknown and last, then [DONE]":   {began + typeLast + doneFrame, "", CauseEOF},
		"unknown and last, then a reset":  {began + typeLast, `,"sequence_number":2}`, CauseAborted},
		"unknown and not last":            {began + typeLast + outputDelta(2), `,"sequence_number":3}`, CauseEOF},
		"unknown, and another unexamined": {began + typeLast + strings.ReplaceAll(completed, "response.completed", "response.x"), `,"sequence_number":3}`, CauseEOF},
		"of something else":               {began + named("x", `{"a":"`+big+`"}`), `,"sequence_number":1}`, CauseEOF},
		"a comment":                       {began + ": " + big + "\n\n", `,"sequence_number":1}`, CauseEOF},
		"of an unknown stream":            {named("x", `{"a":"`+big+`"}`), "", CauseAborted},
		"of no stream of Hermes":          {g2Start("_thinking", "💭", big, "i") + `data: {"error": {"message": "` + big + `"}}` + "\n\n", "", CauseEOF},
	} {
		out, sum := anyCut(t, c.in, o, otherParams(c.in), c.cause)
		if c.failed == "" {
			same(t, out, c.in, name+": bytes")
			continue
		}
		in := c.in
		if name == "completed, cut" {
			in += "\n\n"
		}
		rest, ok := strings.CutPrefix(out, in)
		if !ok || strings.Count(rest, `.failed"`) != 1 || !strings.HasSuffix(rest, c.failed+"\n\n") || sum.Code != c.cause.Code() {
			t.Errorf("%s: %+v, %q", name, sum, rest)
		}
	}
	in := began + unnamed(strings.ReplaceAll(completed, "response.completed", "response.x")) // as upstream names its events
	out, _ := run(in, o, Params{}, oneByte, CauseEOF)
	begins(t, out, in+"data: ")
}

// overLimit makes a frame of these tests larger than max_frame.
var overLimit = strings.Repeat("y ", 3000)

// largeLife returns what leaves of in, which is cut in several ways, with a max_frame that
// overLimit exceeds, and checks that twice is once.
func largeLife(t *testing.T, in string, o Options, cause Cause) (string, *view, Summary) {
	t.Helper()
	o.MaxFrame = 5000
	out, sum := anyCut(t, in, o, chatParams, cause)
	twice, _ := run(out, o, chatParams, inOne, CauseEOF)
	same(t, twice, out, "twice and once")
	v := look(t, out)
	if v.done != 1 || len(v.finishes) != 1 || v.finishes[0] != sum.FinishReason {
		t.Errorf("%d [DONE], finishes %q, %+v", v.done, v.finishes, sum)
	}
	return out, v, sum
}

// pairs fails unless the tools of the stream are those with the ids, and each has one start and one end.
func pairs(t *testing.T, v *view, ids ...string) {
	t.Helper()
	v.checkLifecycle(t)
	var started []string
	for _, s := range v.starts() {
		started = append(started, s.id)
	}
	equal(t, strings.Join(started, " "), strings.Join(ids, " "), "the tools")
}

// A tool that starts in a frame above max_frame has its end: upstream's, or one from the
// sidecar (contract section 2).
func TestToolThatStartsInALargeFrame(t *testing.T) {
	end := g2End("terminal", "c")
	for name, start := range map[string]string{
		"as Hermes writes it": g2Start("terminal", "💻", overLimit, "c"),
		"the id in front":     named(progressEvent, `{"toolCallId": "c", "status": "running", "tool": "terminal", "label": "`+overLimit+`"}`),
		"escapes in names":    strings.Replace(g2Start("terminal", "💻", overLimit, "c"), `"toolCallId"`, `"tool\u0043allId"`, 1),
		"quotes in its label": g2Start("terminal", "💻", overLimit+`, "toolCallId": "d", "status": "completed"}, \`, "c"),
		"wrapped":             named(progressEvent, `{`+envelopeWritten+`,"tool":"terminal","label":"`+overLimit+`","toolCallId":"c","status":"running"}`),
		"without a name":      `data: {` + envelopeWritten + `,"tool":"terminal","label":"` + overLimit + `","toolCallId":"c","status":"running"}` + "\n\n",
		"with CRLF":           strings.ReplaceAll(g2Start("terminal", "💻", overLimit, "c"), "\n", "\r\n"),
		"with a line after":   strings.TrimSuffix(g2Start("terminal", "💻", overLimit, "c"), "\n") + "id: 7\n\n",
		"much after it":       named(progressEvent, `{"tool": "terminal", "toolCallId": "c", "status": "running", "args": {"a": ["`+overLimit+`"]}}`),
	} {
		lives := map[string]string{
			role() + start + end + text("x") + stop(): "stop", role() + start + text("x") + end + stop(): "stop",
			role() + start + stop(): "error", role() + text("x") + start: "error",
		}
		if name == "the id in front" || name == "much after it" { // a duplicate is one if its beginning says so
			lives[role()+start+start+end+text("x")+stop()] = "stop"
		}
		for _, o := range []Options{{}, {NoStatusLine: true}, {NoCards: true}, {Progress: ProgressBare}, {Progress: ProgressUnnamed, NoStatusLine: true}, {Progress: ProgressOff}, {ErrorFinish: ErrorFinishInline}} {
			off := o.Progress == ProgressOff
			for in, want := range lives {
				out, v, sum := largeLife(t, in, o, CauseAborted)
				pairs(t, v, map[bool][]string{false: {"c"}}[off]...)
				if strings.Contains(out, "function_call") || sum.FinishReason != want || !off && !strings.Contains(out, start) {
					t.Errorf("a card that has not begun ends, or %+v", sum)
				}
				if t.Failed() {
					t.Fatalf("%s, %+v:\n%.300s\n%.3000s", name, o, in, strings.ReplaceAll(out, overLimit, "…"))
				}
			}
		}
	}
}

// A name that is cut where the beginning ends is ignored; a finish reason in the beginning counts.
func TestBeginningThatEndsAnywhere(t *testing.T) {
	for pad := 900; pad < 1100; pad++ {
		in := role() + named(progressEvent, `{"x": "`+strings.Repeat("x", pad)+`", "tool": "terminal", "label": "`+overLimit+`", "toolCallId": "c", "status": "running"}`)
		out, _ := run(in, Options{MaxFrame: 5000}, chatParams, inOne, CauseAborted)
		for _, e := range look(t, out).tools {
			if e.tool != "terminal" && e.tool != "tool" {
				t.Errorf("the tool %q", e.tool)
			}
		}
	}
	for _, reason := range []string{"stop", "length", "error"} {
		in := role() + text("x") + g2Start("terminal", "💻", "ls", "c") + finishChunk(reason, realUsage+`, "x": "`+overLimit+`"`) + doneFrame
		out, v, sum := largeLife(t, in, Options{}, CauseEOF)
		if pairs(t, v, "c"); sum.FinishReason != reason || strings.Index(out, `"completed"`) > strings.Index(out, overLimit) || (sum.Code != "") != (reason == "error") {
			t.Errorf("%s: %+v", reason, sum)
		}
	}
}

// A large tool event is dropped like a small one if its beginning shows the reason.
func TestLargeToolEventsThatDoNotLeave(t *testing.T) {
	start, opened := g2Start("terminal", "💻", overLimit, "c"), g2Start("terminal", "💻", "ls", "o")
	ends := named(progressEvent, `{"tool": "terminal", "toolCallId": "o", "status": "completed", "x": "`+overLimit+`"}`)
	for name, in := range map[string]string{
		"internal": role() + g2Start("_thinking", "💭", overLimit, "i") + text("x") + stop(), "an orphan": role() + ends + text("x") + stop(),
		"after the finish":  role() + text("x") + finishChunk("stop", realUsage) + start + doneFrame,
		"the end of a tool": role() + opened + ends + text("x") + stop(), // leaves
	} {
		out, v, _ := largeLife(t, in, Options{}, CauseEOF)
		pairs(t, v, []string{"o"}[:strings.Count(in, opened)]...)
		equal(t, strings.Contains(out, overLimit), strings.Contains(in, opened), name+": it leaves")
	}
	// A client sees no start that is cut.
	cut, _ := run(role()+start[:len(start)-3], Options{MaxFrame: 5000}, chatParams, inOne, CauseAborted)
	equal(t, strings.Count(cut, progressEvent), 1, "ends of it")
	// It is no text: a stop after it is false.
	_, _, sum := largeLife(t, turn(start, g2End("terminal", "c")), Options{}, CauseEOF)
	if sum.Code != CodeEmpty || sum.Tools != 1 || sum.Unexamined != 1 {
		t.Errorf("%+v", sum)
	}
}

// Text in a large frame ends the tools without ids before it, and counts as text.
func TestLargeFrameOfText(t *testing.T) {
	picture := "![image](data:image/png;base64," + strings.ReplaceAll(overLimit, " ", "") + overLimit + ")"
	for _, say := range []func(string) string{text, reasoning} {
		out, v, sum := largeLife(t, role()+g1("terminal", "💻", "ls")+say(picture)+stop(), Options{}, CauseEOF)
		if i, j := strings.Index(out, `"status":"completed"`), strings.Index(out, "base64"); i < 0 || i > j || sum.Code != "" && v.reasoning == "" {
			t.Errorf("%+v: the tool's end is at %d, the text at %d", sum, i, j)
		}
		out, _, sum = largeLife(t, role()+say(picture), Options{}, CauseAborted)
		if sum.Code != CodeAborted || !strings.Contains(out, `"partial":true`) {
			t.Errorf("%+v\n%s", sum, out[max(0, len(out)-500):])
		}
	}
}

// An error in a large frame is upstream's: an error finish does not repeat it, and a stop after it is none.
func TestErrorInALargeFrame(t *testing.T) {
	tool := g2Start("terminal", "💻", "ls", "c")
	for name, failure := range map[string]string{
		"a frame":              `data: {"error": {"message": "boom", "details": "` + overLimit + `"}}` + "\n\n",
		"a message":            `data: {"error": {"message": "` + overLimit + `", "type": "x"}}` + "\n\n",
		"a string":             `data: {"error": "` + overLimit + `"}` + "\n\n",
		"an event":             named("error", `{"error": {"message": "boom", "details": "`+overLimit+`"}}`),
		"a chunk":              strings.Replace(delta(""), `"choices"`, `"error": {"message": "boom", "x": "`+overLimit+`"}, "choices"`, 1),
		"a finish chunk":       finishChunk("error", zeroUsage+`, "error": {"message": "`+overLimit+`", "type": "agent_error"}`),
		"a finish chunk, stop": finishChunk("error", zeroUsage+`, "error": {"message": "boom"}, "hermes": {"error": "`+overLimit+`"}`),
	} {
		tails := []string{"", stop(), doneFrame, text("x")}
		if strings.HasPrefix(name, "a finish") {
			tails = []string{"", doneFrame}
		}
		for _, tail := range tails {
			for _, o := range []Options{{}, {ErrorFinish: ErrorFinishInline}, {Progress: ProgressBare}} {
				out, v, sum := largeLife(t, role()+text("y")+tool+failure+tail, o, CauseAborted)
				pairs(t, v, "c")
				errors := strings.Count(strings.ReplaceAll(out, `"error":`, `"error": `), `"error": {`) + strings.Count(out, `"error": "`)
				if sum.Code != CodeAgentError || v.finishes[0] != "error" || strings.Index(out, `"completed"`) > strings.Index(out, overLimit) ||
					len(tails) == 2 && errors > 2 || strings.Contains(failure, `"boom", "det`) && !strings.Contains(out, `"error":"boom"`) {
					t.Fatalf("%s, %+v: %+v, %d errors\n%s", name, o, sum, errors, strings.ReplaceAll(out, overLimit, "…"))
				}
			}
		}
	}
}
