package rewrite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/tidwall/gjson"
)

// No address and no code reaches a model, whoever says them.
func TestApprovalsLeaveHistories(t *testing.T) {
	const reply = "`🔐 Approval needed` reply `approve K7QF-2M9D` or `deny K7QF-2M9D`: `ls`"
	for name, c := range map[string]struct{ role, content, want string }{
		"at the end":                   {"assistant", `"a\n\n` + reply + `"`, `"a"`},
		"two":                          {"assistant", `"a\n\n` + reply + `\n\nb\n\n` + linkText + `\n\n\n\nc"`, `"a\n\nb\n\nc"`},
		"cut off":                      {"assistant", `"a\n\n` + reply[:50] + `"`, `"a"`},
		"cut off, then more":           {"assistant", `"a\n\n` + reply[:50] + `\n\nb"`, `"a\n\nb"`},
		"with a marker":                {"assistant", "\"a\\n`💻 ls`\\n\\n" + reply + `"`, `"a"`},
		"in a part":                    {"assistant", `[{"type": "text", "text": "a\n\n` + reply + `"}]`, `[{"type": "text", "text": "a"}]`},
		"escaped":                      {"assistant", `"a\n\n` + strings.ReplaceAll(strings.ReplaceAll(reply, "`", `\u0060`), "🔐", `\ud83d\udd10`) + `"`, `"a"`},
		"cut off in its address":       {"assistant", `"a\n\n` + linkText[:60] + `"`, `"a"`},
		"words about it":               {"user", "\"What does `🔐 Approval needed` mean, and `🔐 Approval needed` reply?\"", ""},
		"words of the model about it":  {"assistant", "\"`🔐 Approval needed` [see](https://h/docs): `x`\"", ""},
		"words, then a paragraph":      {"user", "\"`🔐 Approval needed` is what? " + linkText + `"`, "\"`🔐 Approval needed` is what? \""},
		"no paragraph":                 {"assistant", `"Approval needed for ` + "`x`" + `"`, ""},
		"an approval that is a reply":  {"user", `"approve K7QF-2M9D"`, `"approve"`},
		"with white space":             {"user", `" Deny k7qf-2m9d\n"`, `"Deny"`},
		"in one part":                  {"user", `[{"type": "text", "text": "deny K7QF-2M9D"}]`, `[{"type": "text", "text": "deny"}]`},
		"in two parts":                 {"user", `[{"type": "text", "text": "deny K7QF-2M9D"}, {"type": "text", "text": "x"}]`, `[{"type": "text", "text": "deny …"}, {"type": "text", "text": "x"}]`},
		"more words":                   {"user", `"please approve K7QF-2M9D"`, `"please approve …"`},
		"another code":                 {"user", `"please approve AAAA-BBBB"`, ""},
		"on a phone":                   {"user", `"Approve k7qf–2m9d."`, `"Approve"`},
		"without a dash":               {"user", `"**deny** k7qf\u00a02m9d"`, `"deny"`},
		"eight letters":                {"user", `"approve purchase"`, ""},
		"another code with a dash":     {"user", `"approve CASE—2345!"`, `"approve"`},
		"and an empty part":            {"user", `[{"type": "text", "text": "deny K7QF-2M9D"}, {"type": "text", "text": " "}]`, `[{"type": "text", "text": "deny"}, {"type": "text", "text": " "}]`},
		"and a picture":                {"user", `[{"type": "text", "text": "deny K7QF-2M9D"}, {"type": "image_url", "image_url": {"url": "u"}}]`, `[{"type": "text", "text": "deny"}, {"type": "image_url", "image_url": {"url": "u"}}]`},
		"a part that is a string":      {"user", `["K7QF-2M9D?"]`, `["…?"]`},
		"a code that is escaped":       {"user", `"is \u004b7QF\u20142M9D right?"`, `"is … right?"`},
		"code of a part":               {"user", `[{"type": "input_text", "text": "deny K7QF-2M9D now"}]`, `[{"type": "input_text", "text": "deny … now"}]`},
		"a bare link":                  {"user", `"https://h.example/approve/Z5VErXUyt4JUzhvgdC64Ug?"`, `"https://h.example/approve/…?"`},
		"another link":                 {"user", `"https://h.example/approve/A5VErXUyt4JUzhvgdC64Ug?"`, ""},
		"other white space":            {"assistant", "\"a\\n\\n`🔐\u00a0 Approval\\tneeded`\u2003[approve or deny](https://h/x): `ls`\"", `"a"`},
		"characters that are not seen": {"assistant", "\"a\\n\\n`🔐\ufe0f \u200bApproval\u200b needed` [approve or deny](https://h/x): `ls`\"", `"a"`},
		"all escaped":                  {"user", `"\u0060\ud83d\udd10` + escaped(strings.TrimPrefix(askedFor, "`🔐")) + ` x"`, `" x"`},
		"another variation":            {"user", "\"`🔐\ufe0e Approval needed` [approve or deny](https://h/x):\u00a0 `ls` x\"", `" x"`},
		"indented":                     {"assistant", "\"a\\n\\n   `🔐 Approval needed` [approve or deny](https://h/x): `ls`  \\n\\nb\"", `"a\n\nb"`},
		"no code":                      {"user", `"approve K7QF-2M9"`, ""},
		"a quotation":                  {"user", `"ASSISTANT: a\n\n` + reply + `\nUSER: b"`, `"ASSISTANT: a\n\n\nUSER: b"`},
		"a quotation in a line":        {"user", `"> ` + linkText + ` is what?"`, `">  is what?"`},
		"of the system":                {"system", `"` + linkText + `"`, `""`},
		"a tool's output":              {"tool", `"x ` + linkText + `"`, `"x "`},
		"what the model has read":      {"assistant", `"approve K7QF-2M9D"`, `"approve …"`},
	} {
		t.Run(name, func(t *testing.T) {
			const link = "`🔐 Approval needed` [approve or deny](https://h.example/approve/Z5VErXUyt4JUzhvgdC64Ug): `ls`"
			const before = `{"messages": [{"role": "system", "content": "%s"}, {"role": "assistant", "content": "Hi.%s"}, `
			body := `{"role": "` + c.role + `", "content": %s}, {"role": "user", "content": "u"}]}`
			want := c.want
			if want == "" {
				want = c.content
			}
			healed, _ := heal(t, fmt.Sprintf(before+body, link, `\n\n`+reply, c.content))
			same(t, healed, fmt.Sprintf(before+body, "", "", want), "bodies")
		})
	}
	// The same words of a user who was not asked are about something else.
	for _, role := range []string{"user", "assistant"} {
		in := `{"messages": [{"role": "` + role + `", "content": "a"}, {"role": "user", "content": "approve CASE-2345"}]}`
		healed, req := heal(t, in)
		same(t, healed, in, "bodies")
		equal(t, req.Approvals, 0, "codes")
	}
	healed, _ := heal(t, `{"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "`+reply+`"}, {"role": "user", "content": "deny AAAA-BBBB"}]}`)
	same(t, healed, `{"messages": [{"role": "user", "content": "u"}, {"role": "user", "content": "deny"}]}`, "a message of which nothing is left")
	cards := `{"messages": [{"role": "assistant", "content": "a", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{\"label\": \"x\"}"}}]},` +
		` {"role": "tool", "tool_call_id": "c1", "content": "completed"}, {"role": "assistant", "content": "` + reply + `"}]}`
	healed, _ = heal(t, cards)
	same(t, healed, `{"messages": [{"role": "assistant", "content": "a"}]}`, "an answer with cards")
	// Open WebUI puts a text between the card of a tool and its output before the call.
	healed, _ = heal(t, strings.Replace(strings.Replace(cards, `"content": "a"`, `"content": "a\n`+reply+`"`, 1), `"content": "`+reply+`"}]`, `"content": "b"}]`, 1))
	same(t, healed, `{"messages": [{"role": "assistant", "content": "a\n\nb"}]}`, "an answer with a paragraph before a card")
}

