package rewrite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// rawJSON writes a string as JSON with nothing escaped that need not be.
func rawJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// bodies are the ways in which a request holds content as the assistant's. They
// have no marker but in it.
func bodies(content string) []string {
	ascii, raw := asciiJSON(content), rawJSON(content)
	const user = `{"role": "user", "content": "what does \n` + "`💻 ls`" + `\n mean?"}`
	return []string{
		`{"model": "hermes-agent", "messages": [` + user + `, {"role": "assistant", "content": ` + ascii + `}, ` + user + `], "stream": true}`,
		`{"messages":[{"content":` + raw + `,"role":"assistant"}]}`,
		`{"stream":true,"messages":[` + user + `,{"role":"assistant","content":[{"type":"text","text":` + ascii + `},{"type":"image_url","image_url":{"url":"data:,"}}]}]}`,
		" {\r\n\t\"messages\" : [ { \"role\" : \"assistant\" , \"content\" : [ { \"text\" : " + raw + " , \"type\" : \"text\" } ] } ] }\n",
		`{"messages":[{"role":"\u0061ssistant","\u0063ontent":` + strings.ReplaceAll(raw, "`", `\u0060`) + `}]}`,
		`{"messages":[{"role":"assistant","content":` + raw + `}],"messages":[{"role":"user","role":"assistant","content":` + ascii + `,"content":` + raw + `}]}`,
	}
}

// heal heals a body, and checks what holds for every body.
func heal(t testing.TB, body string) (string, Healed) {
	t.Helper()
	in := []byte(body)
	out, req := Heal(in, nil)
	if string(in) != body {
		t.Fatal("the body was written to")
	}
	if !req.Changed() && (len(in) > 0 && &out[0] != &in[0] || len(out) != len(in)) {
		t.Error("no marker, but the body is another")
	}
	again, more := Heal(out, nil)
	if more.Changed() || string(again) != string(out) {
		t.Errorf("twice: %+v more in %q", more, out)
	}
	return string(out), req
}

// checkHealed heals content in every place it can be in, and wants want there. If nothing
// but white space is left of it, it wants no message there, unless that has another part.
func checkHealed(t testing.TB, content, want string) {
	t.Helper()
	wants := bodies(want)
	if want != content && strings.TrimSpace(want) == "" {
		const user = `{"role": "user", "content": "what does \n` + "`💻 ls`" + `\n mean?"}`
		wants[0] = `{"model": "hermes-agent", "messages": [` + user + `, ` + user + `], "stream": true}`
		wants[1], wants[4], wants[5] = `{"messages":[]}`, `{"messages":[]}`, `{"messages":[],"messages":[]}`
		wants[3] = " {\r\n\t\"messages\" : [  ] }\n"
	}
	for i, body := range bodies(content) {
		got, _ := heal(t, body)
		same(t, got, wants[i], fmt.Sprintf("bodies %d", i))
	}
}

func TestHealedLegacyRecordingsHaveTheContentOfModernOnes(t *testing.T) {
	compared, healed := 0, 0
	for _, r := range chats(t, "g0-v0.8.0", "agent-loop/g0-v0.8.0") {
		if r.scenario == "think_tags" {
			continue // reasoning in the text is another section's
		}
		m, ok := modern(t, r, "g3-v0.20.3")
		if !ok {
			t.Errorf("%s has no modern recording", r.name())
			continue
		}
		want := look(t, m.body).content
		if r.scenario == "model_imitates" {
			want = "Sure\ndone" // G3 leaves imitations in
		}
		content := look(t, r.body).content
		if content != want {
			healed++
		}
		checkHealed(t, content, want)
		if t.Failed() {
			t.Fatal(r.name())
		}
		compared++
	}
	if compared < 20 || healed < 10 {
		t.Errorf("compared %d recordings, of which %d had markers", compared, healed)
	}
}

func TestModernContentIsNotHealed(t *testing.T) {
	for _, r := range chats(t, "g1-v0.9.0", "g2-v0.13.0", "g3-v0.20.3") {
		if r.scenario == "model_imitates" {
			continue
		}
		content := look(t, r.body).content
		checkHealed(t, content, content)
	}
}

