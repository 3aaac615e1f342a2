package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

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
			all = append(all, byte(i), byte(j), byte(i), byte(j), 255) // a pair, and again
		}
	}
	f.Add(all)
	f.Add([]byte{0, 1, 0, 1, 0, 2, 0, 3, 0, 1})
	f.Add([]byte{0, 1, 254, 0, 1, 0, 1, 254, 0, 1, 255, 0, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		const head, shut = `{"messages":[`, `]}`
		separator := ","
		var in, want strings.Builder
		markers := 0
		first, left := true, false // the next is the first of its list; one of it has stayed
		for i, b := range script {
			switch b {
			case 255: // another list of messages
				in.WriteString(`],"stream":true,"messages":[`)
				want.WriteString(`],"stream":true,"messages":[`)
				first, left = true, false
				continue
			case 254:
				separator = map[string]string{",": " , ", " , ": ","}[separator]
				continue
			}
			m, next := messagesOfAllKinds[int(b)%len(messagesOfAllKinds)], ""
			for _, b := range script[i+1:] {
				if b != 254 {
					if next = ""; b != 255 && messagesOfAllKinds[int(b)%len(messagesOfAllKinds)] == toolOfTests {
						next = "," + toolOfTests
					}
					break
				}
			}
			alone, req := heal(t, head+m+next+shut)
			markers += req.Markers
			alone = strings.TrimSuffix(strings.TrimPrefix(alone, head), next+shut)
			if !first {
				in.WriteString(separator)
			}
			in.WriteString(m)
			if first = false; alone == "" {
				continue
			}
			if left {
				want.WriteString(separator)
			}
			want.WriteString(alone)
			left = true
		}
		for _, tail := range []string{shut, `],"stream":false}`} {
			got, req := heal(t, head+in.String()+tail)
			same(t, got, head+want.String()+tail, "bodies")
			if req.Markers != markers {
				t.Errorf("%d markers, want %d", req.Markers, markers)
			}
		}
		// If the end is missing, nothing is healed.
		broken := head + in.String() + `]`
		if got, req := heal(t, broken); got != broken || req != (Healed{}) {
			t.Errorf("%+v", req)
		}
	})
}

// A message that was nothing but marker lines leaves with its comma, because providers
// refuse an empty one. One that says anything else stays.
func TestMessagesOfNothingButMarkersLeave(t *testing.T) {
	const user, m = `{"role":"user","content":"x"}`, markersAlone
	part := `{"type":"text","text":"` + lineOfMarkers + `"}`
	with := func(members string) string { return `{"role":"assistant",` + members + `}` }
	for name, c := range map[string]struct{ in, want string }{
		"first":                     {m + `,` + user, user},
		"last":                      {user + `,` + m, user},
		"only":                      {m, ``},
		"only, with white space":    {"\n " + m + " \t", "\n  \t"},
		"between":                   {user + ` , ` + m + ` ,` + user, user + ` ,` + user},
		"several in a row":          {user + `,` + m + `,` + m + `,` + m + `,` + user, user + `,` + user},
		"several at the start":      {m + `, ` + m + ` ,` + m + `,` + user, user},
		"several at the end":        {user + `,` + m + ` , ` + m, user},
		"nothing else":              {m + `,` + m + `,` + m, ``},
		"behind one that is healed": {assistant("a\n`💻 ls`\nb") + `,` + m + `,` + assistant("`💻 ls`\nc"), assistant("a\nb") + `,` + assistant("c")},
		"before one that is healed": {m + `,` + assistant("`💻 ls`\nc") + `,` + m, assistant("c")},
		"a part":                    {with(`"content":[`+part+`]`) + `,` + user, user},
		"parts":                     {with(`"content":[`+part+`,`+part+`,{"type":"text","text":" "}]`) + `,` + user, user},
		"white space is left":       {assistant("\n\n`💻 ls`\n\n\n") + `,` + user, user},
		"empty members":             {with(`"content":"`+lineOfMarkers+`","tool_calls":[],"refusal":null,"audio":null,"function_call":{},"annotations":[],"name":"n","id":"i","ts":1.5`) + `,` + user, user},
		"role behind":               {`{"content":"` + lineOfMarkers + `","role":"assistant"},` + user, user},
		"content twice":             {with(`"content":"`+lineOfMarkers+`","content":["",`+part+`]`) + `,` + user, user},
		"escapes":                   {`{"r\u006fle":"\u0061ssistant","\u0063ontent":[{"\u0074ype":"t\u0065xt","te\u0078t":"` + strings.ReplaceAll(lineOfMarkers, "`", `\u0060`) + `"}]},` + user, user},
		"an element that is none":   {`1,` + m + `,null,` + m, `1,null`},
		"between elements":          {`"a" , ` + m + ` , {}`, `"a" , {}`},

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
	// With cards, too, where the body is healed in place.
	got, req := heal(t, request(m, carded(1, "a\n`💻 ls`\n", "ls"), m, user, carded(2, "`💻 ls`", "ls"), user, m, carded(3, "b", "ls"), m, m, user))
	same(t, got, request(assistant("a"), user, user, assistant("b"), user), "bodies")
	if req.Cards != 3 {
		t.Errorf("%+v", req)
	}
}
