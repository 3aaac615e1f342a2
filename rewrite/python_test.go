package rewrite

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// pythonValue matches strings, and the values that Python's json.dumps writes and JSON does not have.
var pythonValue = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|NaN|-?Infinity`)

// standardJSON returns s with null in the place of those values.
func standardJSON(s string) string {
	if !strings.Contains(s, "NaN") && !strings.Contains(s, "Infinity") {
		return s // the fuzzers ask often
	}
	return pythonValue.ReplaceAllStringFunc(s, func(v string) string {
		if v[0] == '"' {
			return v
		}
		return "null"
	})
}

// NaN, Infinity and -Infinity are values like any other (contract section 0).
func TestValuesOfPython(t *testing.T) {
	for _, value := range []string{"NaN", "Infinity", "-Infinity", `[NaN, {"a": -Infinity}]`} {
		with := func(frame string) string { // a member more at the end of the object, and of its choices
			end := strings.LastIndexByte(frame, '}')
			frame = frame[:end] + `, "x": ` + value + frame[end:]
			return strings.Replace(frame, `"finish_reason"`, `"logprobs": `+value+`, "finish_reason"`, 1)
		}
		rows := map[string]row{
			"text":        {in: role() + with(text("Hello")) + stop(), out: passes},
			"every frame": {in: with(role()) + with(text("Hello")) + with(finishChunk("stop", realUsage)) + doneFrame, out: passes},
			"a finish":    {in: role() + text("Hello") + with(finishChunk("stop", realUsage)), out: role() + text("Hello") + with(finishChunk("stop", realUsage)) + doneFrame},
			"usage":       {in: role() + text("Hello") + finishChunk("stop", strings.Replace(realUsage, `"total_tokens": 1290`, `"total_tokens": 1290, "cost": `+value, 1)) + doneFrame, out: passes},
			"a blank line lacks": {in: role() + text("Hello") + strings.TrimSuffix(with(finishChunk("stop", realUsage)), "\n\n"),
				out: role() + text("Hello") + with(finishChunk("stop", realUsage)) + doneFrame},
			"a marker":        {in: role() + with(markerChunk("💻", "ls")) + with(text("\n\nHello")) + stop(), starts: "💻 ls", content: "\n\nHello"},
			"an imitation":    {in: turn(text("a"), g2Start("t", "💻", "l", "c"), g2End("t", "c"), with(text("b\n`💻 ls`\nd"))), content: "ab\nd", o: Options{Imitations: ImitationsStrip}},
			"reasoning":       {in: role() + with(text("<think>a</think>b")) + stop(), content: "b", reasoning: "a"},
			"a false stop":    {in: role() + with(finishChunk("stop", zeroUsage)) + doneFrame, end: CodeCrashed},
			"an empty answer": {in: role() + with(finishChunk("stop", realUsage)) + doneFrame, end: CodeEmpty},
			"a crash":         {in: role() + with(text("Hello")), end: CodeIncomplete, content: "Hello"},
			"a failure":       {in: role() + with(text("Hello")) + with(finishChunk("error", `, "error": {"message": "m", "code": "agent_error", "y": `+value+`}`)) + doneFrame, end: CodeAgentError},
			"tools": {in: role() + with(g2Start("terminal", "💻", "ls", "c")) + with(g2End("terminal", "c")) + text("x") + stop(), starts: "💻 ls",
				story: "other running completed text finish done"},
			"a state": {in: turn(with(statusOf("waiting")), text("x")), story: "other other text finish done"},
		}
		t.Run(value, func(t *testing.T) { check(t, rows) })

		// What is changed changes only in the value concerned.
		in := turn(with(text("a\n`💻 ls`\nb")))
		same(t, repair(in), strings.Replace(in, "`\\ud83d\\udcbb ls`\\n", "", 1), "bytes")
		// What the sidecar writes itself is JSON of the standard's.
		usage := `{"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "cost": ` + value + `}`
		for _, o := range []Options{{}, {ErrorFinish: ErrorFinishInline}} {
			out := repairWith(role()+text("Hello")+choicesChunk("", `, "usage": `+usage), o)
			contains(t, out, `"usage":`+standardJSON(usage))
			for _, e := range decode(out)[3:] {
				equal(t, e.data == "[DONE]" || json.Valid([]byte(e.data)), true, e.data)
			}
		}

		// Bodies that come whole.
		body := completion(`, "content": "<think>a</think>b", "y": `+value, "stop", realUsage)
		equal(t, string(RepairAnswer([]byte(body), &Options{}, nil).Body), strings.Replace(body, `"<think>a</think>b"`, `"b","reasoning_content":"a"`, 1), "an answer")
		crashed := RepairAnswer([]byte(completion(`, "content": ""`, "stop", zeroUsage+`, "y": `+value)), &Options{}, nil)
		equal(t, crashed.Code, CodeAgentIncomplete, "the code")
		history := `{"temperature":` + value + `,"messages":[{"role":"assistant","content":"a\n` + "`💻 ls`" + `\nb","x":` + value + `}]}`
		healed, _ := heal(t, history)
		equal(t, healed, strings.Replace(history, "`💻 ls`\\n", "", 1), "a history")
		equal(t, string(SetPromptLine("/v1/chat/completions", []byte(history), "x")), strings.Replace(history, `[{`, `[{"role":"system","content":"x"},{`, 1), "a prompt")
		equal(t, BegunRun([]byte(`{"run_id": "run_1", "x": `+value+`}`)), "run_1", "a run")

		// The other streams.
		response := `{"id":"r","status":"in_progress","x":` + value + `}`
		failed := created(0, response[1:len(response)-1])
		out, _ := run(failed, Options{}, Params{}, inOne, CauseEOF)
		contains(t, out, `"response":{"id":"r","status":"failed","x":`+standardJSON(value))
		ended := failed + named("response.completed", `{"type":"response.completed","response":`+response+`,"sequence_number":1}`)
		out, _ = run(ended, Options{}, Params{}, inOne, CauseEOF)
		same(t, out, ended, "a response that is complete")
	}
}
