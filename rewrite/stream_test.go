package rewrite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// framings are streams of every form that the standard allows.
var framings = []string{
	"data: a\n\ndata: b\n\n",
	"data: a\r\n\r\ndata: b\r\n\r\n",
	"data: a\r\rdata: b\r\r",
	"data: a\r\n\rdata: b\n\r\n",
	"data: a\r\r\ndata: b\n\r",
	"\ufeffdata: a\n\ndata: b\n\n",
	"\ufeff\ufeffdata: a\n\ndata: b\n\n",
	"\ufeff: comment\r\n\r\ndata: b\n\n",
	": comment\n\ndata: b\n\n",
	": comment\n: another\r\n:\r\rdata: b\n\n",
	"data: a\n: inside\ndata: b\n\n",
	"data: a\ndata: b\r\ndata: c\rdata\n\n",
	"data:\n\ndata\n\ndata: \n\n",
	"event: x\nid: 1\nretry: 5\nunknown: y\ndata: z\n\n",
	"event: x\n\n\n\n\r\r\r\ndata: z\n\n",
	"id: 1\n\ndata: z\n\n",
	"data: a\n\ndata: cut",
	"data: a\n\ndata: cut\n",
	"data: a\n\ndata: cut\r",
	"data: a\n\n: cut",
	"\xef\xbb", "\xef", "\r", "\n", "\r\n", "",
	"data: \xff\xfe\x00\n\n",
	"data:  two spaces\n\ndata:\ttab\n\n",
}

// multiline breaks the JSON of a frame into several data lines.
func multiline(frame string) string {
	return strings.NewReplacer(`, "choices"`, ",\ndata: \"choices\"", `"finish_reason"`, "\ndata:\"finish_reason\"", `, "usage"`, "\ndata: ,\ndata: \"usage\"").Replace(frame)
}

// Each event leaves as soon as it is complete, and not before.
func TestEventsLeaveOnceTheyAreComplete(t *testing.T) {
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		s := New(&Options{}, chatParams)
		for _, f := range []string{role(), text("a"), delta(""), comment, text("\n"), "id: 1\n\n", reasoning("x")} {
			f = strings.ReplaceAll(f, "\n", eol)
			// It is complete at the CR of its blank line: nothing says that an LF will follow.
			n := len(strings.TrimSuffix(f, "\n"))
			if eol == "\n" {
				n = len(f)
			}
			same(t, string(feedAll(s, f[:n-1], oneByte)), "", "what leaves too early")
			same(t, string(feedAll(s, f[n-1:n], inOne)), f[:n], "what leaves at once")
			same(t, string(feedAll(s, f[n:], inOne)), f[n:], "what leaves after it")
		}
	}
}

