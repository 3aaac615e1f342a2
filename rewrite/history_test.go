package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
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

// bodies are the ways in which a request holds content as the assistant's. They have no marker but in it.
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
	out, req := Heal(in, nil, nil)
	if string(in) != body {
		t.Fatal("the body was written to")
	}
	if !req.Changed() && (len(in) > 0 && &out[0] != &in[0] || len(out) != len(in)) {
		t.Error("no marker, but the body is another")
	}
	again, more := Heal(out, nil, nil)
	if more.Changed() || string(again) != string(out) {
		t.Errorf("twice: %+v more in %q", more, out)
	}
	return string(out), req
}

// checkHealed heals content in every place it can be in, and wants want there. If only white space is left,
// it wants no message there, unless the message has another part.
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

func TestHealedTexts(t *testing.T) {
	texts := map[string]string{
		"a\n`💻 ls`\n": "a", "a\n`💻 ls`": "a", "a\n\n`💻 ls`": "a\n", "a\n`💻 ls`\n\n": "a\n", "a\n`💻 ls`\n`📖 b`\n": "a",
		"`💻 ls`": "", "`💻 ls`\n": "", "\n`💻 ls`\n": "", "\n`💻 ls`\nb": "b", "`💻 ls`\nb": "b", "\n`💻 ls`\n\n\nb": "\n\nb",
		"\n`💻 ls`\n\n`📖 b`\n": "", "\n`💻 ls`\n\n`📖 b`\nd": "d", "a\n`💻 ls`\n\n`📖 b`\n\n`⚙️ c`\n\n\nd": "a\n\nd",
		"a\n`💻 " + strings.Repeat("x", 9000) + "`\nb": "a\nb",
		"```go\ncode\n```go\n`💻 ls`\n```\n`💻 ls`\n":   "```go\ncode\n```go\n`💻 ls`\n```",
		"Let me check.\n`💻 ls -la`  \n\nThere are 3.": "Let me check.\nThere are 3.",
		"a\r\n`💻 ls`\r\nb":                            "a\r\nb", "a\r\n`💻 ls`\r\n\r\nb": "a\r\nb", "a\r\n`💻 ls`\r\n": "a", "a\r\n`💻 ls`\r": "a", "a\r\n\r\n`💻 ls` \t": "a\r\n",
		"\r\n`💻 ls`\r\n": "", "\r\n`💻 ls`\r\nb": "b", "`💻 ls`\r\n\r\nb": "b", "\r\n`💻 ls`\r\n\r\nb": "\r\nb", "a\\r\n`💻 ls`\n": "a\\r",
		"a\n  `💻 ls`\t\nb": "a\nb", "a\n\u00a0 `💻 ls`": "a", "  `💻 ls`\nb": "b", "a\n `💻 ls`\n `📖 b`\n\nc": "a\nc", "a\n`⚙\ufe0e x`\nb": "a\nb", "`💻\ufe0e ls`": "",
	}
	for _, s := range []string{ // what is no marker line stays
		"", "a", "a\n`💻 ` \nb", "a\n    `💻 ls`\nb", "a\n\t`💻 ls`\nb", "a\n`💻 ls` x\nb", "a\r`💻 ls`\rb", "a\n`💻 `\nb", "a\n`💻 a` and `📖 b`\nc", "a\n`💻 ls\nx`\nb",
	} {
		texts[s] = s
	}
	for in, want := range texts {
		if got, _ := withoutMarkers(in); got != want {
			t.Errorf("the model heals %q to %q", in, got)
		}
	}
	for _, s := range strips {
		texts[s.content], _ = withoutMarkers(s.content)
	}
	for in, want := range texts {
		if checkHealed(t, in, want); t.Failed() {
			t.Fatalf("%q", in)
		}
	}
}

// Tools that operators add are known, also if their emoji begins with a digit, so that no rune beyond ASCII
// follows the backtick.
func TestHealKnowsAddedTools(t *testing.T) {
	for _, added := range []string{"🦄", "1️⃣"} {
		tools, err := NewTools(map[string]string{added: "added"})
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{"`💻 x`\n", "a\n`💻 x`\n`1`\n`é`", "a\n`🔍 x`\nb\n`💻 x`\n"} {
			known := bodies(content)
			for i, body := range bodies(strings.ReplaceAll(content, "💻", added)) {
				want, wantReq := Heal([]byte(known[i]), nil, nil)
				got, req := Heal([]byte(body), tools, nil)
				same(t, string(got), string(want), body)
				equal(t, req, wantReq, body)
			}
		}
	}
}