const askedFor = "`🔐 Approval needed` reply `approve K7QF-2M9D` or `deny K7QF-2M9D`: `ls`"

// given are the secrets of a client whose reply with K7QF-2M9D is waited for.
var given = Secrets{"K7QF-2M9D": true, "9999-WENT": false, "Z5VErXUyt4JUzhvgdC64Ug": false}

// What the last message of a request says about an approval. FuzzReplies folds replies in many more ways.
func TestRepliesInRequests(t *testing.T) {
	approve, deny, names := Reply{Code: "K7QF-2M9D", IsReply: true, Approve: true}, Reply{Code: "K7QF-2M9D", IsReply: true, Approve: false}, Reply{Code: "K7QF-2M9D"}
	user := func(content string) string { return `{"role": "user", "content": ` + content + `}` }
	body := func(messages ...string) string { return `{"messages": [` + strings.Join(messages, ", ") + `]}` }
	asks := `{"role": "assistant", "content": "a\n\n` + askedFor + `"}`
	for content, want := range map[string]Reply{
		"approve K7QF-2M9D": approve, "\n deny K7QF-2M9D \n": deny, "Approve k7qf-2m9d": approve, "APPROVE K7QF-2M9D": approve, "aPProve K7qF-2m9D": approve,
		"\ufeffapprove \u2066K7QF-2M9D\u2069\u200b": approve, "approve K7QF ー 2M9D": approve, "approve K7QF\\-2M9D": approve,
		"approveK7QF-2M9D": approve, "approve: K7QF-2M9D": approve, "approve-K7QF-2M9D": approve, "deny, K7QF-2M9D": deny,
		"approve K7QF-2M9D!!": approve, "'approve' K7QF-2M9D": approve, "‘deny K7QF-2M9D’.": deny, "_approve_ *K7QF-2M9D*": approve, "/approve K7QF-2M9D": approve,
		"ａｐｐｒｏｖｅ　Ｋ７ＱＦ－２Ｍ９Ｄ": approve, "- deny K7QF-2M9D": deny, "(deny K7QF-2M9D)": deny,
		"### Task:\nRespond to the user.\n<context>\n<source id=\"1\">x</source>\n</context>\n\nApprove K7QF-2M9D.": approve,
		"### Task:\n<context>\nx\n</context>\n\n<user_query>\ndeny K7QF-2M9D\n</user_query>\n":                      deny,
		"### Task:\n<context>\napprove K7QF-2M9D\n</context>\n\nWhat is that?":                                      names,
		"approve 9999-WENT": {Code: "9999-WENT", IsReply: true, Approve: true}, "approve 9999 went": {Code: "9999-WENT", IsReply: true, Approve: true}, "deny CASE-2345": {Code: "CASE-2345", IsReply: true, Approve: false}, "Deny case–2345!": {Code: "CASE-2345", IsReply: true, Approve: false},

		"yes please approve K7QF-2M9D": names, "approve K7QF-2M9D now": names, "approve K7QF-2M9D?": names, "> approve K7QF-2M9D": names, "~~approve K7QF-2M9D~~": names,
		"approve K7QF-2M9D\napprove K7QF-2M9D": names, "approve approve K7QF-2M9D": names, "k7qf2m9d": names, "always K7QF-2M9D": names, "approve K7QF-2M9DX": names,
		"approved K7QF-2M9D": names, "User: approve K7QF-2M9D\nTitle:": names, "approve K7QF-2M9D\x00": names, "approve K7QF-2M9D 👎": names, "1. approve K7QF-2M9D": names,
		"approve and deny K7QF-2M9D": names, "a p p r o v e K7QF-2M9D": names, "approve 9999-WENT and K7QF-2M9D": names, "don't approve K7QF-2M9D": names,
		"approve K7QF-2M9D" + strings.Repeat(" ", 300): names, strings.Repeat("K7QF-2M9", 1000) + "D": names,

		"yes": {}, "approve": {}, "approve purchase": {}, "deny that plan": {}, "approve CASE2345": {}, "CASE-2345": {}, "please approve 9999-WENT": {}, "K7QF.2M9D": {}, "K 7QF-2M9D": {},
		"approve K7QF-2M9": {}, "what does approve K7QF-XXXX mean?": {}, "https://h/approve/Z5VErXUyt4JUzhvgdC64Ug": {}, "approve ÜÄÖß-ÜÄÖß": {}, "": {},
	} {
		for i, spell := range []func(string) string{asciiJSON, rawJSON, escapedJSON} {
			for _, in := range []string{
				body(user(spell(content))),
				body(asks, user(spell(content)), `{"role": "system", "content": "Today is Monday. approve AAAA-AAAA"}`, `{"role": "assistant", "content": " "}`),
				body(asks, user(`[{"type": "text", "text": ""}, {"type": "text", "text": `+spell(content)+`}, {"type": "text"}, {}]`), `{"role": "developer", "content": "x"}`, `{"role": "assistant", "content": null, "tool_calls": []}`),
			} {
				_, req := Heal([]byte(in), nil, given)
				equal(t, req.Reply, want, in)
				healed, _ := Heal([]byte(in), nil, given)
				again, more := Heal(healed, nil, given)
				if more.Changed() || string(again) != string(healed) {
					t.Errorf("%d: twice: %s", i, again)
				}
				if want.Code == "K7QF-2M9D" && marker.Secrets(healed, func([]byte) {}) > 0 || strings.Contains(fold(string(healed)), "K7QF2M9D") && content != "K7QF.2M9D" && content != "K 7QF-2M9D" {
					t.Errorf("a code is left in %s", healed)
				}
			}
		}
	}
	picture := `{"type": "image_url", "image_url": {"url": "u"}}`
	for in, want := range map[string]Reply{
		body(user(`"approve K7QF-2M9D"`), `{"role": "assistant", "content": "x"}`):                                   {},
		body(user(`"approve K7QF-2M9D"`), `{"role": "assistant", "tool_calls": [{"id": "x"}]}`):                      {},
		body(user(`"approve K7QF-2M9D"`), `{"role": "tool", "content": ""}`):                                         {},
		body(user(`"approve K7QF-2M9D"`), user(`"and"`)):                                                             {},
		body(user(`"approve K7QF-2M9D"`), user(`"approve AAAA-AAAA"`)):                                               {Code: "AAAA-AAAA", IsReply: true, Approve: true},
		body(user(`[{"type": "text", "text": "deny K7QF-2M9D"}, ` + picture + `]`)):                                  names,
		body(user(`[{"type": "text", "text": "approve"}, {"type": "text", "text": "K7QF-2M9D"}]`)):                   approve,
		body(user(`[{"type": "text", "text": "approve K7QF-2M9D"}, {"type": "text", "text": "x"}]`)):                 names,
		body(user(`["approve", {"type": "input_text", "text": "K7QF-2M9D"}]`)):                                       approve,
		body(user(`[{"type": "image_url", "text": "deny K7QF-2M9D"}]`)):                                              {},
		body(`{"role": "assistant", "content": "approve K7QF-2M9D"}`):                                                {},
		body(`{"role": "system", "content": "approve K7QF-2M9D"}`):                                                   {},
		body(`{"role": "user", "role": "tool", "content": "approve K7QF-2M9D"}`):                                     {},
		body(user(`"approve K7QF-2M9D"`)) + "x":                                                                      {},
		`{"input": "approve K7QF-2M9D"}`:                                                                             {},
		`{"messages": "approve K7QF-2M9D"}`:                                                                          {},
		`{"messages": []}`:                                                                                           {},
		`{"messages": [` + user(`"approve K7QF-2M9D"`) + `], "messages": [` + user(`"a"`) + `]}`:                     {},
		body(asks, user(`"> `+askedFor+`\n\nyes"`)):                                                                  names,
		body(user(`"### Task: name this chat.\nUSER: x\nASSISTANT: ` + askedFor + `"`)):                              {}, // Open WebUI's
		body(user(`"### Task: name this chat.\nUSER: x\nASSISTANT: ` + askedFor + `\nUSER: ok, approve K7QF-2M9D"`)): names,
	} {
		_, req := Heal([]byte(in), nil, given)
		equal(t, req.Reply, want, in)
		_, req = Heal([]byte(in), nil, nil)
		equal(t, req.Reply, Reply{}, "a client that was given nothing: "+in)
	}
}

