package rewrite

import (
	"encoding/json"
	"strings"
	"testing"
)

const spaceLine = "Conversation space: 3f2a9c0d1e2b4a56"

// TestPromptLine: the line comes first in the system prompt, wherever that is, and nothing else changes.
func TestPromptLine(t *testing.T) {
	const chat, responses, runs = "/p/a/v1/chat/completions", "/v1/responses", "/v1/runs"
	const system = `{"role":"system","content":"` + spaceLine + `"},`
	for _, c := range []struct{ path, in, want string }{
		{chat, `{ "model": "m", "messages" : [ {"role": "system", "content" : "Be\u0020kind." }, {"role":"user","content":"hi"}] }`,
			`{ "model": "m", "messages" : [ {"role": "system", "content" : "` + spaceLine + `\n\nBe\u0020kind." }, {"role":"user","content":"hi"}] }`},
		{chat, `{"messages":[{"role":"user","content":"hi"},{"content":"late","r\u006fle":"syst\u0065m"},{"role":"system","content":"second"}]}`,
			`{"messages":[{"role":"user","content":"hi"},{"content":"` + spaceLine + `\n\nlate","r\u006fle":"syst\u0065m"},{"role":"system","content":"second"}]}`},
		{chat, `{"messages":[{"role":"system","content":""}]}`, `{"messages":[{"role":"system","content":"` + spaceLine + `"}]}`},
		{chat, `{"messages":[{"role":"system","content":[{"type":"text","text":"a"}]}]}`,
			`{"messages":[{"role":"system","content":[{"type":"text","text":"` + spaceLine + `"},{"type":"text","text":"a"}]}]}`},
		{chat, `{"messages":[{"role":"system","content":[ ]}]}`, `{"messages":[{"role":"system","content":[{"type":"text","text":"` + spaceLine + `"} ]}]}`},
		// A part that Hermes skips does not have the line.
		{chat, `{"messages":[{"role":"system","content":[{"type":"x","text":"` + spaceLine + `"}]}]}`,
			`{"messages":[{"role":"system","content":[{"type":"text","text":"` + spaceLine + `"},{"type":"x","text":"` + spaceLine + `"}]}]}`},
		{chat, `{"messages":[{"role":"system","content":["` + spaceLine + `"]}]}`,
			`{"messages":[{"role":"system","content":[{"type":"text","text":"` + spaceLine + `"},"` + spaceLine + `"]}]}`},
		// No system prompt, or none that is a text. Hermes does not read a developer's.
		{chat, `{"messages":[{"role":"user","content":"hi"}]}`, `{"messages":[` + system + `{"role":"user","content":"hi"}]}`},
		{chat, `{"messages":[{"role":"developer","content":"x"}]}`, `{"messages":[` + system + `{"role":"developer","content":"x"}]}`},
		{chat, `{"messages":[{"role":"system","content":null}]}`, `{"messages":[` + system + `{"role":"system","content":null}]}`},
		{chat, `{"messages":[{"role":"system"}]}`, `{"messages":[` + system + `{"role":"system"}]}`},
		{chat, `{"messages":[7]}`, `{"messages":[` + system + `7]}`},
		// The last of two counts, as in Python.
		{chat, `{"messages":[{"role":"system","content":"a"}],"messages":[{"role":"user","role":"system","content":"b","content":"c"}]}`,
			`{"messages":[{"role":"system","content":"a"}],"messages":[{"role":"user","role":"system","content":"b","content":"` + spaceLine + `\n\nc"}]}`},
		// A text that only begins like the line does not have it.
		{chat, `{"messages":[{"role":"system","content":"` + spaceLine + `7"}]}`, `{"messages":[{"role":"system","content":"` + spaceLine + `\n\n` + spaceLine + `7"}]}`},

		{responses, `{"input":"hi"}`, `{"instructions":"` + spaceLine + `","input":"hi"}`},
		{runs, ` {}`, ` {"instructions":"` + spaceLine + `"}`},
		{runs, `{"input":"hi","instructions":"Be kind."}`, `{"input":"hi","instructions":"` + spaceLine + `\n\nBe kind."}`},
		{responses, `{"input":"hi","instructions": null}`, `{"input":"hi","instructions": "` + spaceLine + `"}`},
		{responses, `{"previous_response_id":"r","instructions":"x"}`, `{"previous_response_id":"r","instructions":"` + spaceLine + `\n\nx"}`},
		{responses, `{"previous_response_id":null,"conversation":null}`, `{"instructions":"` + spaceLine + `","previous_response_id":null,"conversation":null}`},
	} {
		got := SetPromptLine(c.path, []byte(c.in), spaceLine)
		same(t, string(got), c.want, c.path+": bodies")
		same(t, string(SetPromptLine(c.path, got, spaceLine)), c.want, "twice and once")
	}
}