// Only the assistant's texts are healed, and only in well-formed bodies, however odd those are.
func TestWhatIsHealed(t *testing.T) {
	const m, clean = "a\\n`💻 ls`\\nb", "a\\nb"
	const message = `{"role":"assistant","content":"` + m + `"}`
	// What else is no JSON is a matter of package jsonspan.
	stay := map[string]string{
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
		"text of a text":            `{"messages":[{"role":"assistant","content":[{"type":"text","text":{"text":"` + m + `"}}]}]}`,
		"content that is an object": `{"messages":[{"role":"assistant","content":{"type":"text","text":"` + m + `"}}]}`,
		"messages in messages":      `{"messages":[[` + message + `]]}`,
		"messages that are none":    `{"messages":` + message + `}`,
		"messages further down":     `{"body":{"messages":[` + message + `]}}`,
		"an array of requests":      `[{"messages":[` + message + `]}]`,
		"lines of requests":         `{"messages":[` + message + `]}` + "\n" + `{"messages":[` + message + `]}`,
		"cut off":                   `{"messages":[` + message + `]`,
		"bad escape":                `{"messages":[` + message + `],"x":"\x"}`,
		"BOM":                       "\ufeff" + `{"messages":[` + message + `]}`,
		"invalid UTF-8":             `{"messages":[` + message + `],"x":"` + "\xff" + `"}`,
		"too deep":                  `{"messages":[` + message + `],"x":` + strings.Repeat("[", jsonspan.MaxDepth) + strings.Repeat("]", jsonspan.MaxDepth) + `}`,
		"much too deep":             `{"messages":[` + message + `],"x":` + strings.Repeat(`{"a":`, 1<<20),
		"deep messages":             `{"messages":` + strings.Repeat("[", 1<<20),
		"a name and a colon":        `{"messages":`,
		"half a surrogate":          `{"messages":[{"role":"assistant","content":"a\n` + "`\\ud83d ls`" + `\nb"}]}`,
		"half a surrogate within":   `{"messages":[` + message + `,{"role":"assistant","content":"a\n` + "`💻 \\ud83d ls`" + `\nb"}]}`,
		"the other half of one":     `{"messages":[` + message + `,{"role":"assistant","content":"a\n` + "`💻 \\uDC00`" + `\nb"}]}`,
	}
	heals := map[string]string{
		"lone surrogates elsewhere": `{"messages":[{"role":"user","content":"\ud83d \udcbb"},{"role":"assistant","content":"\ud800` + m + `\udc00"}]}`,
		"messages that are odd":     `{"messages":[1,null,"x",[],{},[{}],{"role":"assistant","content":"` + m + `"},-1.5e+3,true]}`,
		"deep as can be":            `{"messages":[{"role":"assistant","content":"` + m + `"}],"x":` + strings.Repeat("[", jsonspan.MaxDepth-1) + strings.Repeat("]", jsonspan.MaxDepth-1) + `}`,
		"two contents":              `{"messages":[{"content":"` + m + `","role":"assistant","content":[{"text":"` + m + `","type":"text","text":"` + m + `"}]}]}`,
		"parts that are strings":    `{"messages":[{"role":"assistant","content":["` + m + `","x"]}]}`,
		"parts of responses":        `{"messages":[{"role":"assistant","content":[{"type":"output_text","text":"` + m + `"},{"type":"input_text","text":"` + m + `"}]}]}`,
		"space after":               "{\"messages\":[{\"role\":\"assistant\",\"content\":\"" + m + "\"}]} \r\n\t",
		"empty names":               `{"":1,"messages":[{"":"","role":"assistant","content":"` + m + `"}]}`,
		"names in escapes":          `{"\u006d\u0065ssages":[{"\u0072ole":"assistan\u0074","content":[{"t\u0079pe":"\u0074ext","te\u0078t":"` + m + `"}]}]}`,
		"quotes and backslashes":    `{"messages":[{"role":"assistant","content":"\"\\\\\"\\` + m + `\\"}],"x":"\\\""}`,
	}
	for _, bodies := range []map[string]string{stay, heals} {
		for name, body := range bodies {
			want := body
			if heals[name] != "" {
				want = strings.ReplaceAll(body, m, clean)
			}
			got, req := heal(t, body)
			same(t, got, want, name+": bytes")
			equal(t, req.Markers > 0, got != body, name)
		}
	}
}

const lineOfMarker = `a\n` + "`💻 ls`" + `\nb`

// messagesOfAllKinds are elements of messages, none of them with cards. What is between
// their contents is the same for some and only looks like it for others.
var messagesOfAllKinds = []string{
	`{"role":"user","content":"` + lineOfMarker + `"}`,
	`{"role":"assistant","content":"` + lineOfMarker + `"}`,
	`{"role":"assistant","content":"a \"b\" \\"}`,
	`{"role":"assistant","content":""}`,
	`{"content":"` + lineOfMarker + `","role":"assistant"}`,
	`{"content":"` + lineOfMarker + `","role":"user"}`,
	`{"role":"user","content":"` + lineOfMarker + `","role":"assistant"}`,
	`{"role":"assistant","content":"` + lineOfMarker + `","role":"user"}`,
	`{"role":"user","role":"assistant","content":"` + lineOfMarker + `"}`,
	`{"role":"assistant","role":"user","content":"` + lineOfMarker + `"}`,
	`{"role":"user","content":"` + lineOfMarker + `","content":"` + lineOfMarker + `","role":"assistant"}`,
	`{"role":"assistant","content":"` + lineOfMarker + `","content":"` + lineOfMarker + `"}`,
	`{"role":"assistant","content":"` + lineOfMarker + `","content":["x",{"type":"text","text":"` + lineOfMarker + `"}]}`,
	`{"role":"assistant","content":[{"text":"` + lineOfMarker + `","type":"text"},{"type":"x","text":"` + lineOfMarker + `"}],"content":"` + lineOfMarker + `"}`,
	`{"role":"assistant","content":"` + lineOfMarker + `","content":"` + lineOfMarker + `","role":"user"}`,
	`{"content":"` + lineOfMarker + `","role":"assistant","content":"` + lineOfMarker + `"}`,
	`{"role":"assistant","content":"` + lineOfMarker + `","name":"x"}`,
	`{"role":"assistant","name":"x","content":"` + lineOfMarker + `"}`,
	`{"name":{"role":"user","content":"` + lineOfMarker + `"},"role":"assistant","content":"` + lineOfMarker + `"}`,
	`{"role":"assistant","content":null,"tool_calls":[{"content":"` + lineOfMarker + `"}]}`,
	`{"role":"assistant","content":"` + lineOfMarker + `","tool_calls":[{"id":"x"}]}`,
	`{"role":"assistant","tool_calls":[],"content":"` + lineOfMarker + `"}`,
	`{"content":"` + lineOfMarker + `"}`,
	`{"role":7,"content":"` + lineOfMarker + `"}`,
	`{"\u0072ole":"assistan\u0074","\u0063ontent":"a\n\u0060💻 ls\u0060\nb"}`,
	`{"role":"assistant","content":{"content":"` + lineOfMarker + `"}}`,
	`[{"role":"assistant","content":"` + lineOfMarker + `"}]`,
	`{}`,
	`"role"`,
	`null`,
	markersAlone,
	`{"content":[{"type":"text","text":"` + lineOfMarkers + `"}],"name":"x","tool_calls":[],"role":"assistant"}`,
	`{"role":"assistant","content":"` + lineOfMarkers + `","tool_calls":[{"id":"x"}]}`,
	`{"role":"assistant","content":"` + lineOfMarkers + `","refusal":"no"}`,
	`{"role":"assistant","refusal":"no","content":"` + lineOfMarkers + `"}`,
	toolOfTests,
}

