package rewrite

import (
	"strings"
	"testing"
)

// overLimit is what makes a frame of these tests larger than max_frame.
var overLimit = strings.Repeat("y ", 3000)

// largeLife returns what leaves of in, which is cut in several ways, with a max_frame that
// overLimit exceeds, and checks that twice is once.
func largeLife(t *testing.T, in string, o Options, cause Cause) (string, *view, Summary) {
	t.Helper()
	o.MaxFrame = 5000
	out, sum := run(in, o, chatParams, inOne, cause)
	for _, cut := range []cutter{oneByte, atRandom(1, 700), atRandom(2, 9000)} {
		again, s := run(in, o, chatParams, cut, cause)
		same(t, again, out, "outputs of two cuts")
		if s != sum {
			t.Errorf("summaries of two cuts: %+v, %+v", s, sum)
		}
	}
	twice, _ := run(out, o, chatParams, inOne, CauseEOF)
	same(t, twice, out, "twice and once")
	v := look(t, out)
	if v.done != 1 || len(v.finishes) != 1 || v.finishes[0] != sum.FinishReason {
		t.Errorf("%d [DONE], finishes %q, %+v", v.done, v.finishes, sum)
	}
	return out, v, sum
}

// pairs fails unless each running of the stream has one completed with its id, and no other
// tool has any event.
func pairs(t *testing.T, v *view, ids ...string) {
	t.Helper()
	count := map[string]int{}
	for _, e := range v.tools {
		count[e.id+" "+e.status]++
	}
	for _, id := range ids {
		if count[id+" running"] != 1 || count[id+" completed"] != 1 {
			t.Errorf("%s: %v", id, count)
		}
	}
	if len(count) != 2*len(ids) {
		t.Errorf("%v, want tools %q", count, ids)
	}
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
		"with a line behind":  strings.TrimSuffix(g2Start("terminal", "💻", overLimit, "c"), "\n") + "id: 7\n\n",
		"much behind it":      named(progressEvent, `{"tool": "terminal", "toolCallId": "c", "status": "running", "args": {"a": ["`+overLimit+`"]}}`),
	} {
		for _, o := range []Options{{}, {Cards: true}, {StatusLine: true}, {Progress: ProgressBare}, {Progress: ProgressUnnamed, Cards: true}, {Progress: ProgressOff}, {ErrorFinish: ErrorFinishInline}} {
			ids := []string{"c"}
			if o.Progress == ProgressOff {
				ids = nil
			}
			for in, want := range map[string]string{
				role() + start + end + text("x") + stop():         "stop",
				role() + start + text("x") + end + stop():         "stop",
				role() + start + start + end + text("x") + stop(): "", // the second is a duplicate, if its beginning says so
				role() + start + stop():                           "error",
				role() + text("x") + start:                        "error",
			} {
				if want == "" && name != "the id in front" && name != "much behind it" {
					continue
				}
				out, v, sum := largeLife(t, in, o, CauseAborted)
				if strings.Contains(out, "function_call") {
					t.Errorf("a card that nobody has begun ends")
				}
				if pairs(t, v, ids...); want != "" && sum.FinishReason != want || o.Progress != ProgressOff && !strings.Contains(out, start) {
					t.Errorf("%+v", sum)
				}
				if t.Failed() {
					t.Fatalf("%s, %+v:\n%.300s\n%.3000s", name, o, in, strings.ReplaceAll(out, overLimit, "…"))
				}
			}
		}
	}
}

// A name that the end of the beginning cuts is not taken for one, and a finish reason there
// is one.
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

// What a small tool event loses, a large one loses as well, if its beginning shows it.
func TestLargeToolEventsThatDoNotLeave(t *testing.T) {
	internal := g2Start("_thinking", "💭", overLimit, "i")
	orphan := named(progressEvent, `{"tool": "terminal", "toolCallId": "o", "status": "completed", "x": "`+overLimit+`"}`)
	for name, in := range map[string]string{
		"internal":          role() + internal + text("x") + stop(),
		"an orphan":         role() + orphan + text("x") + stop(),
		"behind the finish": role() + text("x") + finishChunk("stop", realUsage) + g2Start("terminal", "💻", overLimit, "c") + doneFrame,
	} {
		out, v, _ := largeLife(t, in, Options{}, CauseEOF)
		if pairs(t, v); strings.Contains(out, overLimit) {
			t.Errorf("%s: it leaves", name)
		}
	}
	// A client sees no start that is cut.
	cut := g2Start("terminal", "💻", overLimit, "c")
	cut = cut[:len(cut)-3]
	if out, _ := run(role()+cut, Options{MaxFrame: 5000}, chatParams, inOne, CauseAborted); strings.Contains(out[len(role()+cut):], progressEvent) {
		t.Errorf("it has an end: %s", out[len(role()+cut):])
	}
	// The end of a tool that is open leaves, and is its end.
	start, end := g2Start("terminal", "💻", "ls", "o"), orphan
	out, v, _ := largeLife(t, role()+start+end+text("x")+stop(), Options{}, CauseEOF)
	if pairs(t, v, "o"); !strings.Contains(out, end) {
		t.Errorf("it does not leave")
	}
}

// A tool event is no text: a stop after it is false.
func TestLargeToolEventIsNoAnswer(t *testing.T) {
	_, _, sum := largeLife(t, role()+g2Start("terminal", "💻", overLimit, "c")+g2End("terminal", "c")+stop(), Options{}, CauseEOF)
	if sum.Code != CodeEmpty || sum.Tools != 1 || sum.Unexamined != 1 {
		t.Errorf("%+v", sum)
	}
}

// Text in a large frame completes the tools without ids before it, and counts as text.
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

// An error in a large frame is upstream's: an error finish does not repeat it, and a stop
// after it is none.
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
		for _, behind := range []string{"", stop(), doneFrame, text("x")} {
			if strings.HasPrefix(name, "a finish") && behind == stop() {
				behind = doneFrame
			}
			if strings.HasPrefix(name, "a finish") && behind == text("x") {
				continue
			}
			for _, o := range []Options{{}, {ErrorFinish: ErrorFinishInline}, {Progress: ProgressBare}} {
				out, v, sum := largeLife(t, role()+text("y")+tool+failure+behind, o, CauseAborted)
				pairs(t, v, "c")
				if sum.Code != CodeAgentError || v.finishes[0] != "error" || strings.Index(out, `"completed"`) > strings.Index(out, overLimit) {
					t.Errorf("%s: %+v", name, sum)
				}
				if n := strings.Count(out, `"error": {`) + strings.Count(out, `"error":{`) + strings.Count(out, `"error": "`); n > 2 && strings.HasPrefix(name, "a finish") {
					t.Errorf("%s: %d errors", name, n)
				}
				if strings.Contains(failure, `"boom", "det`) && !strings.Contains(out, `"error":"boom"`) {
					t.Errorf("%s: its message is not repeated in the finish", name)
				}
				if t.Failed() {
					t.Fatalf("%s, %+v\n%s", name, o, strings.ReplaceAll(out, overLimit, "…"))
				}
			}
		}
	}
}

// A stream of another server is not looked at.
func TestLargeFrameOfAForeignStreamPasses(t *testing.T) {
	in := g2Start("_thinking", "💭", overLimit, "i") + `data: {"error": {"message": "` + overLimit + `"}}` + "\n\n"
	out, sum := run(in, Options{MaxFrame: 5000, Progress: ProgressOff}, Params{}, atRandom(3, 900), CauseEOF)
	if same(t, out, in, "bytes"); sum.Code != "" {
		t.Errorf("%+v", sum)
	}
}