// Frames and their members are read however they are written.
func TestWhatIsRead(t *testing.T) {
	const chunk, other = `"object": "chat.completion.chunk", `, `"object": "other", `
	finish := func(object string) string {
		return `{"id": "c", ` + object + `"created": 5, "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}`
	}
	choices := func(i int, content, finish string) string {
		return choicesChunk(fmt.Sprintf(`{"index": %d, "delta": {%s}, "finish_reason": %s}`, i, content, finish), "")
	}
	says := func(i int) string { return choices(i, `"content": "x"`, "null") }
	ends := func(i int) string { return choices(i, "", `"stop"`) }
	const ls = `\n` + "`💻 ls`" + `\n`
	inner := func(choice string) string {
		return strings.TrimSpace(strings.TrimPrefix(choicesChunk(choice, ""), "data: "))
	}
	marked := strings.Replace(text("a"), `"delta": {"content": "a"}`, `"delta": {"content": "x"}, "delta": {"content": "lost", "content": "a`+ls+`b"}`, 1)
	zeroFinish, between := finishChunk("stop", zeroUsage), named("other", `{"a": 1}`)
	begun, said, started, asError := role()+text("a"), role()+text("x"), role()+markerChunk("💻", "ls"), Options{ZeroUsage: ZeroUsageError}
	rows := map[string]row{
		"comments, unknown fields, framing": {
			in: "\ufeff" + strings.ReplaceAll(role(), "\n", "\r\n") + ": a comment\r\r" + "id: 7\nretry: 10\nx-custom: y\n" + text("a") + "event: message\r\n" +
				strings.ReplaceAll(text("b"), "\n\n", "\r\n\r\n") + "data:" + strings.TrimPrefix(text("c"), "data: ") + "\n\n\n" + multiline(text("d")) + ": \n" +
				strings.ReplaceAll(stop(), "\n", "\r"),
			out: passes, content: "abcd",
		},
		// A byte order mark counts at the start, and hides a frame elsewhere: clients see the field "\ufeffdata".
		"a mark before a false stop": {in: mark + zeroFinish + doneFrame, end: CodeCrashed},
		"a mark before a marker": {in: mark + delta(`"role": "assistant", "content": "`+ls+`"`) + text("x") + stop(),
			story: "other running completed text finish done"},
		"a mark before the finish": {in: said + mark + finishChunk("stop", realUsage), end: CodeIncomplete},
		"a mark before [DONE]":     {in: said + mark + doneFrame, end: CodeIncomplete},
		"usage of two lines": {in: said + multiline(choicesChunk("", `, "usage": {"prompt_tokens": 1}`)),
			end: CodeIncomplete},
		"a marker in what is no JSON": {in: turn(strings.Replace(delta(`"content": "`+ls+`"`), "null}]}", "nul}]}", 1), text("x")),
			out: passes},
		"no index 0": {in: turn(strings.Replace(text("\n`💻 ls`\n"), `"index": 0`, `"index": 18446744073709551616`, 1), text("x")),
			out: passes},
		"members twice": {in: turn(marked), out: turn(strings.Replace(marked, "`💻 ls`"+`\n`, "", 1))},
		"choices that are none": {in: turn(text("a"), choicesChunk("", "")[:len(choicesChunk("", ""))-5]+`"x"}`+"\n\n", text("b")),
			out: passes},
		"a chunk":                     {in: begun + "data: " + finish(chunk) + "\n\n", end: "stop"},
		"with the name message":       {in: begun + named("message", finish(chunk)), end: "stop"},
		"with a name":                 {in: begun + named("x", finish(chunk)), end: "stop"},
		"an empty name":               {in: begun + "event:\ndata: " + finish(other) + "\n\n", end: "stop"},
		"no object":                   {in: begun + "data: " + finish("") + "\n\n", end: "stop"},
		"another object with choices": {in: begun + "data: " + finish(other) + "\n\n", end: "stop"},
		"that with the name message":  {in: begun + named("message", finish(other)), end: "stop"},
		"that with a name":            {in: begun + named("x", finish(other)), end: CodeIncomplete},
		"choices that are no array": {in: begun + "data: " + strings.NewReplacer("[", `{"0": `, "]", "}").Replace(finish(other)) + "\n\n",
			end: CodeIncomplete},
		"an array": {in: begun + "data: [" + finish(chunk) + "]\n\n", end: CodeIncomplete},
		"a chunk in a member": {in: begun + `data: {"chunk": ` + finish(chunk) + "}\n\n",
			end: CodeIncomplete},
		"a chunk after another field": {in: begun + "id: 1\nretry: 5\ndata: " + finish(chunk) + "\n\n",
			end: "stop"},
		"no field of data": {in: begun + "date: " + finish(chunk) + "\n\n", end: CodeIncomplete},
		"an error with another name": {in: begun + named("x", `{"error": {"message": "boom"}}`),
			end: CodeIncomplete},
		"a wrapped error": {in: begun + named("error", `{`+envelopeWritten+`, "error": "boom"}`),
			story: "other text other finish done"}, // which the error finish does not repeat
		"no error": {in: begun + `data: {"error": null}` + "\n\n",
			story: "other text error error finish done"},
		"an error in a member": {in: begun + `data: {"x": {"error": {"message": "boom"}}}` + "\n\n",
			end: CodeIncomplete},
		// A named event is one that another sidecar has wrapped only if it says nothing but what that adds.
		"a wrapped finish": {in: said + named("message", inner(`{"index": 0, "delta": {}, "finish_reason": "stop"}`)) + doneFrame,
			end: "stop"},
		"wrapped text": {in: said + named("message", inner(`{"index": 0, "delta": {"content": "y"}, "finish_reason": "stop"}`)) + doneFrame,
			end: "stop"},
		"an envelope": {in: said + named("message", inner(`{"index": 0, "delta": {}, "finish_reason": null}`)) + doneFrame,
			end: CodeIncomplete},
		"a marker in a named event": {in: turn(text("x"), named("message", inner(`{"index": 0, "delta": {"content": "`+ls+`"}, "finish_reason": null}`)), text("y")),
			content: "x\ny"},
		"an object in place of a chunk": {
			in:  turn(named("hermes.status", `{"object": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": null}]}`), text("x")),
			out: turn(named("hermes.status", `{`+envelopeWritten+`,"hermes_object": "x", "hermes_choices": [{"index": 0, "delta": {}, "finish_reason": null}]}`), text("x")),
		},
		// Of 64 choices is known which have ended; those beyond end with the others (contract section 7).
		"the 64th goes on": {in: role() + says(0) + says(63) + ends(0) + doneFrame,
			story: "other text other finish error finish done"},
		"the 64th ends":    {in: role() + says(0) + says(63) + ends(63) + ends(0) + doneFrame, out: passes},
		"the 65th goes on": {in: role() + says(0) + says(64) + ends(0) + doneFrame, out: passes},
		"the 65th ends, not the 1st": {in: role() + says(0) + ends(64) + doneFrame,
			story: "other text finish error finish done"},
		"below zero": {in: role() + says(0) + says(-1) + ends(0) + doneFrame, out: passes},
		"below zero ends": {in: role() + says(0) + ends(-1) + doneFrame,
			story: "other text finish error finish done"},
		// Hermes sends one choice: an answer with another is not examined for false stops.
		"the other speaks": {in: role() + says(1) + ends(0) + choicesChunk(`{"index": 1, "delta": {}, "finish_reason": "stop"}`, zeroUsage) + doneFrame,
			o: asError, out: passes},
		"the other only ends": {in: role() + ends(1) + zeroFinish + doneFrame, o: asError, out: passes},
		"both in one chunk": {in: role() + choicesChunk(`{"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {}, "finish_reason": "stop"}`, zeroUsage) + doneFrame,
			o: asError, out: passes},
		"the other alone":   {in: says(1) + ofChoice(1, zeroFinish) + doneFrame, o: asError, out: passes},
		"an unexpected one": {in: role() + says(64) + zeroFinish + doneFrame, o: asError, out: passes},
		// Text of any choice ends tools before it, whatever is done with imitations.
		"white space of another": {in: turn(markerChunk("💻", "ls"), ofChoice(1, text(" \n")), ofChoice(1, text("x")), ends(1)),
			story: "other running other completed other finish finish done"},
		"text of another, kept": {in: turn(markerChunk("💻", "ls"), says(1), ends(1)),
			o: Options{Imitations: ImitationsKeep}, story: "other running completed other finish finish done"},
		"text of another, trusted": {in: turn(markerChunk("💻", "ls"), says(1), ends(1)),
			o: Options{Imitations: ImitationsTrust}, story: "other running completed other finish finish done"},
		"a text in the middle": {in: started + choicesChunk(`{"index": 0, "delta": {"content": ""}}, {"index": 1, "delta": {"content": "x"}}, {"index": 2, "delta": {"content": " "}}`, ""),
			story: "other running completed other error finish finish finish done"},
		"no text in any": {in: started + choicesChunk(`{"index": 0, "delta": {"content": ""}}, {"index": 1, "delta": {"content": " "}}`, ""),
			story: "other running other completed error finish finish done"},
		"text in the first": {in: started + choicesChunk(`{"index": 0, "delta": {"content": "x"}}, {"index": 1, "delta": {"content": ""}}`, ""),
			story: "other running completed text error finish finish done"},
		"text in the last": {in: started + choicesChunk(`{"index": 0, "delta": {"content": ""}}, {"index": 1, "delta": {"content": "x"}}`, ""),
			story: "other running completed other error finish finish done"},
		// Half a tag before something other than text is no tag, and decides nothing about the text after it.
		"more of a closing tag": {in: turn(text("<think>x`</think"), between, text("y</think>answer")),
			content: "answer", reasoning: "x`</thinky"},
		"a closing tag in two": {in: turn(text("<think>x</thi"), between, text("nk></think>answer")),
			content: "answer", reasoning: "x</think>"},
		"half of one in a fence": {in: turn(text("<think>```\nx\n``</"), between, text("`</think>answer")),
			content: nothing, reasoning: "```\nx\n``</`</think>answer"},
	}
	for name, e := range map[string]string{"no name": "", "message": "event: message\n", "error": "event: error\n"} {
		rows["an error, "+name] = row{in: begun + e + `data: {"error": {"message": "boom"}}` + "\n\n",
			story: "other text error finish done"}
	}
	for index, first := range map[string]bool{"0": true, "1": false, "-1": false, "null": false, `"0"`: false, "0.0": false, "10": false} {
		r := row{in: turn(strings.Replace(markerChunk("💻", "ls"), `"index": 0`, `"index": `+index, 1), text("x")), starts: nothing}
		if first {
			r.starts = "💻 ls"
		}
		rows["index "+index] = r
	}
	rows["no index"] = row{in: turn(strings.Replace(markerChunk("💻", "ls"), `"index": 0, `, "", 1), text("x")),
		starts: "💻 ls"}
	for _, bad := range []string{"\xff", "\xf0\x9f\x92", "a\xc3", "\xed\xa0\x80"} {
		rows["invalid UTF-8 "+bad] = row{in: turn(delta(`"content": "`+bad+"\\n`"+bad+` x"`), text("x")),
			out: passes}
	}
	// Comments between and within frames keep their places, and decide nothing.
	for _, c := range []string{": c\n", ":\n", ": data: {\"a\": 1}\n", ": hermes.tool.progress nothing\n", ": hermes.tool.progress {\"tool\": 1}\n"} {
		rows["comments "+c] = row{in: c + role() + strings.Replace(text("a"), "\n\n", "\n"+c+"\n", 1) + c + "\n" + c + c + "\n" + text("b") + stop() + c + "\n",
			out: passes}
	}
	// Of two contents in a delta the last counts, and the first must not become the only one.
	for _, twin := range []func(string) string{
		func(s string) string { return delta(`"content": "lost", "content": ` + asciiJSON(s)) },
		func(s string) string {
			return choicesChunk(`{"index": 0, "delta": {"content": "lost"}, "delta": {"content": `+asciiJSON(s)+`}, "finish_reason": null}`, "")
		},
	} {
		for in, content := range map[string]string{
			twin("<think>a") + texts("b</think>", "```", "\n`💻 a`\n"): "```", twin("<think>a</think>b") + text("\n\n`💻 a`\n"): "b\n\n",
			twin("\n`💻 ls`\n") + text("\n\nb"): "\n\nb", twin("`💻 ls") + text("`\nb"): "b", twin("a\n`💻 ls`\nb"): "a\nb",
		} {
			rows["twice "+in] = row{in: turn(in), content: content}
		}
	}
	// What is changed keeps its framing, and is split well in data of several lines.
	for name, in := range map[string]string{
		"CRLF":         strings.ReplaceAll(zeroFinish, "\n", "\r\n"),
		"CR":           strings.ReplaceAll(zeroFinish, "\n", "\r"),
		"no space":     strings.Replace(zeroFinish, "data: ", "data:", 1),
		"other fields": "id: 5\n: comment\n" + strings.TrimSuffix(zeroFinish, "\n") + "x: y\n\n",
		"lines":        multiline(zeroFinish),
		"lines, CRLF":  strings.ReplaceAll(multiline(zeroFinish), "\n", "\r\n"),
	} {
		rows[name] = row{in: role() + in + doneFrame, end: CodeCrashed}
		want := in[:strings.LastIndex(in, `"stop"`)] + `"error"`
		contains(t, repair(role()+in+doneFrame), want)
	}
	for _, data := range []string{
		"{\"error\": {\"message\": \"boom\"},\ndata: \"id\": \"c\",\ndata: \"choices\": [{\"finish_reason\": \"error\"}]}",
		"{\"id\": \"c\",\ndata: \"choices\": [{\"finish_reason\": \"error\"}],\ndata: \"error\": {\ndata: \"message\": \"boom\"}}",
		"{\"id\": \"c\"\ndata: ,\"error\":\ndata: {\"message\": \"boom\"},\ndata:\"choices\": [{\"finish_reason\": \"error\"}]}",
	} {
		for _, eol := range []string{"\n", "\r\n", "\r"} {
			rows["lines of an error "+data+eol] = row{in: role() + strings.ReplaceAll("data: "+data+"\n\n", "\n", eol) + doneFrame,
				story: "other error finish done"}
		}
	}
	for _, n := range []int{2, 3, 254, 255, 256, 257, 258} { // a frame has all its lines, however many
		rows[fmt.Sprint(n, " lines")] = row{in: role() + strings.Replace(zeroFinish, `"choices"`, strings.Repeat("\ndata: ", n-1)+`"choices"`, 1) + doneFrame,
			end: CodeCrashed}
	}
	// Usage is 0/0/0 only where it says so, three times.
	for usage, crash := range map[string]bool{
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`:                                                             true,
		`{"total_tokens": 0, "completion_tokens": 0, "prompt_tokens": 0, "prompt_tokens_details": {"cached_tokens": 5}, "cost": 0.5}`: true,
		`{"prompt_tokens": 0, "completion_tokens": 0}`:                                                                                false, `{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": null}`: false,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 1}`: false, `{"prompt_tokens": 0, "completion_tokens": "0", "total_tokens": 0}`: false,
		`{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}`: false, `[0, 0, 0]`: false,
		`null`: false,
	} {
		r := row{in: said + finishChunk("stop", `, "usage": `+usage) + doneFrame, o: asError, out: passes}
		if crash {
			r.out, r.end = "", CodeCrashed
		}
		rows["usage "+usage] = r
	}
	check(t, rows)
	equal(t, *look(t, repair(role()+strings.ReplaceAll(text("a"), "chatcmpl-1", "chatcmpl-2"))).finish.ID, "chatcmpl-2", "the id of the error finish")
	s := New(&Options{}, chatParams)
	out := s.Feed(s.Keepalive(nil), []byte(mark+text("first")+text("second")+stop()), epoch) // a mark after something of the sidecar's
	same(t, look(t, string(s.Finish(out, CauseEOF))).content, "firstsecond", "contents")
	for _, in := range []string{mark, mark + "\n", mark + mark, mark[:2]} {
		out, _ := run(in, Options{}, Params{}, oneByte, CauseEOF)
		same(t, out, in, "bytes")
	}
}

// In the form unnamed no event line is left, wherever it stood, even within a value that is replaced. Other lines
// stay.
func TestUnnamedToolEventsHaveNoName(t *testing.T) {
	const data = `data: {"tool": "terminal", "emoji": "💻", "label": "ls", "status": "running"}`
	forms := []string{
		"event: hermes.tool.progress\n" + data, data + "\nevent: hermes.tool.progress", "id: 1\nevent:hermes.tool.progress\n" + data + "\nretry: 5",
		"event: hermes.tool.progress\n" + strings.Replace(data, ", ", ",\ndata: ", 1),
	}
	for _, lines := range []int{0, 1, 50, 200, 1000} {
		forms = append(forms, strings.Replace(data, `}`, `, "toolCallId": [`+"\n"+strings.Repeat("data:\n: c\n", lines)+"event: hermes.tool.progress\ndata: ]}", 1))
	}
	for _, frame := range forms {
		for _, eol := range []string{"\n", "\r", "\r\n"} {
			out := repairWith(strings.ReplaceAll(role()+frame+"\n\n", "\n", eol), Options{Progress: ProgressUnnamed})
			look(t, out).checkLifecycle(t)
			equal(t, strings.Contains(out, "event:"), false, "an event line")
			equal(t, strings.Count(out, `"status": "running"`), 1, "starts")
			for _, line := range []string{"id: 1", "retry: 5"} {
				equal(t, strings.Count(out, line+eol), strings.Count(frame, line), line)
			}
		}
	}
}

// [DONE] is known between white space of JSON, and leaves in the one spelling that strict clients know.
func TestDoneWithOtherWhiteSpace(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", realUsage)
	rows := map[string]row{}
	for _, done := range []string{
		"data:   [DONE]\n\n", "data: [DONE] \n\n", "data:\t[DONE]\n\n", "data: \t[DONE]\t \n\n",
		"data: [DONE]\ndata:\n\n", "data:\ndata: [DONE]\n\n", "data:  [DONE]\r\n\r\n",
		"data:  [DONE]\r\r", "id: 7\ndata:  [DONE]\n\n", "data:  [DONE] ", "data: [DONE]", "data: [DONE]\n",
	} {
		rows[done] = row{in: in + done, out: in + doneFrame}
	}
	for _, done := range []string{doneFrame, "data:[DONE]\n\n", "data: [DONE]\r\n\r\n"} { // nothing is around it
		rows[done] = row{in: in + done, out: passes}
	}
	for _, none := range []string{"data:\f[DONE]\n\n", "data:\u00a0[DONE]\n\n"} { // pass as any frame that is no JSON
		rows[none] = row{in: in + none, out: in + none + doneFrame}
	}
	check(t, rows)
}

// Usage is reported, counted and repeated.
func TestUsageThatIsReported(t *testing.T) {
	for usage, reported := range map[string]bool{
		`{"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 0}`:             true,
		`{"prompt_tokens": 0, "completion_tokens": 9, "total_tokens": 0}`:             true,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 12345678901}`:   true,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`:             false,
		`{"prompt_tokens": "5", "completion_tokens": null, "total_tokens": -5}`:       false,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "other": 5}`: false,
		`{}`: false, `5`: false, `null`: false,
	} {
		m, p := memory{}, chatParams
		p.Usage = m
		run(role()+text("x")+finishChunk("stop", `, "usage": `+usage)+doneFrame, Options{}, p, inOne, CauseEOF)
		equal(t, m["hermes-agent"] && len(m) == 1, reported, usage+" is reported")
	}
	for _, c := range []struct {
		prompt, completion string
		input, output      int64
	}{
		{"1", "2", 1, 2}, {"999999999", "0", 999999999, 0}, {"0", "999999999", 0, 999999999}, {"18446744073709551617", "1", 0, 1}, {"1", "18446744073709551617", 1, 0},
		{"-1", "5", 0, 5}, {"5", "-1", 5, 0}, {"1.5", "5", 0, 5}, {`"5"`, "null", 0, 0}, {"5", "1e3", 5, 0}, {"9", "8", 9, 8},
	} {
		usage := fmt.Sprintf(`, "usage": {"prompt_tokens": %s, "completion_tokens": %s, "total_tokens": 7}`, c.prompt, c.completion)
		_, sum := run(role()+text("x")+finishChunk("stop", usage)+doneFrame, Options{}, chatParams, inOne, CauseEOF)
		equal(t, [2]int64{sum.InputTokens, sum.OutputTokens}, [2]int64{c.input, c.output}, usage)
	}
	// An error finish has the usage that is known, whenever it came (contract section 3).
	const usage = `{"prompt_tokens":7,"completion_tokens":8,"total_tokens":15}`
	alone := choicesChunk("", `, "usage": `+usage)
	with := func(usage string) string { return strings.Replace(text("a"), `}]}`, `}], "usage": `+usage+`}`, 1) }
	for in, want := range map[string]string{
		alone: usage, role() + alone + text("a"): usage, role() + with(usage): usage,
		role() + text("a") + alone: usage, role() + alone + with("null"): usage, role() + text("a"): "",
	} {
		v := look(t, repair(in))
		v.checkErrorFinish(t, CodeIncomplete)
		same(t, string(v.finish.Usage), want, "usages after "+in)
	}
}

// A stream is active at the first chunk, or at once if its path says so.
func TestActive(t *testing.T) {
	before := "data: {\"a\": 1}\n\nevent: x\ndata: {\"b\": 2}\n\n" + g2End("x", "y")
	out, _ := run(before+text("a\n`💻 ls`\nb"), Options{}, Params{}, inOne, CauseEOF)
	begins(t, out, before+text("a\nb"))
	look(t, out[len(before):]).checkErrorFinish(t, CodeIncomplete)
	look(t, repair("data: {\"a\": 1}\n\n")).checkErrorFinish(t, CodeIncomplete)
	equal(t, New(&Options{}, chatParams).Active(), true, "active")
	for _, in := range []string{
		`data: {"object": "text_completion", "choices": [{"text": "x", "finish_reason": "stop"}]}` + "\n\n", `data: {"object": "chat.completion", "choices": []}` + "\n\n",
		`data: {"x": {"object": "chat.completion.chunk"}}` + "\n\n",
		`data: {"object": ["chat.completion.chunk"]}` + "\n\n", `data: "chat.completion.chunk"` + "\n\n",
		`: {"object": "chat.completion.chunk"}` + "\n\n", doneFrame,
	} {
		out, _ := run(in, Options{}, Params{}, inOne, CauseAborted)
		same(t, out, in, "bytes")
	}
}

// The streams of the web platform tests that are not about the media type pass, and have the events that they say.
func TestWebPlatformTestsOfTheEventStream(t *testing.T) {
	var tests []struct {
		Name, File, Mime string
		Expect           []struct{ Event, Data string }
	}
	if err := json.Unmarshal([]byte(corpus(t, "wpt-eventsource", "expected.json")), &tests); err != nil || len(tests) < 15 {
		t.Fatalf("%d tests, %v", len(tests), err)
	}
	for _, test := range tests {
		if !strings.HasPrefix(test.Mime, "text/event-stream") || len(test.Expect) == 0 {
			continue // about the media type
		}
		in := corpus(t, "wpt-eventsource", test.File)
		var want []event
		for _, e := range test.Expect {
			want = append(want, event{e.Event, e.Data})
		}
		same(t, fmt.Sprintf("%q", decode(in)), fmt.Sprintf("%q", want), test.Name+": the events of the tests' decoder")
		same(t, fmt.Sprintf("%q", eventsOf(in)), fmt.Sprintf("%q", want), test.Name+": the events of the engine")
		out, _ := anyCut(t, in, Options{}, Params{}, CauseEOF)
		same(t, out, in, test.Name+": bytes")
	}
}

const mark = "\ufeff"

// eventsOf returns the events that the engine sees in a stream.
func eventsOf(in string) (events []event) {
	sc := sse.Scanner{MaxFrame: DefaultMaxFrame}
	var f sse.Frame
	sc.Feed([]byte(in))
	for {
		u, b, ok := sc.Next()
		if !ok {
			return events
		}
		if u != sse.UnitFrame {
			continue
		}
		if f.Parse(b); f.HasData {
			e := event{string(f.Event), string(f.Data)}
			if e.name == "" {
				e.name = "message"
			}
			events = append(events, e)
		}
	}
}

// In a stream that is not known yet, a long comment line stands alone: the frame right after it is examined.
// In a known stream it is part of that frame, which is then too large.
func TestLongCommentRightBeforeAFrame(t *testing.T) {
	long := ": " + strings.Repeat("c", 1000)
	o := Options{MaxFrame: 400}
	for _, eol := range []string{"\n", "\r", "\r\n"} {
		in := strings.ReplaceAll(long+"\n"+role()+text("a\n`💻 ls`\nb")+stop(), "\n", eol)
		want := strings.ReplaceAll(long+"\n"+role()+text("a\nb")+stop(), "\n", eol)
		out, sum := anyCut(t, in, o, Params{}, CauseEOF)
		same(t, out, want, "a comment before the stream is known")
		if sum.Chunks != 3 || sum.Imitations != 1 {
			t.Errorf("%+v", sum)
		}
		// The frame with the comment passes unexamined, the next one does not.
		out, sum = anyCut(t, in, o, chatParams, CauseEOF)
		same(t, out, want, "a comment within a stream of chat completions")
		if sum.Unexamined != 1 || sum.Chunks != 2 {
			t.Errorf("%+v", sum)
		}
		// Nothing after a comment that never ends is a frame.
		out, sum = anyCut(t, strings.Replace(in, eol, " ", 1), o, Params{}, CauseEOF)
		if !strings.Contains(out, "a"+`\n`+"b") || sum.Chunks != 2 || sum.Imitations != 1 {
			t.Errorf("%+v\n%s", sum, out)
		}
	}
}

// choicesChunk is a chunk with several choices.
func choicesChunk(choices, more string) string {
	return `data: {` + envelopeOfTests + `, "choices": [` + choices + `]` + more + "}\n\n"
}

// spellings are ways to write the same in a JSON string.
var spellings = [][]string{
	{`\n`, `\u000a`, `\u000A`}, {"`", `\u0060`}, {"💻", `\ud83d\udcbb`, `\uD83D\uDCBB`}, {"⚙\ufe0f", `\u2699\ufe0f`, `\u2699` + "\ufe0f"}, {" ", `\u0020`}, {"l", `\u006c`, `\u006C`},
	{"<", `\u003c`, `\u003C`}, {"think", `t\u0068ink`, `\u0074hin\u006B`}, {"/", `\/`, `\u002f`}, {">", `\u003e`}, {`\t`, `\u0009`}, {`\\`, `\u005c`}, {`\"`, `\u0022`}, {"é", `\u00e9`}, {"🦄", `\ud83e\udd84`},
	{"~", `\u007e`}, {`\r`, `\u000d`},
}