const (
	lineOfMarkers = `\n` + "`💻 ls`" + `\n\n` + "`📖 x`" + `\n`
	markersAlone  = `{"role":"assistant","content":"` + lineOfMarkers + `"}`
	toolOfTests   = `{"role":"tool","content":"` + lineOfMarker + `","tool_call_id":"x"}`
)

// FuzzMessagesAlone: a message is healed as if it were alone, whatever is before and
// after it. Only a tool's message after it keeps one that would leave.
func FuzzMessagesAlone(f *testing.F) {
	var all []byte
	for i := range messagesOfAllKinds {
		for j := range messagesOfAllKinds {
			pair := []byte{byte(i), byte(j), byte(i), byte(j)} // and again
			f.Add(pair)                                        // a fuzzer that changes all of them at once is slow
			all = append(all, pair...)
		}
	}
	f.Add(all)
	f.Add([]byte{0, 1, 0, 1, 0, 2, 0, 3, 0, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		const head, shut = `{"messages":[`, `],"stream":false}`
		var in, want []string
		markers := 0
		for i, b := range script {
			m, next := messagesOfAllKinds[int(b)%len(messagesOfAllKinds)], ""
			if i+1 < len(script) && messagesOfAllKinds[int(script[i+1])%len(messagesOfAllKinds)] == toolOfTests {
				next = "," + toolOfTests
			}
			alone, req := heal(t, head+m+next+shut)
			markers += req.Markers
			in = append(in, m)
			if alone = strings.TrimSuffix(strings.TrimPrefix(alone, head), next+shut); alone != "" {
				want = append(want, alone)
			}
		}
		whole := head + strings.Join(in, ",") + shut
		got, req := heal(t, whole)
		same(t, got, head+strings.Join(want, ",")+shut, "bodies")
		equal(t, req.Markers, markers, "markers")
		// If the end is missing, nothing is healed.
		got, req = heal(t, strings.TrimSuffix(whole, "}"))
		same(t, got, strings.TrimSuffix(whole, "}"), "bodies without an end")
		equal(t, req, Healed{}, "what is known of them")
	})
}