func TestHealedTexts(t *testing.T) {
	long := strings.Repeat("x", 9000)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"a", "a"},
		{"a\n`💻 ls`\n\n\nb", "a\n\nb"},
		{"a\n`💻 ls`\n\nb", "a\nb"},
		{"a\n`💻 ls`\nb", "a\nb"},
		{"a\n\n`💻 ls`\n\nb", "a\n\nb"},
		{"a\n\n`💻 ls`\nb", "a\n\nb"},
		{"a\n`💻 ls`\n", "a"},
		{"a\n`💻 ls`", "a"},
		{"a\n\n`💻 ls`", "a\n"},
		{"a\n`💻 ls`\n\n", "a\n"},
		{"`💻 ls`", ""},
		{"`💻 ls`\n", ""},
		{"\n`💻 ls`\n", ""},
		{"\n`💻 ls`\nb", "b"},
		{"`💻 ls`\nb", "b"},
		{"\n`💻 ls`\n\n\nb", "\n\nb"},
		{"a\n`💻 ls`\n\n`📖 b`\n\n`⚙️ c`\n\n\nd", "a\n\nd"},
		{"a\n`💻 ls`\n\n`📖 b`\nd", "a\nd"},
		{"a\n`💻 ls`\n`📖 b`\nd", "a\nd"},
		{"a\n`💻 ls`\n`📖 b`\n", "a"},
		{"\n`💻 ls`\n\n`📖 b`\n", ""},
		{"\n`💻 ls`\n\n`📖 b`\nd", "d"},
		{"a\n`⚙ x`\nb", "a\nb"},
		{"a\n`⚙️ x`\nb", "a\nb"},
		{"a\n`💻 ``\nb", "a\nb"},
		{"a\n`💻 a `b` c`\nb", "a\nb"},
		{"a\n`💻 " + long + "`\nb", "a\nb"},
		{"```\ncode\n```\n`💻 ls`\nb", "```\ncode\n```\nb"},
		{"```go\ncode\n```go\n`💻 ls`\n```\n`💻 ls`\n", "```go\ncode\n```go\n`💻 ls`\n```"},

		// What is no marker line stays.
		{"a `💻 ls`\nb", "a `💻 ls`\nb"},
		{"a\n`💻 ls` b", "a\n`💻 ls` b"},
		{"a\n `💻 ls`\nb", "a\n `💻 ls`\nb"},
		{"a\n`💻 ls` \nb", "a\n`💻 ls` \nb"},
		{"a\r\n`💻 ls`\r\nb", "a\r\n`💻 ls`\r\nb"},
		{"a\n`💻`\nb", "a\n`💻`\nb"},
		{"a\n`💻 `\nb", "a\n`💻 `\nb"},
		{"a\n`🦄 x`\nb", "a\n`🦄 x`\nb"},
		{"a\n`git status`\nb", "a\n`git status`\nb"},
		{"a\n`💻 a` and `📖 b`\nc", "a\n`💻 a` and `📖 b`\nc"},
		{"a\n`💻 ls\nx`\nb", "a\n`💻 ls\nx`\nb"},
		{"```\n`💻 ls`\n```", "```\n`💻 ls`\n```"},
		{"~~~\n`💻 ls`\n", "~~~\n`💻 ls`\n"},
	} {
		if got, _ := withoutMarkers(c.in); got != c.want {
			t.Errorf("the model heals %q to %q", c.in, got)
		}
		checkHealed(t, c.in, c.want)
		if t.Failed() {
			t.Fatalf("%q", c.in)
		}
	}
}

func TestHealKnowsAddedTools(t *testing.T) {
	tools, err := NewTools(map[string]string{"🦄": "unicorn"})
	if err != nil {
		t.Fatal(err)
	}
	in := `{"messages":[{"role":"assistant","content":"a\n` + "`🦄 x`" + `\nb\n` + "`💻 x`" + `"}]}`
	out, req := Heal([]byte(in), tools)
	if want := `{"messages":[{"role":"assistant","content":"a\nb"}]}`; string(out) != want || req.Markers != 2 {
		t.Errorf("%d markers, %s", req.Markers, out)
	}
}

// An emoji may begin with a digit, so that no rune beyond ASCII follows the backtick.
func TestHealKnowsEmojiThatBeginInASCII(t *testing.T) {
	tools, err := NewTools(map[string]string{"1️⃣": "first"})
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"`💻 x`\n", "a\n`💻 x`\n`1`\n`é`", "a\n`🔍 x`\nb\n`💻 x`\n"} {
		known := bodies(content)
		for i, body := range bodies(strings.ReplaceAll(content, "💻", "1️⃣")) {
			want, wantReq := Heal([]byte(known[i]), nil)
			got, req := Heal([]byte(body), tools)
			if string(got) != string(want) || req != wantReq || req.Markers == 0 {
				t.Errorf("%s: %s %+v, want %s %+v", body, got, req, want, wantReq)
			}
		}
	}
}

