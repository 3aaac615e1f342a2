package rewrite_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
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
		got := string(rewrite.SetPromptLine(c.path, []byte(c.in), spaceLine))
		if got != c.want {
			t.Errorf("%s\n%s\nbecomes\n%s\nwant\n%s", c.path, c.in, got, c.want)
		}
		if again := rewrite.SetPromptLine(c.path, []byte(got), spaceLine); string(again) != got {
			t.Errorf("twice\n%s", again)
		}
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
			if got := rewrite.SetPromptLine(path, []byte(body), spaceLine); string(got) != body {
				t.Errorf("%s: %s becomes %s", path, body, got)
			}
		}
	}
}

// TestOpening: it is the same for each turn of a conversation, however that is written, and another
// for another.
func TestOpening(t *testing.T) {
	of := func(messages string) string {
		t.Helper()
		opening, ok := rewrite.Opening([]byte(`{"messages":[` + messages + `]}`))
		if !ok {
			t.Fatalf("%s has no opening", messages)
		}
		return string(opening)
	}
	const first = `{"role":"system","content":"Be kind."},{"role":"user","content":"hi"}`
	want := of(first)
	for _, same := range []string{
		first + `,{"role":"assistant","content":"Hello"},{"role":"user","content":"and now?"}`,
		`{"content":"B\u0065 kind.","role":"system"},{"role":"user","content":[{"type":"text","text":"hi"}]}`,
		`{"role":"assistant","content":"Welcome"},` + first,
		first + `,{"role":"developer","content":"x"},{"role":"tool","content":"y"}`,
	} {
		if got := of(same); got != want {
			t.Errorf("%s: %q, want %q", same, got, want)
		}
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
		if opening, ok := rewrite.Opening([]byte(none)); ok {
			t.Errorf("%s has the opening %q", none, opening)
		}
	}
}

// FuzzPromptLine: the request means the same but for its prompt, which begins with the line; every
// byte of it is there, in order; and twice is the same as once.
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
		path := "/v1/runs"
		if isChat {
			path = "/v1/chat/completions"
		}
		in := []byte(body)
		got := rewrite.SetPromptLine(path, in, spaceLine)
		if string(in) != body {
			t.Fatal("the request was written to")
		}
		if again := rewrite.SetPromptLine(path, got, spaceLine); !bytes.Equal(again, got) {
			t.Fatalf("twice: %q, once: %q", again, got)
		}
		if bytes.Equal(got, in) {
			return
		}
		from, to := 0, 0
		for from < len(in) && in[from] == got[from] {
			from++
		}
		for to < len(in)-from && in[len(in)-1-to] == got[len(got)-1-to] {
			to++
		}
		if gone := body[from : len(in)-to]; gone != "" && gone != "null" {
			t.Fatalf("%q becomes %q: %q is gone", in, got, gone)
		}
		if said := systemPrompt(t, got, isChat); !strings.HasPrefix(said, spaceLine) {
			t.Fatalf("%q: the prompt is %q", got, said)
		}
		if before, after := unprompted(t, in, isChat), unprompted(t, got, isChat); !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q: %v, %v", in, got, before, after)
		}
		a, okA := rewrite.Opening(in)
		if _, okB := rewrite.Opening(got); okA != okB && len(a) > 0 {
			t.Fatalf("%q has an opening, %q has none", in, got)
		}
	})
}

// systemPrompt is what Hermes takes from a request for its system prompt.
func systemPrompt(t *testing.T, body []byte, isChat bool) string {
	t.Helper()
	all := decoded(t, body)
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

// unprompted returns what a request says without the line.
func unprompted(t *testing.T, body []byte, isChat bool) any {
	t.Helper()
	all := decoded(t, body)
	cut := func(s string) string { return strings.TrimPrefix(strings.TrimPrefix(s, spaceLine), "\n\n") }
	if !isChat {
		if s, _ := all["instructions"].(string); cut(s) != "" {
			all["instructions"] = cut(s)
		} else {
			delete(all, "instructions")
		}
		return all
	}
	messages, _ := all["messages"].([]any)
	for i, m := range messages {
		m, _ := m.(map[string]any)
		if m["role"] != "system" {
			continue
		}
		switch c := m["content"].(type) {
		case string:
			if m["content"] = cut(c); i == 0 && cut(c) == "" && len(m) == 2 {
				all["messages"] = messages[1:]
			}
		case []any:
			if len(c) == 0 {
				break
			}
			if p, ok := c[0].(map[string]any); ok && p["type"] == "text" && p["text"] == spaceLine {
				m["content"] = c[1:]
			}
		}
		return all
	}
	return all
}

func decoded(t *testing.T, body []byte) (all map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return all
}

// TestPromptLineIsInWhateverHermesReads: Python writes NaN, and reads what is nested some thousands deep. A request
// that its parser refuses does not become another.
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
			if got := string(rewrite.SetPromptLine(path, []byte(head+rest[0]), spaceLine)); got != head+rest[1] {
				t.Errorf("%s %.30s… becomes %.60s…%s", path, head, got, got[max(0, len(got)-100):])
			}
		}
	}
	for _, body := range []string{nested(10_001) + `"messages":[]}`, `{"messages":[{"role":"user","content":"hi"}]} x`, `{"messages":[{"role":"user"`, "{\"messages\":[{\"role\":\"\xff\"}]}"} {
		if got := string(rewrite.SetPromptLine(chat, []byte(body), spaceLine)); got != body {
			t.Errorf("%.60s… becomes %.60s…", body, got)
		}
	}
}
