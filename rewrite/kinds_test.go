package rewrite

import (
	"strings"
	"testing"
)

// Which frames of a chat stream are chunks, errors or something else: a stop counts in
// a chunk alone.
func TestWhatAFrameIs(t *testing.T) {
	finish := func(object string) string {
		return `{"id": "c", ` + object + `"created": 5, "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}`
	}
	const chunk, other = `"object": "chat.completion.chunk", `, `"object": "other", `
	for _, c := range []struct {
		name, frame string
		is          string // how the stream ends: stop, agent_error or upstream_incomplete
	}{
		{"a chunk", "data: " + finish(chunk), "stop"},
		{"a chunk with the name message", "event: message\ndata: " + finish(chunk), "stop"},
		{"a chunk with a name", "event: x\ndata: " + finish(chunk), "stop"},
		{"an empty name", "event:\ndata: " + finish(other), "stop"},
		{"no object", "data: " + finish(""), "stop"},
		{"another object with choices", "data: " + finish(other), "stop"},
		{"that with the name message", "event: message\ndata: " + finish(other), "stop"},
		{"that with a name", "event: x\ndata: " + finish(other), CodeIncomplete},
		{"choices that are no array", "data: " + strings.NewReplacer("[", `{"0": `, "]", "}").Replace(finish(other)), CodeIncomplete},
		{"an array", "data: [" + finish(chunk) + "]", CodeIncomplete},
		{"a chunk in a member", `data: {"chunk": ` + finish(chunk) + "}", CodeIncomplete},
		{"a chunk that is no JSON", "data: " + strings.Replace(finish(chunk), ": 5", ": 05", 1), CodeIncomplete},
		{"a chunk behind another field", "id: 1\nretry: 5\ndata: " + finish(chunk), "stop"},
		{"no field of data", "date: " + finish(chunk), CodeIncomplete},
		{"an error", `data: {"error": {"message": "boom"}}`, CodeAgentError},
		{"an error with the name message", "event: message\n" + `data: {"error": {"message": "boom"}}`, CodeAgentError},
		{"an error with the name error", "event: error\n" + `data: {"error": {"message": "boom"}}`, CodeAgentError},
		{"an error that is a string", `data: {"error": "boom"}`, CodeAgentError},
		{"an error with another name", "event: x\n" + `data: {"error": {"message": "boom"}}`, CodeIncomplete},
		{"no error", `data: {"error": null}`, CodeIncomplete},
		{"an error in a member", `data: {"x": {"error": {"message": "boom"}}}`, CodeIncomplete},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			_, sum := run(role()+text("a")+c.frame+"\n\n", Options{}, chatParams, cut, CauseEOF)
			got := sum.Code
			if got == "" {
				got = sum.FinishReason
			}
			if got != c.is {
				t.Errorf("%s: the stream ends with %s, want %s", c.name, got, c.is)
			}
		}
	}
}

// In the form unnamed no event line is left, wherever it stood.
func TestUnnamedToolEventsHaveNoName(t *testing.T) {
	data := `{"tool": "terminal", "emoji": "💻", "label": "ls"}`
	for _, frame := range []string{
		"event: hermes.tool.progress\ndata: " + data, "data: " + data + "\nevent: hermes.tool.progress", "id: 1\nevent:hermes.tool.progress\ndata: " + data + "\nretry: 5",
		"event: hermes.tool.progress\ndata: {\"tool\": \"terminal\",\ndata: \"emoji\": \"💻\", \"label\": \"ls\"}",
	} {
		for _, eol := range []string{"\n", "\r", "\r\n"} {
			out := repairWith(strings.ReplaceAll(role()+frame+"\n\n", "\n", eol), Options{Progress: ProgressUnnamed})
			v := look(t, out)
			v.checkLifecycle(t)
			if len(v.starts()) != 1 || strings.Contains(out, "event:") {
				t.Errorf("%q becomes\n%q", frame, out)
			}
			if strings.Contains(frame, "id: 1") && !strings.Contains(out, "id: 1"+eol) || strings.Contains(frame, "retry") && !strings.Contains(out, "retry: 5"+eol) {
				t.Errorf("%q loses a field:\n%q", frame, out)
			}
		}
	}
}