// fold is what matters of a reply.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToUpper(r)
		}
		return -1
	}, text)
}

// The assistant's items of other APIs are healed by the rules of chats, and nothing that answers
// an approval reaches a model by any of them.
func TestHistoriesOfOtherAPIs(t *testing.T) {
	const (
		marked = "x\\n`💻 ls -la`\\ny"
		link   = "`🔐 Approval needed` [approve or deny](http://127.0.0.1:19009/approve/AAAAAAAAAAAAAAAAAAAAAA): `rm -rf x`"
		item   = `{"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "annotations": [], "text": "%s"}]}`
		plain  = `{"role": "assistant", "content": "%s"}`
	)
	alone := "`💻 ls`"
	for name, c := range map[string]struct{ in, want string }{
		"an item":                {`{"stream": true, "input": [` + fmt.Sprintf(item, marked) + `, {"role": "user", "content": "n"}]}`, `{"stream": true, "input": [` + fmt.Sprintf(item, `x\ny`) + `, {"role": "user", "content": "n"}]}`},
		"a plain item":           {`{"input": [{"role": "user", "content": "q"}, ` + fmt.Sprintf(plain, marked) + `, {"role": "user", "content": "n"}]}`, `{"input": [{"role": "user", "content": "q"}, ` + fmt.Sprintf(plain, `x\ny`) + `, {"role": "user", "content": "n"}]}`},
		"a history":              {`{"input": "n", "conversation_history": [` + fmt.Sprintf(plain, marked) + `]}`, `{"input": "n", "conversation_history": [` + fmt.Sprintf(plain, `x\ny`) + `]}`},
		"a history first":        {`{"conversation_history": [` + fmt.Sprintf(plain, marked) + `], "input": "n"}`, `{"conversation_history": [` + fmt.Sprintf(plain, `x\ny`) + `], "input": "n"}`},
		"types of parts":         {`{"input": [{"role": "assistant", "content": [{"type": "text", "text": "` + marked + `"}, {"type": "input_text", "text": "` + marked + `"}]}]}`, `{"input": [{"role": "assistant", "content": [{"type": "text", "text": "x\ny"}, {"type": "input_text", "text": "x\ny"}]}]}`},
		"nothing is left":        {`{"input": [{"role": "user", "content": "q"}, ` + fmt.Sprintf(item, alone) + `, {"role": "user", "content": "n"}]}`, `{"input": [{"role": "user", "content": "q"}, {"role": "user", "content": "n"}]}`},
		"nothing but a phase":    {`{"input": [` + strings.Replace(fmt.Sprintf(item, alone), `"id"`, `"phase": "commentary", "id"`, 1) + `, {"role": "user", "content": "n"}]}`, `{"input": [{"role": "user", "content": "n"}]}`},
		"a user's marker":        {`{"input": "` + marked + `", "message": "` + marked + `", "instructions": "` + marked + `"}`, ""},
		"a user's item":          {`{"input": [{"role": "user", "content": "` + marked + `"}, "` + marked + `", {"type": "input_text", "text": "` + marked + `"}]}`, ""},
		"a link":                 {`{"input": [` + fmt.Sprintf(item, `Sure.\n\n`+link+`\n\nDone.`) + `, {"role": "user", "content": "n"}]}`, `{"input": [` + fmt.Sprintf(item, `Sure.\n\nDone.`) + `, {"role": "user", "content": "n"}]}`},
		"a reply":                {`{"input": [` + fmt.Sprintf(item, askedFor+`\n\nDone.`) + `, {"role": "user", "content": [{"type": "input_text", "text": "Approve K7QF—2M9D."}]}]}`, `{"input": [` + fmt.Sprintf(item, `Done.`) + `, {"role": "user", "content": [{"type": "input_text", "text": "Approve"}]}]}`},
		"a reply of a run":       {`{"input": "approve K7QF2M9D", "conversation_history": [` + fmt.Sprintf(plain, `a\n\n`+askedFor) + `]}`, `{"input": "approve", "conversation_history": [` + fmt.Sprintf(plain, `a`) + `]}`},
		"another code in a run":  {`{"input": "approve CASE-2345", "conversation_history": [` + fmt.Sprintf(plain, `a\n\n`+askedFor) + `]}`, `{"input": "approve", "conversation_history": [` + fmt.Sprintf(plain, `a`) + `]}`},
		"another case":           {`{"input": "approve CASE-2345"}`, ""},
		"no role":                {`{"input": [` + fmt.Sprintf(plain, `a\n\n`+askedFor) + `, {"content": "deny K7QF-2M9D"}]}`, `{"input": [` + fmt.Sprintf(plain, `a`) + `, {"content": "deny"}]}`},
		"items that are strings": {`{"input": ["` + askedFor + `", "approve K7QF-2M9D"]}`, `{"input": ["", "approve"]}`},
		"parts":                  {`{"message": [{"type": "text", "text": "see ` + link + `"}, {"type": "input_text", "text": "AAAAAAAAAAAAAAAAAAAAAA"}]}`, `{"message": [{"type": "text", "text": "see "}, {"type": "input_text", "text": "…"}]}`},
		"a message to a session": {`{"message": "` + askedFor + ` says K7QF-2M9D", "system_message": "` + link + `"}`, `{"message": " says …", "system_message": ""}`},
		"instructions":           {`{"instructions": "a ` + link + ` b", "input": "http://127.0.0.1:19009/approve/AAAAAAAAAAAAAAAAAAAAAA"}`, `{"instructions": "a  b", "input": "http://127.0.0.1:19009/approve/…"}`},
		"what a tool returns":    {`{"input": [{"type": "function_call_output", "call_id": "c", "output": "` + link + `x"}]}`, `{"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}`},
		"foreign":                {`{"prompt": "` + askedFor + `", "inputs": [` + fmt.Sprintf(plain, marked) + `], "data": {"input": "` + askedFor + `"}}`, ""},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		got, _ := heal(t, c.in)
		same(t, got, want, name+": bodies")
	}
	// Without a paragraph, what the client was given is known.
	for in, want := range map[string]string{
		`{"message": "Approve K7QF–2M9D!"}`:                                     `{"message": "Approve"}`,
		`{"input": "please approve k7qf2m9d"}`:                                  `{"input": "please approve …"}`,
		`{"input": [{"role": "user", "content": "deny 9999-WENT"}]}`:            `{"input": [{"role": "user", "content": "deny"}]}`,
		`{"message": "see https://h/a/Z5VErXUyt4JUzhvgdC64Ug"}`:                 `{"message": "see https://h/a/…"}`,
		`{"messages": [{"role": "user", "content": "Z5VErXUyt4JUzhvgdC64Ug"}]}`: `{"messages": [{"role": "user", "content": "…"}]}`,
		`{"message": "approve CASE-2345"}`:                                      `{"message": "approve CASE-2345"}`,
	} {
		got, _ := Heal([]byte(in), nil, given)
		same(t, string(got), want, in)
	}
}

