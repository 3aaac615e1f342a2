package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// A frame whose data is no JSON has said something: it makes no answer empty, and no finish missing (contract
// section 0).
func TestFramesThatAreNoJSON(t *testing.T) {
	tool := g2Start("terminal", "💻", "ls", "c") + g2End("terminal", "c")
	data := func(s string) string { return "data: " + s + "\n\n" }
	one := strings.TrimSuffix(strings.TrimPrefix(text("Hello"), "data: "), "\n\n")
	last := strings.TrimSuffix(strings.TrimPrefix(finishChunk("stop", realUsage), "data: "), "\n\n")
	for name, broken := range map[string]string{
		"two objects": one + one, "text": "Hello", "an object that is cut": one[:len(one)-1], "a control character": strings.Replace(one, "Hello", "He\tllo", 1),
		"an escape": strings.Replace(one, "Hello", `He\xllo`, 1), "a comma": strings.Replace(one, "}]", "},]", 1), "single quotes": strings.ReplaceAll(one, `"`, "'"),
		"too deep": strings.Replace(one, `"choices"`, `"x": `+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`, "choices"`, 1), "undefined": strings.Replace(one, "null", "undefined", 1),
	} {
		rows := map[string]row{
			"an answer":        {in: turn(data(broken)), out: passes},
			"behind a tool":    {in: turn(tool, data(broken)), o: Options{Progress: ProgressBare}, out: passes},
			"without usage":    {in: role() + data(broken) + finishChunk("stop", zeroUsage) + doneFrame, out: passes},
			"of several lines": {in: turn(strings.Replace(data(broken), `"created"`, "\ndata: \"created\"", 1)), out: passes},
		}
		t.Run(name, func(t *testing.T) { check(t, rows) })
		for then, code := range map[string]string{"": CodeIncomplete, doneFrame: CodeIncomplete, tool + stop(): CodeEmpty} {
			out, sum := anyCut(t, role()+data(broken)+then, Options{}, chatParams, CauseEOF)
			begins(t, out, role()+data(broken))
			equal(t, sum.Code, code, fmt.Sprintf("%s, then %q", name, then))
			same(t, repair(out), out, "twice and once")
		}
	}
	for name, broken := range map[string]string{
		"two objects": one + last, "a comma": strings.Replace(last, "}]", "},]", 1), "cut": last[:len(last)-1], "a value": strings.Replace(last, "1290", "nan", 1),
		"white space": strings.Replace(last[:len(last)-1], `"finish_reason": "`, `"finish_reason" :  "`, 1),
		"too deep":    strings.Replace(last, `"choices"`, `"x": `+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`, "choices"`, 1),
	} {
		in := role() + text("Hello") + data(broken)
		open := role() + g2Start("terminal", "💻", "ls", "c") + data(broken)
		rows := map[string]row{
			"a finish":              {in: in + doneFrame, out: passes},
			"a finish, and the end": {in: in, out: in + doneFrame},
			"an open tool": {in: open + doneFrame, o: Options{Progress: ProgressBare},
				out: role() + g2Start("terminal", "💻", "ls", "c") + named(progressEvent, `{"tool":"terminal","toolCallId":"c","status":"completed"}`) + data(broken) + doneFrame},
			"a tool after it": {in: in + tool + doneFrame, o: Options{Progress: ProgressBare}, out: in + doneFrame},
		}
		t.Run("finish, "+name, func(t *testing.T) { check(t, rows) })
		for _, cause := range []Cause{CauseEOF, CauseAborted, CauseTimeout} {
			out, sum := anyCut(t, in, Options{}, chatParams, cause)
			same(t, out, in+doneFrame, "bytes")
			equal(t, sum.Code+sum.FinishReason, "stop", "the end")
		}
	}
	// It says error.
	in := role() + text("Hello") + data(one+strings.Replace(last, `"stop"`, `"error"`, 1)) + doneFrame
	out, sum := anyCut(t, in, Options{}, chatParams, CauseEOF)
	same(t, out, in, "bytes")
	equal(t, sum.Code+sum.FinishReason, CodeAgentError+"error", "the end")
	// What says nothing, or tells of a failure or a state, is no answer.
	for _, in := range []string{"data:\n\n", "data: \n\n", "data:  \t\n\n", named("error", "boom"), named("hermes.status", "waiting"), ": Hello\n\n", "event: x\n\n"} {
		_, sum := anyCut(t, turn(in), Options{}, chatParams, CauseEOF)
		equal(t, sum.Code, CodeEmpty, fmt.Sprintf("the code after %q", in))
	}
}