// TestPromptLineOfWhatIsNotARequest: it passes as it is.
func TestPromptLineOfWhatIsNotARequest(t *testing.T) {
	for path, bodies := range map[string][]string{
		"/v1/chat/completions": {
			"", "null", "[]", `"messages"`, `{"messages":[{"role":"system","content":"a"}]`, `{"messages":[{"role":"system","content":"a"}]} x`,
			`{}`, `{"messages":[]}`, `{"messages":{}}`, `{"messages":[1],"messages":null}`, `{"messages":[1],"n":nan}`, "{\"messages\":[\"\xff\"]}",
			`{"messages":[` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `]}`,
		},
		"/v1/responses": {"", "[]", `{"previous_response_id":"r"}`, `{"conversation":"c","instructions":null}`, `{"instructions":7}`, `{"instructions":["a"]}`, `{`},
		"/v1/models":    {`{"messages":[{"role":"system","content":"a"}],"instructions":"x"}`},
	} {
		for _, body := range bodies {
			same(t, string(SetPromptLine(path, []byte(body), spaceLine)), body, path+": bodies")
		}
	}
}

// TestOpening: it is the same for each turn of a conversation, however that is written, and another
// for another.
func TestOpening(t *testing.T) {
	of := func(messages string) string {
		t.Helper()
		opening, ok := Opening([]byte(`{"messages":[` + messages + `]}`))
		if !ok {
			t.Fatalf("%s has no opening", messages)
		}
		return string(opening)
	}
	const first = `{"role":"system","content":"Be kind."},{"role":"user","content":"hi"}`
	want := of(first)
	for _, turns := range []string{
		first + `,{"role":"assistant","content":"Hello"},{"role":"user","content":"and now?"}`,
		`{"content":"B\u0065 kind.","role":"system"},{"role":"user","content":[{"type":"text","text":"hi"}]}`,
		`{"role":"assistant","content":"Welcome"},` + first,
		first + `,{"role":"developer","content":"x"},{"role":"tool","content":"y"}`,
	} {
		equal(t, of(turns), want, turns)
	}
	picture := `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:a"}}]}`
	seen := map[string]string{want: first}
	for _, other := range []string{
		`{"role":"system","content":"Be kind."},{"role":"user","content":"hi!"}`,
		`{"role":"system","content":"Be kind"},{"role":"user","content":"hi"}`,
		`{"role":"user","content":"hi"}`,
		`{"role":"user","content":"Be kind.\nhi"}`,
		`{"role":"system","content":"hi"}`,
		`{"role":"system","content":null}`,
		first + `,{"role":"system","content":"And brief."}`,
		picture, strings.Replace(picture, "data:a", "data:b", 1), `{"role":"user","content":7}`,
		`{"role":"assistant","content":"hi"}`,
	} {
		got := of(other)
		if before, twice := seen[got]; twice {
			t.Errorf("%s is the same as %s", other, before)
		}
		seen[got] = other
	}
	for _, none := range []string{"", "{}", `{"messages":[]}`, `{"messages":[{"role":"user","content":"a"}]`, `{"messages":"hi"}`} {
		if opening, ok := Opening([]byte(none)); ok {
			t.Errorf("%s has the opening %q", none, opening)
		}
	}
}