// What says how to reply is a whole answer, passes a sidecar as it is, and leaves histories.
func TestAdvice(t *testing.T) {
	advice := Advice{ID: "chatcmpl-1", Created: 7, Code: "K7QF-2M9D"}
	stream := string(advice.Stream())
	v := look(t, stream)
	equal(t, v.done, 1, "[DONE]")
	equal(t, strings.Join(v.finishes, " "), "stop", "finish reasons")
	contains(t, v.content, "reply `approve K7QF-2M9D` or `deny K7QF-2M9D` and nothing else")
	same(t, repair(stream), stream, "through another sidecar")
	again, _ := anyAsking(t, stream, Options{}, chatParams, byAll)
	same(t, again[0], stream, "through one that asks")
	whole := gjson.ParseBytes(advice.Whole())
	same(t, fmt.Sprint(whole.Get("id"), whole.Get("object"), whole.Get("created"), whole.Get("choices.#.finish_reason")), `chatcmpl-1 chat.completion 7 ["stop"]`, "the whole answer")
	a := RepairAnswer(advice.Whole(), &Options{}, nil)
	equal(t, a.Changed, false, "another sidecar changes it")
	for _, text := range []string{v.content, messageOf(t, advice.Whole()).Content} {
		healed, _ := heal(t, `{"messages": [{"role": "user", "content": "yes, K7QF-2M9D"}, {"role": "assistant", "content": `+rawJSON(text)+`}, {"role": "user", "content": "approve K7QF-2M9D"}]}`)
		same(t, healed, `{"messages": [{"role": "user", "content": "yes, …"}, {"role": "user", "content": "approve"}]}`, "bodies")
	}
}