// A message of only marker lines is removed with its comma, because providers refuse an empty one. A message
// that says anything else stays.
func TestMessagesOfNothingButMarkersLeave(t *testing.T) {
	const user, m = `{"role":"user","content":"x"}`, markersAlone
	part := `{"type":"text","text":"` + lineOfMarkers + `"}`
	with := func(members string) string { return `{"role":"assistant",` + members + `}` }
	for name, c := range map[string]struct{ in, want string }{
		"only":                    {m, ``},
		"only, with white space":  {"\n " + m + " \t", "\n  \t"},
		"between":                 {user + ` , ` + m + ` ,` + user, user + ` ,` + user},
		"several at the end":      {user + `,` + m + ` , ` + m, user},
		"a part":                  {with(`"content":[`+part+`]`) + `,` + user, user},
		"parts":                   {with(`"content":[`+part+`,`+part+`,{"type":"text","text":" "}]`) + `,` + user, user},
		"white space is left":     {assistant("\n\n`💻 ls`\n\n\n") + `,` + user, user},
		"empty members":           {with(`"content":"`+lineOfMarkers+`","tool_calls":[],"refusal":null,"audio":null,"function_call":{},"annotations":[],"name":"n","id":"i","ts":1.5`) + `,` + user, user},
		"role after":              {`{"content":"` + lineOfMarkers + `","role":"assistant"},` + user, user},
		"content twice":           {with(`"content":"`+lineOfMarkers+`","content":["",`+part+`]`) + `,` + user, user},
		"escapes":                 {`{"r\u006fle":"\u0061ssistant","\u0063ontent":[{"\u0074ype":"t\u0065xt","te\u0078t":"` + strings.ReplaceAll(lineOfMarkers, "`", `\u0060`) + `"}]},` + user, user},
		"an element that is none": {`1,` + m + `,null,` + m, `1,null`},
		"between elements":        {`"a" , ` + m + ` , {}`, `"a" , {}`},

		"tool calls":          {with(`"content":"`+lineOfMarkers+`","tool_calls":[{"id":"x"}]`) + `,` + user, with(`"content":"","tool_calls":[{"id":"x"}]`) + `,` + user},
		"tool calls before":   {with(`"tool_calls":[{"id":"x"}],"content":"`+lineOfMarkers+`"`) + `,` + user, with(`"tool_calls":[{"id":"x"}],"content":""`) + `,` + user},
		"a refusal":           {with(`"content":"`+lineOfMarkers+`","refusal":"no"`) + `,` + user, with(`"content":"","refusal":"no"`) + `,` + user},
		"reasoning":           {with(`"reasoning_content":"hm","content":"`+lineOfMarkers+`"`) + `,` + user, with(`"reasoning_content":"hm","content":""`) + `,` + user},
		"another part":        {with(`"content":[`+part+`,{"type":"image_url","image_url":{"url":"u"}}]`) + `,` + user, with(`"content":[{"type":"text","text":""},{"type":"image_url","image_url":{"url":"u"}}]`) + `,` + user},
		"a part with a text":  {with(`"content":[`+part+`,{"type":"text","text":"a"}]`) + `,` + user, with(`"content":[{"type":"text","text":""},{"type":"text","text":"a"}]`) + `,` + user},
		"a string for a part": {with(`"content":[`+part+`,"a"]`) + `,` + user, with(`"content":[{"type":"text","text":""},"a"]`) + `,` + user},
		"content twice, text": {with(`"content":"a","content":"`+lineOfMarkers+`"`) + `,` + user, with(`"content":"a","content":""`) + `,` + user},
		"empty as it came":    {assistant("") + `,` + m + `,` + with(`"content":[]`), assistant("") + `,` + with(`"content":[]`)},
		"a user's":            {strings.Replace(m, "assistant", "user", 1) + `,` + user, strings.Replace(m, "assistant", "user", 1) + `,` + user},
		"before an output":    {with(`"content":null,"tool_calls":[{"id":"x"}]`) + `,` + m + ` , ` + toolOfTests, with(`"content":null,"tool_calls":[{"id":"x"}]`) + `,` + with(`"content":""`) + ` , ` + toolOfTests},
	} {
		for _, frame := range []string{`{"messages":[%s],"stream":true}`, `{"model":"m", "messages": [%s]}`, `{"messages":[%[1]s],"messages":[%[1]s]}`} {
			got, req := heal(t, fmt.Sprintf(frame, c.in))
			same(t, got, fmt.Sprintf(frame, c.want), name+": bodies")
			if req.Markers == 0 && name != "a user's" {
				t.Errorf("%s: %+v", name, req)
			}
		}
	}
	// Also with cards, where the body is healed in place.
	got, req := heal(t, request(m, carded(1, "a\n`💻 ls`\n", "ls"), m, user, carded(2, "`💻 ls`", "ls"), user, m, carded(3, "b", "ls"), m, m, user))
	same(t, got, request(assistant("a"), user, user, assistant("b"), user), "bodies")
	equal(t, req.Cards, 3, "cards")
}

// cardCalls is the member tool_calls of cards with the labels, whose ids begin with n.
func cardCalls(n int, labels ...string) string {
	var calls []string
	for i, label := range labels {
		calls = append(calls, fmt.Sprintf(`{"id": "call_%d%d", "type": "function", "function": {"name": %s, "arguments": %s}}`, n, i, asciiJSON("💻 "+label), asciiJSON(`{"label": `+rawJSON(label)+`}`)))
	}
	return `"tool_calls": [` + strings.Join(calls, ", ") + `]`
}

// cardOutputs are the tool's messages of the same cards.
func cardOutputs(n int, labels ...string) string {
	var outputs []string
	for i := range labels {
		outputs = append(outputs, fmt.Sprintf(`{"role": "tool", "tool_call_id": "call_%d%d", "content": "completed"}`, n, i))
	}
	return strings.Join(outputs, ", ")
}

// carded is an assistant's message with cards, and its tool's messages.
func carded(n int, content string, labels ...string) string {
	return `{"role": "assistant", "content": ` + asciiJSON(content) + `, ` + cardCalls(n, labels...) + `}, ` + cardOutputs(n, labels...)
}

func assistant(content string) string {
	return `{"role": "assistant", "content": ` + asciiJSON(content) + `}`
}

const (
	askOfTests   = `{"role": "user", "content": "look"}`
	againOfTests = `{"role": "user", "content": "and then?"}`
	// A client's own call, and one that looks like a card but for its result.
	ownCall = `{"role": "assistant", "content": null, "tool_calls": [{"id": "call_x", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "call_x", "content": "completed"}`
)

// request is a request with the messages.
func request(messages ...string) string {
	return `{"model": "hermes-agent", "messages": [` + strings.Join(messages, ", ") + `], "stream": true}`
}