// FuzzPromptLine: the request gets nothing but the line, with which its prompt then begins; and twice is the same as
// once.
func FuzzPromptLine(f *testing.F) {
	for _, body := range []string{
		`{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"hi"}]}`,
		`{"messages":[{"role":"system","content":[{"type":"text","text":"a"}]}],"instructions":"x"}`,
		`{"messages":[{"role":"user","content":"hi"}],"instructions":null}`, `{"input":"hi"}`, `{"messages":[1],"previous_response_id":"r"}`,
	} {
		f.Add(body, true)
		f.Add(body, false)
	}
	f.Fuzz(func(t *testing.T, body string, isChat bool) {
		path := map[bool]string{false: "/v1/runs", true: "/v1/chat/completions"}[isChat]
		in := []byte(body)
		got := string(SetPromptLine(path, in, spaceLine))
		same(t, string(in), body, "the request and what it was")
		same(t, string(SetPromptLine(path, []byte(got), spaceLine)), got, "twice and once")
		if got == body {
			return
		}
		if !addsLine(body, got) {
			t.Errorf("%q becomes %q", body, got)
		}
		begins(t, systemPrompt(t, got, isChat), spaceLine)
		opening, before := Opening(in)
		if _, after := Opening([]byte(got)); before != after && len(opening) > 0 {
			t.Errorf("%q has an opening, %q has none", body, got)
		}
	})
}

// addsLine reports whether got is a request with the line, in one of the forms that this may have, and nothing else.
func addsLine(body, got string) bool {
	for with, without := range map[string]string{
		`{"role":"system","content":"` + spaceLine + `"},`: "", // a message
		spaceLine + `\n\n`: "", spaceLine: "", // in a text
		`{"type":"text","text":"` + spaceLine + `"},`: "", `{"type":"text","text":"` + spaceLine + `"}`: "", // a part
		`"instructions":"` + spaceLine + `",`: "", `"instructions":"` + spaceLine + `"`: "", `"` + spaceLine + `"`: "null",
	} {
		for i := range got {
			if rest, ok := strings.CutPrefix(got[i:], with); ok && got[:i]+without+rest == body {
				return true
			}
		}
	}
	return false
}

// systemPrompt is what Hermes takes from a request for its system prompt.
func systemPrompt(t *testing.T, body string, isChat bool) string {
	t.Helper()
	var all map[string]any
	d := json.NewDecoder(strings.NewReader(standardJSON(body)))
	d.UseNumber() // a number may be beyond a double
	if err := d.Decode(&all); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if !isChat {
		s, _ := all["instructions"].(string)
		return s
	}
	messages, _ := all["messages"].([]any)
	for _, m := range messages {
		m, _ := m.(map[string]any)
		if m["role"] != "system" {
			continue
		}
		parts, _ := m["content"].([]any)
		for _, part := range parts {
			if p, ok := part.(map[string]any); ok && p["type"] == "text" {
				s, _ := p["text"].(string)
				return s
			}
		}
		s, _ := m["content"].(string)
		return s
	}
	return ""
}

// TestPromptLineIsInWhateverHermesReads: Python writes NaN, and reads what is nested some thousands deep.
func TestPromptLineIsInWhateverHermesReads(t *testing.T) {
	nested := func(depth int) string {
		return `{"x":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `,`
	}
	const chat, runs = "/v1/chat/completions", "/v1/runs"
	for _, head := range []string{`{"temperature":NaN,`, `{"top_p":-Infinity,`, nested(129), nested(900), nested(9_999)} {
		for path, rest := range map[string][2]string{
			chat: {`"messages":[{"role":"user","content":"hi"}]}`, `"messages":[{"role":"system","content":"` + spaceLine + `"},{"role":"user","content":"hi"}]}`},
			runs: {`"instructions":null,"input":"hi"}`, `"instructions":"` + spaceLine + `","input":"hi"}`},
		} {
			same(t, string(SetPromptLine(path, []byte(head+rest[0]), spaceLine)), head+rest[1], path+": bodies")
		}
	}
}