// A reply is the same however it is folded, what says anything else is none, and twice is once.
func FuzzReplies(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, "", "")
	}
	f.Add(uint64(1), "please ", " 👍")
	f.Add(uint64(2), "K7QF-", "2M9D")
	f.Add(uint64(3), "x\n\n", "`🔐 Approval needed` reply `approve ")
	f.Fuzz(func(t *testing.T, seed uint64, before, after string) {
		if !utf8.ValidString(before+after) || len(before+after) > 5000 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 3))
		reply := folded(r, []string{"approve", "deny"}[seed%2], "K7QF", "2M9D")
		spell := []func(string) string{asciiJSON, rawJSON}[r.IntN(2)]
		for _, history := range []string{"", `{"role": "assistant", "content": "` + askedFor + `"}, `} {
			in := `{"messages": [` + history + `{"role": "user", "content": ` + spell(before+reply+after) + `}]}`
			healed, req := Heal([]byte(in), nil, given)
			said := fold(before + reply + after)
			switch word := strings.TrimSuffix(said, "K7QF2M9D"); {
			case before+after == "" && len(reply) <= 200:
				equal(t, req.Reply, Reply{Code: "K7QF-2M9D", IsReply: true, Approve: seed%2 == 0}, in)
				equal(t, strings.Contains(string(healed), "2M9D"), false, string(healed))
			case req.Reply.IsReply && word != "APPROVE" && word != "DENY" && req.Reply.Code == "K7QF-2M9D" && !strings.Contains(in, "</context>") && !strings.Contains(in, "<user_query>"):
				t.Errorf("%s is a reply", in)
			}
			again, more := Heal(healed, nil, given)
			if more.Approvals > 0 && !strings.Contains(before+after, "pproval") || !json.Valid(healed) || more.Approvals == 0 && string(again) != string(healed) {
				t.Errorf("%s\nbecomes\n%s\nand then\n%s", in, healed, again)
			}
		}
	})
}