// Only the texts of the assistant's are healed, in bodies that are sound.
func TestWhatIsNotHealed(t *testing.T) {
	const m = "a\\n`💻 ls`\\nb"
	const message = `{"role":"assistant","content":"` + m + `"}`
	for name, body := range map[string]string{
		"user":                      `{"messages":[{"role":"user","content":"` + m + `"}]}`,
		"system":                    `{"messages":[{"role":"system","content":"` + m + `"}]}`,
		"tool":                      `{"messages":[{"role":"tool","content":"` + m + `"}]}`,
		"user at last":              `{"messages":[{"role":"assistant","content":"` + m + `","role":"user"}]}`,
		"role in capitals":          `{"messages":[{"role":"Assistant","content":"` + m + `"}]}`,
		"role that is no string":    `{"messages":[{"role":["assistant"],"content":"` + m + `"}]}`,
		"no role":                   `{"messages":[{"content":"` + m + `"}]}`,
		"role of a part":            `{"messages":[{"content":[{"role":"assistant","type":"text","text":"` + m + `"}]}]}`,
		"reasoning":                 `{"messages":[{"role":"assistant","content":"x","reasoning_content":"` + m + `","name":"` + m + `"}]}`,
		"tool calls":                `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"arguments":"` + m + `","content":"` + m + `"}}]}]}`,
		"part of another type":      `{"messages":[{"role":"assistant","content":[{"type":"refusal","text":"` + m + `"}]}]}`,
		"part without a type":       `{"messages":[{"role":"assistant","content":[{"text":"` + m + `"}]}]}`,
		"part of two types":         `{"messages":[{"role":"assistant","content":[{"type":"text","text":"` + m + `","type":"x"}]}]}`,
		"part that is a string":     `{"messages":[{"role":"assistant","content":["` + m + `"]}]}`,
		"text of a text":            `{"messages":[{"role":"assistant","content":[{"type":"text","text":{"text":"` + m + `"}}]}]}`,
		"content that is an object": `{"messages":[{"role":"assistant","content":{"type":"text","text":"` + m + `"}}]}`,
		"messages in messages":      `{"messages":[[` + message + `]]}`,
		"messages that are none":    `{"messages":` + message + `}`,
		"messages further down":     `{"body":{"messages":[` + message + `]}}`,
		"an array of requests":      `[{"messages":[` + message + `]}]`,
		"lines of requests":         `{"messages":[` + message + `]}` + "\n" + `{"messages":[` + message + `]}`,
		"garbage behind":            `{"messages":[` + message + `]}x`,
		"cut off":                   `{"messages":[` + message + `]`,
		"cut off in a string":       `{"messages":[` + message + `,{"role":"assistant","content":"` + m,
		"comma at the end":          `{"messages":[` + message + `,]}`,
		"comma left out":            `{"messages":[` + message + message + `]}`,
		"comma for a colon":         `{"messages":[{"role","assistant","content":"` + m + `"}]}`,
		"colon twice":               `{"messages"::[` + message + `]}`,
		"single quotes":             `{'messages':[` + message + `]}`,
		"control character":         `{"messages":[` + message + `],"x":"` + "\x01" + `"}`,
		"newline in a string":       "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\n`💻 ls`\nb\"}]}",
		"bad escape":                `{"messages":[` + message + `],"x":"\x"}`,
		"bad number":                `{"messages":[` + message + `],"x":01}`,
		"NaN":                       `{"messages":[` + message + `],"x":NaN}`,
		"BOM":                       "\ufeff" + `{"messages":[` + message + `]}`,
		"invalid UTF-8":             `{"messages":[` + message + `],"x":"` + "\xff" + `"}`,
		"too deep":                  `{"messages":[` + message + `],"x":` + strings.Repeat("[", jsonspan.MaxDepth) + strings.Repeat("]", jsonspan.MaxDepth) + `}`,
		"much too deep":             `{"messages":[` + message + `],"x":` + strings.Repeat(`{"a":`, 1<<20),
		"deep messages":             `{"messages":` + strings.Repeat("[", 1<<20),
		"nothing":                   "",
		"space":                     " \n",
		"null":                      "null",
		"a string":                  `"` + m + `"`,
		"half a name":               `{"messages`,
		"name alone":                `{"messages"`,
		"name and colon":            `{"messages":`,
		"half a surrogate":          `{"messages":[{"role":"assistant","content":"a\n` + "`\\ud83d ls`" + `\nb"}]}`,
		"half a surrogate within":   `{"messages":[` + message + `,{"role":"assistant","content":"a\n` + "`💻 \\ud83d ls`" + `\nb"}]}`,
		"the other half of one":     `{"messages":[` + message + `,{"role":"assistant","content":"a\n` + "`💻 \\uDC00`" + `\nb"}]}`,
		"half an escape":            `{"messages":[{"role":"assistant","content":"` + "`" + `\u27`,
	} {
		got, req := heal(t, body)
		same(t, got, body, name+": bytes")
		if req.Markers != 0 {
			t.Errorf("%s: %d markers", name, req.Markers)
		}
	}
}