// An answer with cards, as Open WebUI sends it back, becomes the one message that it would be without cards.
// FuzzCardsInHistories has such histories of every kind.
func TestCardsLeaveHistories(t *testing.T) {
	const named = `{"role":"user","name":"n","content":"e"}`
	lone := strings.Replace(assistant("c\n`💻 ?`"), "?", `\ud83d`, 1)
	open := `{"role": "assistant", "content": "", ` + cardCalls(1, "ls") + `}`
	most, tooMany := make([]string, maxCalls), make([]string, maxCalls+1)
	for name, c := range map[string]struct{ in, want []string }{
		// More calls than Hermes starts for one text are none of its cards.
		"as many calls as may be": {[]string{carded(1, "a", most...), assistant("b")}, []string{assistant("a\n\nb")}},
		"too many calls":          {[]string{carded(1, "a", tooMany...), assistant("b")}, []string{carded(1, "a", tooMany...), assistant("b")}},
		// An answer that leaves no message leaves no gap, in which an output would follow another's call.
		"an output after an empty answer": {[]string{open, carded(2, "", "x"), assistant(""), cardOutputs(1, "ls"), againOfTests},
			[]string{open, assistant(""), cardOutputs(1, "ls"), againOfTests}},
		"as tried": {[]string{askOfTests, carded(1, "Let me look.", "ls -la", "golang sse"), carded(2, "There are 3 files.", "/etc/hostname"), assistant("Done."), againOfTests},
			[]string{askOfTests, assistant("Let me look.\n\nThere are 3 files.\n\nDone."), againOfTests}},
		"a backslash before an n": {[]string{carded(1, `a\n`, "ls"), assistant(`\nb`)},
			[]string{assistant(`a\n` + "\n\n" + `\nb`)}},
		"no text at all": {[]string{askOfTests, carded(1, "", "ls"), carded(2, " \n", "ls"), againOfTests},
			[]string{askOfTests, againOfTests}},
		"no text, twice at the start": {[]string{carded(1, "", "ls"), assistant(""), carded(2, "", "ls"), assistant("\n"), againOfTests, assistant("b")},
			[]string{againOfTests, assistant("b")}},
		"odd labels": {[]string{carded(1, "a", "", "\"<b>\\\\`\n\x01\u2028💻\\u00e9", strings.Repeat("x", 5000)), assistant("b")},
			[]string{assistant("a\n\nb")}},
		"markers in many messages": {append([]string{carded(1, "a", "ls"), assistant("b")}, slices.Repeat([]string{askOfTests, assistant("`💻 ls`\nc\n`📖 x`\nd"), named, assistant("f")}, 50)...),
			append([]string{assistant("a\n\nb")}, slices.Repeat([]string{askOfTests, assistant("c\nd"), named, assistant("f")}, 50)...)},
		// With half a surrogate pair in a marker the body passes untouched.
		"what stays": {[]string{carded(1, "", "ls"), assistant("`💻 ls`\nb"), lone, askOfTests},
			[]string{carded(1, "", "ls"), assistant("`💻 ls`\nb"), lone, askOfTests}},
	} {
		in, want := request(c.in...), request(c.want...)
		got, healed := heal(t, in)
		same(t, got, want, name+": bodies")
		if n := strings.Count(in, `"function":`) - strings.Count(want, `"function":`); healed.Cards != n || healed.Form != AnswerStream {
			t.Errorf("%s: %+v, want %d cards", name, healed, n)
		}
	}
}

// Bytes that were read may have been overwritten since, even by similar ones: a user's message stays.
func TestMarkersAfterWhatWasOverwritten(t *testing.T) {
	const user = `{"role":"user"     ,"content":"` // as long as the beginning of an assistant's
	const assistants = `{"role":"assistant","content":"`
	for n := range 200 { // one of them moves a user's message to where an assistant's was
		middle := `,` + user + `a"},` + assistants + strings.Repeat("x", n) + `"},` + user + `b"},` + assistants
		end := `"},` + user + `c"},` + user + "`💻 ls`\\nd" + `"}`
		got, _ := heal(t, request(carded(1, "", "ls"), askOfTests, assistant("`💻 "+strings.Repeat("y", 200)+"`\nz")+middle+"`💻 ls`\\ne"+end))
		same(t, got, request(askOfTests, assistant("z")+middle+`e`+end), "bodies")
	}
}

