package rewrite

import (
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
	`{"role":"tool","content":"` + lineOfMarker + `","tool_call_id":"x"}`,
	`{"content":"` + lineOfMarker + `"}`,
	`{"role":7,"content":"` + lineOfMarker + `"}`,
	`{"\u0072ole":"assistan\u0074","\u0063ontent":"a\n\u0060💻 ls\u0060\nb"}`,
	`{"role":"assistant","content":{"content":"` + lineOfMarker + `"}}`,
	`[{"role":"assistant","content":"` + lineOfMarker + `"}]`,
	`{}`,
	`"role"`,
	`null`,
}

// FuzzMessagesAlone: a message is healed as if it were alone, whatever is before and
// behind it.
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
		separator := ","
		var in, want strings.Builder
		markers, between := 0, ""
		for _, b := range script {
			switch b {
			case 255: // another list of messages
				between = `],"stream":true,"messages":[`
				continue
			case 254:
				separator = map[string]string{",": " , ", " , ": ","}[separator]
				continue
			}
			m := messagesOfAllKinds[int(b)%len(messagesOfAllKinds)]
			alone, req := heal(t, `{"messages":[`+m+`]}`)
			markers += req.Markers
			if between == "" && in.Len() > 0 {
				between = separator
			}
			in.WriteString(between + m)
			want.WriteString(between + strings.TrimSuffix(strings.TrimPrefix(alone, `{"messages":[`), `]}`))
			between = ""
		}
		for _, tail := range []string{`]}`, `],"stream":false}`} {
			head := `{"messages":[`
			got, req := heal(t, head+in.String()+tail)
			same(t, got, head+want.String()+tail, "bodies")
			if req.Markers != markers {
				t.Errorf("%d markers, want %d", req.Markers, markers)
			}
		}
		// If the end is missing, nothing is healed.
		broken := `{"messages":[` + in.String() + `]`
		if got, req := heal(t, broken); got != broken || req != (Healed{}) {
			t.Errorf("%+v", req)
		}
	})
}

// What is the same between two messages says the same each time, wherever it stands.
func TestWhatIsBetweenMessagesAgain(t *testing.T) {
	const one = `{"role":"user","content":"x"}`
	stream := func(what string) string { return `],"stream":` + what + `,"messages":[` }
	body := `{"messages":[` + one + stream("true") + one + stream("false") + `{"content":[]},` + one + stream("true") + one + `]}`
	if _, req := heal(t, body); req.Asked != AskedStream {
		t.Errorf("%+v", req)
	}

	// The first of these is the user's in the end, the second is not.
	card := func(role string) string {
		return `{"role":"assistant",` + cardCalls(1, "x") + `,"content":"a"` + role + `}`
	}
	in := request(one, card(`,"role":"user"`), one, card(""), cardOutputs(1, "x"), assistant("b"))
	want := request(one, card(`,"role":"user"`), one, `{"role":"assistant","content":"a\n\nb"}`)
	got, req := heal(t, in)
	same(t, got, want, "bodies")
	if req.Cards != 1 {
		t.Errorf("%+v", req)
	}
}