// Odd bodies that are sound all the same are healed.
func TestOddBodiesThatAreHealed(t *testing.T) {
	const m, clean = "a\\n`💻 ls`\\nb", "a\\nb"
	for name, body := range map[string]string{
		"lone surrogates elsewhere": `{"messages":[{"role":"user","content":"\ud83d \udcbb"},{"role":"assistant","content":"\ud800` + m + `\udc00"}]}`,
		"messages that are odd":     `{"messages":[1,null,"x",[],{},[{}],{"role":"assistant","content":"` + m + `"},-1.5e+3,true]}`,
		"deep as can be":            `{"messages":[{"role":"assistant","content":"` + m + `"}],"x":` + strings.Repeat("[", jsonspan.MaxDepth-1) + strings.Repeat("]", jsonspan.MaxDepth-1) + `}`,
		"two contents":              `{"messages":[{"content":"` + m + `","role":"assistant","content":[{"text":"` + m + `","type":"text","text":"` + m + `"}]}]}`,
		"space behind":              "{\"messages\":[{\"role\":\"assistant\",\"content\":\"" + m + "\"}]} \r\n\t",
		"empty names":               `{"":1,"messages":[{"":"","role":"assistant","content":"` + m + `"}]}`,
		"names in escapes":          `{"\u006d\u0065ssages":[{"\u0072ole":"assistan\u0074","content":[{"t\u0079pe":"\u0074ext","te\u0078t":"` + m + `"}]}]}`,
		"escapes in the marker":     `{"messages":[{"role":"assistant","content":"` + `a\u000A\u0060\uD83D\uDCBB\u0020ls` + "`" + `\u000ab` + `"}],"x":"` + m + `"}`,
		"quotes and backslashes":    `{"messages":[{"role":"assistant","content":"\"\\\\\"\\` + m + `\\"}],"x":"\\\""}`,
	} {
		got, req := heal(t, body)
		want := body
		if name == "escapes in the marker" {
			want = `{"messages":[{"role":"assistant","content":"a\u000Ab"}],"x":"` + m + `"}`
		} else {
			want = strings.ReplaceAll(want, m, clean)
		}
		same(t, got, want, name+": bytes")
		if req.Markers == 0 {
			t.Errorf("%s: %+v", name, req)
		}
	}
}

func TestHealTellsWhatARequestAsksFor(t *testing.T) {
	for body, want := range map[string]Healed{
		`{}`:                                   {Asked: AskedWhole},
		`{"stream":true}`:                      {Asked: AskedStream},
		`{"str\u0065am" : true }`:              {Asked: AskedStream},
		`{"stream":false}`:                     {Asked: AskedWhole},
		`{"stream":null}`:                      {Asked: AskedWhole},
		`{"stream":1}`:                         {},
		`{"stream":"true"}`:                    {},
		`{"stream":[true]}`:                    {},
		`{"stream":true,"stream":false}`:       {Asked: AskedWhole},
		`{"stream":false,"stream":true}`:       {Asked: AskedStream},
		`{"x":{"stream":true}}`:                {Asked: AskedWhole},
		`{"x":"\"stream\":true"}`:              {Asked: AskedWhole},
		`{"messages":[]}`:                      {Asked: AskedWhole},
		`{"messages":[],"stream":true}`:        {Asked: AskedStream},
		`{"stream":true,"messages":[{"a":1}]}`: {Asked: AskedStream},
		`{"messages":{},"stream":true}`:        {Asked: AskedStream},
		`{"stream":true}{}`:                    {},
		`{"stream":true`:                       {},
		`[{"stream":true}]`:                    {},
		`true`:                                 {},
		``:                                     {},
	} {
		if _, got := heal(t, body); got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
}

// A tool's arguments may be deep; what stream says is found after them.
func TestStreamIsFoundBehindDeepJSON(t *testing.T) {
	deep := strings.Repeat("[", 1<<16) + strings.Repeat("]", 1<<16)
	if _, req := heal(t, `{"x":`+deep+`,"stream":true}`); req.Asked != AskedStream {
		t.Errorf("%+v", req)
	}
}