// folded writes a reply as a user, a keyboard or a chat may.
func folded(r *rand.Rand, word, half, other string) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	unseen := func(text string) (out string) {
		for _, c := range text {
			if out += string(c); r.IntN(20) == 0 {
				out += pick("\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u200e", "\ufe0f")
			}
		}
		return out
	}
	cased := func(text string) string {
		return pick(text, strings.ToUpper(text), strings.ToLower(text), strings.ToUpper(text[:1])+strings.ToLower(text[1:]))
	}
	space := func() string {
		return pick(" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u200b")
	}
	dash := pick("-", "‐", "‑", "‒", "–", "—", "−", "--", "", " ", "\u00a0", " - ", "\u200b")
	open, shut := pick("", "`", "**", "\"", "“", "«", "'", "_", "```\n", "("), pick("", "`", "**", "\"", "”", "»", "'", "_", "\n```", ")")
	return space() + open + unseen(cased(word)) + pick("", ":", "**") + space() + pick("", "`") + unseen(cased(half)) + dash + unseen(cased(other)) + shut + pick("", ".", "!", "…", "。") + space()
}

// FuzzApprovalsInHistories: no code and no address of a page is left, whatever is around the paragraphs.
func FuzzApprovalsInHistories(f *testing.F) {
	f.Add("a\n\n", "\n\nb", "rm `x`\n", byte(0))
	f.Add("```\n", "\\u0060", "", byte(1))
	f.Add("`🔐 Approval needed` ", "`", "`🔐 Approval needed` x: `y`", byte(6))
	f.Fuzz(func(t *testing.T, before, after, command string, kind byte) {
		const url, code = "https://h/approve/T0123456789", "K7QF-2M9D"
		line := marker.ApprovalLine(command, marker.Ways{URL: url, Code: code, DenyOnly: kind%4 > 1})
		if strings.Contains(before+after+command, "T0123") || strings.Contains(before+after+command, "K7QF") || !utf8.ValidString(before+after+command) {
			return
		}
		spell := []func(string) string{asciiJSON, rawJSON}[kind%2]
		role := []string{"assistant", "user", "system"}[kind/2%3]
		in := `{"messages": [{"role": "` + role + `", "content": ` + spell(before+line+after+line) + `}, {"role": "user", "content": "u"}]}`
		out, _ := Heal([]byte(in), nil, nil)
		if strings.Contains(string(out), "T0123") || strings.Contains(string(out), "K7QF") || !json.Valid(out) {
			t.Errorf("%s\nbecomes\n%s", in, out)
		}
	})
}