// spelt returns a text in two spellings: the first of each, and others. What it has
// is mostly the beginnings of markers, tags and fences.
func spelt(r *rand.Rand) (plain, escaped string) {
	var a, b strings.Builder
	phrases := []string{"n`CsX`n", "n`CsX`X`n", "n`CsX`", "`CsX`n", "n`UsX`n", "n```nX", "nn<T>X<Q/T>", "<T>", "<Q/T>", "X", "n", "s", "`", "nnX", "n`GsX`nn", "~~~n", "tX", "n`Cs`n", "n`Cs``n", "r"}
	names := map[rune]int{'n': 0, '`': 1, 'C': 2, 'G': 3, 's': 4, '<': 6, 'T': 7, 'Q': 8, '>': 9, 't': 10, 'U': 14, '~': 15, 'r': 16}
	letters := []int{5, 5, 11, 12, 13}
	for range 1 + r.IntN(6) {
		for _, c := range phrases[r.IntN(len(phrases))] {
			n, ok := names[c]
			if !ok {
				n = letters[r.IntN(len(letters))]
			}
			ways := spellings[n]
			a.WriteString(ways[0])
			b.WriteString(ways[r.IntN(len(ways))])
		}
	}
	return a.String(), b.String()
}

// Escapes change nothing in how a text is read, whole or in deltas.
func TestEscapesDecideNothing(t *testing.T) {
	t.Parallel()
	for _, ways := range spellings { // a text that is one escape is no more than that
		for _, s := range ways {
			in := turn(text("a"), delta(`"content": "`+s+`"`), text("b"))
			same(t, repair(in), in, "bytes")
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		ways := [2]string{role(), role()}
		answers := [2]string{}
		for range 1 + r.IntN(4) {
			plain, escaped := spelt(r)
			for i, s := range []string{plain, escaped} {
				ways[i] += delta(`"content": "` + s + `"`)
				answers[i] += s
			}
		}
		o := allOptions()[r.IntN(len(allOptions()))]
		var saw [2]string
		for i, in := range ways {
			out, sum := run(in+stop(), o, chatParams, inOne, CauseEOF)
			v := look(t, out)
			a := RepairAnswer([]byte(completion(`, "content": "`+answers[i]+`"`, "stop", realUsage)), &o, nil)
			m := messageOf(t, a.Body)
			h, healed := Heal([]byte(`{"messages": [{"role": "assistant", "content": "`+answers[i]+`"}]}`), nil, nil)
			history := jsonspan.Unquote(jsonspan.MemberIn(h, "messages").Of(h))
			saw[i] = fmt.Sprintf("%q %q %q %v %+v\n%+v\n%d %q", v.content, v.reasoning, v.story(), v.starts(), sum, m, healed.Markers, unescaped(history))
		}
		same(t, saw[1], saw[0], fmt.Sprintf("%+v: what is seen of %s", o, ways[1]))
		if t.Failed() {
			return
		}
	}
}

// unescaped returns the text of a JSON array's messages, without escapes.
func unescaped(s string) string { return string(jsonspan.AppendText(nil, []byte(s))) }

// follow feeds in to two streams in the same reads, of which one parses each frame, and compares the bytes
// that leave and the summaries.
func follow(t *testing.T, in string, o Options, p Params, cut cutter, cause Cause) {
	t.Helper()
	quick := New(&o, p)
	p.Explain = func(Step) {} // what is explained is read
	reads := New(&o, p)
	for at := 0; at < len(in) && !t.Failed(); {
		n := cut(len(in) - at)
		read := in[at : at+n]
		at += n
		got, want := quick.Feed(nil, []byte(read), epoch), reads.Feed(nil, []byte(read), epoch)
		same(t, string(got), string(want), "what leaves for the read that ends at "+fmt.Sprint(at))
		equal(t, quick.Summary(), reads.Summary(), "summaries")
	}
	same(t, string(quick.Finish(nil, cause)), string(reads.Finish(nil, cause)), "the end")
	equal(t, quick.Summary(), reads.Summary(), "summaries")
}

// byFrame reads frame by frame.
func byFrame(in string) cutter {
	all, i := frames(in), 0
	return func(n int) int {
		i++
		return max(1, min(n, len(all[min(i, len(all))-1])))
	}
}

// TestAlikeChangesNothing: a frame that is not parsed leaves as if it were, with the same summary.
func TestAlikeChangesNothing(t *testing.T) {
	t.Parallel()
	for _, r := range everyNth(recordings(t)) {
		for _, o := range allOptions() {
			for _, cut := range []cutter{byFrame(r.body), atRandom(1, 300)} {
				follow(t, r.body, o, r.params(), cut, CauseAborted)
				if t.Failed() {
					t.Fatalf("%s with %+v", r.name(), o)
				}
			}
		}
	}
}

// TestFramesThatDifferInOneByte: a frame that differs in any byte leaves as if it were parsed, and so do
// those after it, in one read and frame by frame.
func TestFramesThatDifferInOneByte(t *testing.T) {
	for _, frame := range []string{text(`a\n`), reasoning("\u00e9"), markerChunk("\U0001f4bb", "ls")} {
		before := role() + texts("a", "b") + frame + frame
		for i := range frame {
			for _, b := range []string{"", "\"", "1"} {
				in := before + frame[:i] + b + frame[i+1:] + frame + text("c")
				cuts := []int{len(before), len(frame) - 1 + len(b), len(frame)}
				byPiece := func(n int) int {
					if len(cuts) > 0 {
						n, cuts = min(n, cuts[0]), cuts[1:]
					}
					return n
				}
				for _, cut := range []cutter{inOne, byPiece} {
					if follow(t, in, Options{}, chatParams, cut, CauseAborted); t.Failed() {
						t.Fatalf("%q in the place of %q", b, frame[i])
					}
				}
			}
		}
	}
}

// likeTokens are what FuzzAlike makes texts of, as they stand in JSON.
var likeTokens = []string{
	`a`, ` `, `word`, `\n`, `\n\n`, `\u000a`, "`", `\u0060`, `<`, `\u003c`, `\u003C`, `think>`, `</think>`, "```", `~~~`, `\"`, `\\`, `\u00e9`, `é`,
	`\ud83d\udcbb`, `💻`, `\t`, `\r`, `\u00a0`, "\x00", "\n", `"`, `"}`, `\`, `\u`, `\u00`, `\q`, "\xff", "`💻 ls`", "\\n`💻 ls`\\n", `: `,
	`Provider said: `, `sk-abcdefgh`, `P\u0072ovider said: sk-abcdefgh`,
}

// FuzzAlike: whatever comes between and inside like frames, they leave as if they were parsed, with the same
// summary.
func FuzzAlike(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 2, 1, 0, 5, 9, 14, 5, 0, 0}, []byte{0}, byte(0), byte(0))
	f.Add([]byte{0, 0, 1, 0, 1, 4, 6, 0, 1, 0, 3, 0, 0, 8, 12}, []byte{200, 3, 17}, byte(3), byte(9))
	f.Add([]byte{16, 0, 16, 1, 17, 3, 32, 0, 1, 0, 2, 35, 7, 4, 0, 0, 0, 2}, []byte{1}, byte(5), byte(20))
	f.Fuzz(func(t *testing.T, script, cuts []byte, options, limit byte) {
		if len(script) > 200 { // more takes seconds, and "go test -fuzz" takes 10 s for a hang
			return
		}
		all := allOptions()
		o := all[int(options)%len(all)]
		if limit > 0 {
			o.MaxFrame = 100 + int(limit)*4
		}
		follow(t, likeStream(script), o, chatParams, byScript(cuts), Cause(options%4))
	})
}

// likeStream returns the stream of a script: mostly frames of text that are alike.
func likeStream(script []byte) string {
	var b strings.Builder
	next := func() byte {
		if len(script) == 0 {
			return 0
		}
		c := script[0]
		script = script[1:]
		return c
	}
	between := []string{
		role(), comment, delta(""), g1("terminal", "💻", "ls"), g2Start("t", "💻", "l", "call_1"), g2End("t", "call_1"), "\n", "\r\n", "data: x\n\n", ": c\n",
		finishChunk("stop", realUsage), doneFrame, named("x", "{}"), `data: {"error": {"message": "m"}}` + "\n\n", "data: {", markerChunk("💻", "ls"), text("<think>"), text("</think>\n"),
	}
	for len(script) > 0 {
		kind := next()
		if kind >= 224 {
			b.WriteString(between[int(next())%len(between)])
			continue
		}
		var inner strings.Builder
		for range kind & 3 {
			inner.WriteString(likeTokens[int(next())%len(likeTokens)])
		}
		said := `"content": "` + inner.String() + `"`
		if kind = kind >> 2 & 15; kind == 7 || kind == 8 {
			said = `"content": "\n` + "`💻 " + inner.String() + "`" + `\n"`
		}
		frame := delta(said)
		if edits := [][2]string{
			{}, {`"content"`, `"reasoning_content"`}, {`"index": 0`, `"index": 1`}, {"chatcmpl-1", "chatcmpl-2"}, {"\n\n", "\r\n\r\n"},
			{"null", `"length"`}, {`"delta": {`, `"delta": {"role": "assistant", `},
		}; kind > 0 && int(kind) < len(edits) {
			frame = strings.ReplaceAll(frame, edits[kind][0], edits[kind][1])
		}
		b.WriteString(frame)
	}
	return b.String()
}