// A finish reason anywhere in a large frame is no missing finish.
func TestFinishInALargeFrame(t *testing.T) {
	finish := finishChunk("stop", realUsage)
	object := strings.TrimSuffix(strings.TrimPrefix(finish, "data: "), "\n\n")
	large := `"x": "` + overLimit + `"`
	for name, frame := range map[string]string{
		"in front":        finishChunk("stop", realUsage+", "+large),
		"at the end":      "data: {" + large + ", " + object[1:] + "\n\n",
		"in the middle":   "data: {" + large + ", " + object[1:len(object)-1] + ", " + large + "}\n\n",
		"after text":      finishChunkWith(`"content": "`+overLimit+`"`, "stop", realUsage+", "+large),
		"a long reason":   "data: {" + large + ", " + strings.Replace(object[1:], `"stop"`, `"`+strings.Repeat("💻", 64)+`"`, 1) + "\n\n",
		"no JSON, at all": "data: " + overLimit + object + overLimit + "\n\n",
	} {
		in := role() + text("Hello") + frame
		for _, tail := range []string{doneFrame, ""} {
			out, sum := anyCut(t, in+tail, Options{MaxFrame: 5000}, chatParams, CauseAborted)
			same(t, out, in+doneFrame, name+": bytes")
			if sum.Code != "" || name != "a long reason" && sum.FinishReason != "stop" {
				t.Errorf("%s: %+v", name, sum)
			}
		}
	}
	// In a string it is none.
	for _, frame := range []string{
		text(overLimit + `"finish_reason": "stop"` + overLimit), text(overLimit), "data: " + overLimit + "\n\n",
		strings.Replace(text("x"), `"finish_reason": null`, large+`, "finish_reason": "`+strings.Repeat("x", 65)+`", `+large, 1),
		strings.Replace(text("x"), `"finish_reason": null`, large+`, "finish_reason": null, `+large, 1),
	} {
		_, sum := anyCut(t, role()+frame+doneFrame, Options{MaxFrame: 5000}, chatParams, CauseEOF)
		equal(t, sum.Code, CodeIncomplete, "the code")
	}
}

// An event of another stream that is no JSON may be its last one, if its name says so or it has none and upstream
// ends cleanly.
func TestLastEventThatIsNoJSON(t *testing.T) {
	const broken = `{"type":"response.completed","response":{"id":"r","status":"completed"}},`
	delta := outputDelta(1)
	object := strings.TrimSpace(delta[strings.Index(delta, "data: ")+len("data: "):])
	for name, c := range map[string]struct {
		last  string
		known bool // the event is known as the last one
	}{
		"its name":    {named("response.completed", broken), true},
		"no object":   {"data: completed\n\n", false},
		"a comma":     {"data: " + broken + "\n\n", true},
		"cut":         {"data: " + broken[:40] + "\n\n", false},
		"two objects": {"data: " + object + strings.TrimSuffix(broken, ",") + "\n\n", false},
	} {
		in := unnamed(created(0, responseOfTests)) + c.last
		for _, tail := range []string{"", doneFrame} {
			out, sum := anyCut(t, in+tail, Options{}, Params{Responses: true}, CauseEOF)
			same(t, out, in+tail, name+": bytes")
			equal(t, sum.Code, "", name)
		}
		out, sum := anyCut(t, in, Options{}, Params{Responses: true}, CauseAborted)
		equal(t, out != in, !c.known, name+": an end is added after a reset")
		equal(t, sum.Code, map[bool]string{false: CodeAborted}[c.known], name)
		// Another event after it shows that it was not the last one.
		_, sum = anyCut(t, in+unnamed(outputDelta(2)), Options{}, Params{Responses: true}, CauseEOF)
		equal(t, sum.Code, map[bool]string{false: CodeIncomplete}[c.known], name+", and another")
	}
	for _, in := range []string{named("response.output_text.delta", "Hello"), "data:\n\n", ": Hello\n\n"} {
		_, sum := anyCut(t, created(0, responseOfTests)+in, Options{}, Params{Responses: true}, CauseEOF)
		equal(t, sum.Code, CodeIncomplete, fmt.Sprintf("the code after %q", in))
	}
}