// Members may come in any order, names may be escaped, and contents may be null, absent, or arrays of parts.
func TestFormsOfCardsInHistories(t *testing.T) {
	calls, out := cardCalls(1, "ls"), cardOutputs(1, "ls")
	const tail = `"role":"assistant","content":"b"}]}`
	forms := map[string]string{
		`{"messages":[{` + calls + `,"content":"a","role":"assistant"},` + out + `,{` + tail:                                                            `{"messages":[{"content":"a\n\nb","role":"assistant"}]}`,
		`{"messages":[{"content":"a",` + calls + `,"role":"assistant"},` + out + `,{` + tail:                                                            `{"messages":[{"content":"a\n\nb","role":"assistant"}]}`,
		`{"messages":[{"role":"assistant",` + calls + `,"content":"a"},` + out + `,{` + tail:                                                            `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		`{"messages":[{` + calls + ` , "role":"assistant" , "content":"a" },` + out + `,{` + tail:                                                       `{"messages":[{"role":"assistant" , "content":"a\n\nb" }]}`,
		`{"messages":[{"role":"assistant","content":null,` + calls + `},` + out + `,{` + tail:                                                           `{"messages":[{"role":"assistant","content":"b"}]}`,
		`{"messages":[{"role":"assistant",` + calls + `},` + out + `,{` + tail:                                                                          `{"messages":[{"role":"assistant","content":"b"}]}`,
		`{"messages":[{` + calls + `,"role":"assistant"},` + out + `,{` + tail:                                                                          `{"messages":[{"content":"b","role":"assistant"}]}`,
		`{"messages":[{"role":"assistant","content":"a","name":"x","refusal":null,` + calls + `},` + out + `]}`:                                         `{"messages":[{"role":"assistant","content":"a","name":"x","refusal":null}]}`,
		`{"messages":[{"role":"assistant","content":"","name":"x",` + calls + `},` + out + `]}`:                                                         `{"messages":[{"role":"assistant","content":"","name":"x"}]}`,
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + out + `,{"role":"assistant","content":"b","tool_calls":[],"refusal":null}]}`: `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		// One with more to say stays a message of its own.
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + out + `,{"name":"x",` + tail:                                                             `{"messages":[{"role":"assistant","content":"a"},{"name":"x",` + tail,
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + out + `,{"role":"assistant","content":"","name":"x",` + calls + `},` + out + `,{` + tail: `{"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b","name":"x"}]}`,
		// Escapes in names and values.
		`{"m\u0065ssages":[{"r\u006fle":"assist\u0061nt","c\u006fntent":"a",` + strings.NewReplacer("tool_calls", `t\u006fol_calls`, `\"label\"`, `\u0022l\u0061bel\u0022`).Replace(calls) + `},` +
			strings.NewReplacer("call_10", `c\u0061ll_10`, "role", `rol\u0065`, `"tool"`, `"t\u006fol"`, "completed", `complete\u0064`).Replace(out) + `,{` + tail: "",
		// Parts.
		`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}],` + calls + `},` + out + `,{` + tail:                                                          `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		`{"messages":[{"role":"assistant","content":"a\n",` + calls + `},` + out + `,{"role":"assistant","content":[{"text":"b","type":"text"},{"type":"text","text":"c"}]}]}`: `{"messages":[{"role":"assistant","content":"a\nbc"}]}`,
		// One with a part that is no text stays a message of its own.
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + out + `,{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`: `{"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`,
		`{"messages":[{"role":"assistant","content":[],` + calls + `},` + out + `,{"role":"assistant","content":[{"type":"text","text":""}]}]}`:                     `{"messages":[]}`,
		// Outputs in another order, and messages twice.
		`{"messages":[{"role":"assistant","content":"a",` + cardCalls(1, "x", "y") + `},{"role":"tool","tool_call_id":"call_11","content":"completed"},` + out + `,{` + tail: `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		`{"messages":[` + carded(1, "a", "x") + `],"messages":[` + carded(1, "b", "x") + `]}`:                                                                                `{"messages":[` + assistant("a") + `],"messages":[` + assistant("b") + `]}`,
	}
	for _, output := range []string{
		`[{"type":"text","text":"completed"}]`, `"interrupted"`, `"Error: waits for approval"`, `"waits for approval"`, `"Error: interrupted"`, `"Error: f\u0061iled"`, `"denied"`,
	} {
		in := `{"messages":[{"role":"assistant","content":"a",` + calls + `},` + strings.Replace(out, `"completed"`, output, 1) + `,{` + tail
		forms[in] = `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`
	}
	for in, want := range forms {
		got, healed := heal(t, in)
		if want == "" {
			want = `{"m\u0065ssages":[{"r\u006fle":"assist\u0061nt","c\u006fntent":"a\n\nb"}]}`
		}
		same(t, got, want, "bodies")
		if healed.Cards == 0 {
			t.Errorf("no cards in %s", in)
		}
	}
}

// A client's own tool calls are not cards, however much they look like them.
func TestToolsThatAreNoCards(t *testing.T) {
	sound := request(askOfTests, carded(1, "a", "ls", "x"), assistant("b"))
	if _, healed := heal(t, sound); healed.Cards != 2 {
		t.Fatalf("%+v", healed)
	}
	for name, replace := range map[string][2]string{
		"another argument":         {`\"label\"`, `\"path\"`},
		"an argument more":         {`{\"label\": \"ls\"}`, `{\"label\": \"ls\", \"n\": 1}`},
		"the label twice":          {`{\"label\": \"ls\"}`, `{\"label\": \"ls\", \"label\": \"ls\"}`},
		"no argument":              {`{\"label\": \"ls\"}`, `{}`},
		"a label that is none":     {`\"ls\"`, `1`},
		"arguments that are none":  {`{\"label\": \"ls\"}`, `label`},
		"arguments cut off":        {`\"ls\"}`, `\"ls\"`},
		"arguments in an array":    {`{\"label\": \"ls\"}`, `[{\"label\": \"ls\"}]`},
		"arguments as an object":   {`"{\"label\": \"ls\"}"`, `{"label": "ls"}`},
		"another result":           {`"content": "completed"`, `"content": "done"`},
		"a result of two parts":    {`"content": "completed"`, `"content": [{"type": "text", "text": "completed"}, {"type": "text", "text": "x"}]`},
		"a result that is null":    {`"content": "completed"`, `"content": null`},
		"no result":                {`"content": "completed"`, `"x": "completed"`},
		"a result for another":     {`"tool_call_id": "call_10"`, `"tool_call_id": "call_12"`},
		"a result twice":           {`"tool_call_id": "call_11"`, `"tool_call_id": "call_10"`},
		"a result more":            {`{"role": "assistant", "content": "b"}`, `{"role": "tool", "tool_call_id": "call_13", "content": "completed"}`},
		"a result too few":         {`, {"role": "tool", "tool_call_id": "call_11", "content": "completed"}`, ``},
		"a result of a function":   {`{"role": "tool", "tool_call_id": "call_11"`, `{"role": "function", "tool_call_id": "call_11"`},
		"a message between":        {`, {"role": "tool", "tool_call_id": "call_11"`, `, {"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "call_11"`},
		"a call of another's":      {`"tool_calls": [`, `"tool_calls": [{"id": "call_x", "function": {"name": "f", "arguments": "{}"}}, `},
		"an id that is no string":  {`"id": "call_10"`, `"id": 10`},
		"an element that is none":  {`"tool_calls": [`, `"tool_calls": [1, `},
		"calls that are no array":  {`"tool_calls": [`, `"tool_calls": "label", "x": [`},
		"calls twice":              {`"tool_calls": [`, `"tool_calls": [], "tool_calls": [`},
		"content twice":            {`"content": "a"`, `"content": "a", "content": "a"`},
		"a text twice":             {`"content": "a"`, `"content": [{"type": "text", "text": "a", "text": "b"}]`},
		"content that is a number": {`"content": "a"`, `"content": 1`},
		"a user's":                 {`{"role": "assistant", "content": "a"`, `{"role": "user", "content": "a"`},
		"invalid JSON":             {`"stream": true`, `"stream": nan`},
		"invalid UTF-8":            {`"look"`, "\"\xff\""},
		"messages further down":    {`"messages": [`, `"body": {"messages": []}, "x": [`},
	} {
		in := strings.Replace(sound, replace[0], replace[1], 1)
		if in == sound {
			t.Fatalf("%s: nothing is replaced", name)
		}
		got, healed := heal(t, in)
		same(t, got, in, name+": bodies")
		equal(t, healed.Cards, 0, name)
	}
	for i, c := range []byte(sound) { // wherever a body is not UTF-8, it passes with its cards
		if in := sound[:i] + "\xff" + sound[i+1:]; c >= 'a' && c <= 'z' {
			got, _ := heal(t, in)
			same(t, got, in, "bodies")
		}
	}
}

// hostile are bodies of about n bytes that are made to cost time or memory.
func hostile(n int) map[string]string {
	fill := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, n/len(unit)) + tail
	}
	const open, shut = `{"messages":[{"role":"assistant","content":"`, `"}]}`
	return map[string]string{
		"markers":              fill(open, "`💻 a`\\n", shut),
		"markers and text":     fill(open, "`💻 a`\\nb\\n", shut),
		"newlines and markers": fill(open, "\\n`💻 a`\\n", shut),
		"beginnings":           fill(open, "`💻 ", shut),
		"lines that begin":     fill(open, "`💻 a\\n", shut),
		"one long label":       fill(open+"`💻 ", "a", "`"+shut),
		"label of backticks":   fill(open+"`💻 ", "`", shut),
		"backticks":            fill(open, "`", shut),
		"lines of backticks":   fill(open, "`\\n", shut),
		"escaped backticks":    fill(open, `\u0060`, shut),
		"backslashes":          fill(open, `\\`, shut),
		"escaped quotes":       fill(open, `\"`, shut),
		"half an escape":       fill(open, `\`, ``),
		"quotes":               fill(``, `"`, ``),
		"open brackets":        fill(`{"messages":`, `[`, ``),
		"open messages":        fill(`{"messages":[`, `{"content":[{"text":"`+"`💻 a`"+`",`, ``),
		"contents":             fill(`{"messages":[{`, `"content":"`+"`💻 a`"+`",`, `"role":"assistant"}]}`),
		"parts":                fill(`{"messages":[{"content":[`, `{"text":"`+"`💻 a`"+`","type":"text"},`, `{}],"role":"assistant"}]}`),
		"messages":             fill(`{"messages":[`, `{"role":"assistant","content":"`+"`💻 a`"+`"},`, `{}]}`),
		"messages many times":  fill(`{`, `"messages":[{"role":"assistant","content":"`+"`💻 a`"+`"}],`, `"a":1}`),
		"cards":                fill(`{"messages":[`, carded(1, "a", "x")+",", `{}]}`),
		"empty cards":          fill(`{"messages":[`, carded(1, "", "x")+","+assistant("")+",", `{}]}`),
		"answers with cards":   fill(`{"messages":[`, carded(1, "a", "x")+","+assistant("b")+","+askOfTests+",", `{}]}`),
		"cards of parts":       fill(`{"messages":[`, `{"role":"assistant","content":[{"type":"text","text":"a"}],`+cardCalls(1, "x")+`},`+cardOutputs(1, "x")+`,`, `{}]}`),
		"a card of parts":      fill(`{"messages":[{"role":"assistant","content":[`, `{"type":"text","text":""},`, `{}],`+cardCalls(1, "x")+`},`+cardOutputs(1, "x")+`]}`),
		"calls":                fill(`{"messages":[{"role":"assistant","tool_calls":[`, `{"id":"i","function":{"arguments":"{\"label\":\"\"}"}},`, `{}]}]}`),
		"calls of many":        fill(`{"messages":[`, `{"role":"assistant",`+cardCalls(1, strings.Split(strings.Repeat("x", 200), "")...)+`},`+cardOutputs(1, strings.Split(strings.Repeat("x", 200), "")...)+`,`, `{}]}`),
		"calls without an end": fill(`{"messages":[`, `{"role":"assistant",`+cardCalls(1, "x")+`},`, `{}]}`),
		"outputs":              fill(`{"messages":[{"role":"assistant",`+cardCalls(1, strings.Split(strings.Repeat("x", 200), "")...)+`},`, cardOutputs(1, "x")+`,`, `{}]}`),
		"a long card":          fill(`{"messages":[{"role":"assistant","content":"a",`+strings.TrimSuffix(cardCalls(1, "x"), `\"}"}}]`), `\n`, `\"}"}}]},`+cardOutputs(1, "x")+`]}`),
		"ids with escapes": func() string {
			out, head := "", strings.Repeat(`\n`, n/1024)
			for i := range 256 {
				out = fmt.Sprintf(`,{"role":"tool","tool_call_id":"%s%d","content":"completed"}`, head, i) + out
			}
			return `{"messages":[{"role":"assistant",` + strings.ReplaceAll(cardCalls(1, strings.Split(strings.Repeat("x", 256), "")...), `"id": "call_1`, `"id": "`+head) + `}` + out + `]}`
		}(),
		"answers in answers": `{"messages":[` + strings.Repeat(`{"role":"assistant",`+cardCalls(1, "x")+`},`, n/500) + strings.Repeat(cardOutputs(1, "x")+`,`+assistant("")+`,`, n/500) + `{}]}`,
		"paragraphs": func() string {
			all := []byte(`{"messages":[{"role":"assistant","content":"`)
			for i := 0; len(all) < n; i++ {
				all = fmt.Appendf(all, "`🔐 Approval needed` [approve or deny](https://h/%022d) or reply `approve AA%02d-%04d` or `deny", i, i/10000%100, i%10000)
			}
			return string(all) + shut
		}(),
		"codes":                fill(`{"input":"`+askedFor+`","messages":[{"role":"user","content":"`, `K7QF–2M9D `, shut),
		"halves of codes":      fill(`{"input":"`+askedFor+`","messages":[{"role":"user","content":"`, `K7QF-`, shut),
		"other codes":          fill(`{"input":"`+askedFor+`","messages":[{"role":"user","content":"`, `AAAA-AAAA `, shut),
		"a code and spaces":    fill(`{"input":"`+askedFor+`","messages":[{"role":"user","content":"approve K7QF`, ` `, `2M9D`+shut),
		"tickets":              fill(`{"input":"`+askedFor+`","messages":[{"role":"user","content":"`, `Z5VErXUyt4JUzhvgdC64Ug/`, shut),
		"one long ticket":      fill(`{"input":"`+askedFor+`","messages":[{"role":"user","content":"`, `Z5VErXUyt4JUzhvgdC64Ug`, shut),
		"heads":                fill(`{"messages":[{"role":"user","content":"`, "`🔐 Approval needed` ", shut),
		"links without end":    fill(`{"messages":[{"role":"user","content":"`, "`🔐 Approval needed` [approve or deny](", shut),
		"what is not seen":     fill(`{"messages":[{"role":"user","content":"`, "`🔐​​​​​​​", shut),
		"one that is not seen": fill(`{"messages":[{"role":"user","content":"`+"`🔐", "​", shut),
		"indents":              fill(`{"messages":[{"role":"assistant","content":"`, strings.Repeat(" ", 200)+askedFor+strings.Repeat(" ", 200), shut),
		"quotations":           fill(`{"messages":[{"role":"user","content":"`, askedFor+" ", shut),
		"texts of a message":   fill(`{"messages":[{"role":"user","content":[`, `{"type":"text","text":"K7QF-2M9D"},`, `{}]}]}`),
		"empty ones after it":  fill(`{"messages":[{"role":"user","content":"approve K7QF-2M9D"},`, `{"role":"assistant","content":" "},`, `{"role":"system"}]}`),
		"items":                fill(`{"input":[`, `"K7QF-2M9D",`, `{}]}`),
		"outputs of tools":     fill(`{"input":[`, `{"output":[{"type":"text","text":"K7QF-2M9D"}]},`, `{}]}`),
		"brackets":             fill(`{"stream":true,"messages":[{"content":"`, `]   }`, `"}]}`),
		"brackets and spaces":  fill(`{"stream":true,"messages":[{"content":"`, `]  ]`+strings.Repeat(" ", 500), `"}]}`),
		"a card and newlines":  fill(`{"messages":[`+carded(1, "a", "x")+`,{"role":"assistant","content":"b `, `\n`, `"}]}`),
		"a card and spaces":    fill(`{"messages":[`+carded(1, "a", "x")+`,{"role":"assistant","content":"b `, ` \n`, `"}]}`),
		"members":              fill(`{`, `"a":1,`, `"b":1}`),
		"names with escapes":   fill(`{`, `"\u0061\u0062\u0063":[[]],`, `"\u0073tream":true}`),
		"what is asked":        fill(`{"stream":[`, `{"":0},`, `{}]}`),
		"commas":               fill(`{`, `,`, `}`),
	}
}

// Healing sixteen times the bytes costs about sixteen times the time.
func TestHostileBodiesCostLinearTime(t *testing.T) {
	alone.NotUnderRace(t)
	const small, times = 256 << 10, 16
	bodies := map[int]map[string]string{small: hostile(small), times * small: hostile(times * small)}
	for name := range bodies[small] {
		checkLinear(t, name, small, times, func(n int) time.Duration {
			in := []byte(bodies[n][name])
			begun := cpuTime()
			Heal(in, nil, given)
			return cpuTime() - begun
		})
	}
}

// A body is copied once at most; beside that little is kept.
func TestHealingTakesBoundedMemory(t *testing.T) {
	const n = 1 << 20
	for name, body := range hostile(n) {
		in := []byte(body)
		// Places of texts take 16 bytes each, and lists grow by copying.
		atMost(t, allocated(func() { Heal(in, nil, given) }), 6*uint64(len(in)), name+": bytes that are taken")
		atMost(t, allocated(func() { AnswerFormOf(in) }), 2*uint64(len(in)), name+": bytes that are taken, with a copy of the body")
	}
}

// The healed body is the only copy of a history, even with cards and markers. If nothing is healed, there is
// none.
func TestHealingCopiesAHistoryOnceAtMost(t *testing.T) {
	alone.NotUnderRace(t)
	for _, markers := range []int{0, 200} {
		for _, cards := range []int{0, 1, 20} {
			in := chatHistory(5e6, true, markers)
			answer := `{"role": "assistant", ` + cardCalls(1, "ls") + `}, ` + cardOutputs(1, "ls") + `, {"role": "assistant"`
			for from := len(in); from > 0 && bytes.Count(in, []byte("tool_call_id")) < cards; { // from the end, after markers
				from = bytes.LastIndex(in[:from], []byte(`{"role": "assistant"`))
				in = slices.Concat(in[:from], []byte(answer), in[from+len(`{"role": "assistant"`):])
			}
			var req Healed
			got := allocated(func() { _, req = Heal(in, nil, nil) })
			if req.Markers != markers || req.Cards != cards {
				t.Fatalf("%+v", req)
			}
			most := uint64(64 << 10)
			if req.Changed() {
				most += uint64(len(in))
			}
			atMost(t, got, most, fmt.Sprintf("%d markers, %d cards: bytes that are taken", markers, cards))
		}
	}
}
