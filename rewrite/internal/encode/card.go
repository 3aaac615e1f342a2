package encode

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Cards. Open WebUI draws a tool as a card if a chunk has the members of an event of the
// Responses API beside its own, with a call as the item. It takes a call without an output
// for one that it must run itself, and asks upstream again. So each card gets its output
// right after the tool's completed event (contract section 2).

const (
	// MaxCardID is the length in bytes of the longest tool call id that gets a card. A
	// card repeats it.
	MaxCardID = 1 << 10
	// MaxCardLabel is the length in bytes, as it came, up to which a card repeats a label.
	MaxCardLabel = 1 << 10
	// MaxCardName is the number of characters of a card's name.
	MaxCardName = 80
	// cardSize is the number of bytes that a call and its output take at most, without
	// the label, the ids and the envelope.
	cardSize = 1088
)

// itemHead begins the members of a card. The large index puts the card after
// all that has been said so far.
const itemHead = `,"type":"response.output_item.added","output_index":1000000,"item":{"type":"`

// The types of a card's items.
const (
	itemCall   = "function_call"
	itemOutput = "function_call_output"
)

// The status and the text of a tool that the end of a broken stream closes. Open WebUI draws a
// red cross instead of a green tick only if the text begins with "Error:".
const (
	incomplete      = "incomplete"
	textInterrupted = "Error: interrupted"
)

// HasCards reports whether tools get cards.
func (w *Writer) HasCards() bool { return w.o.Cards && w.Envelops() }

// card returns the members that make a card of the event of t. A row shows the item's name. In
// later requests Open WebUI sends what stands in provider_function instead, if that is there:
// an API takes no emoji in the name of a function, and the chat may go on with another model.
func card(t *Transition, interrupted bool) string {
	status := "in_progress"
	switch {
	case t.Completed && interrupted:
		status = incomplete
	case t.Completed:
		status = Completed
	}
	arguments := `"{\"label\": \"` + cardLabel(t.Label) + `\"}"`
	return itemHead + itemCall + `","id":` + t.ID + `,"call_id":` + t.ID + `,"name":"` + cardName(&t.Tool) + `","arguments":` + arguments +
		`,"provider_function":{"name":"` + functionName(t.Name) + `","arguments":` + arguments + `},"status":"` + status + `"}`
}

// cardOutput writes the output of the card of t, which has ended. It is a chunk that no
// client takes for another tool event.
func (w *Writer) cardOutput(t *Transition) {
	text, status := Completed, Completed
	if t.Interrupted {
		text, status = textInterrupted, incomplete
	}
	w.own("data: {", w.envelope().empty(), itemHead+itemOutput+`","id":"fco_`, t.ID[1:], `,"call_id":`, t.ID,
		`,"output":[{"type":"input_text","text":"`, text, `"}],"status":"`, status, "\"}}\n\n")
}

// cardText returns the inside of a JSON string, and how many of its first bytes a card
// repeats. A rune that begins within them is repeated as a whole.
func cardText(raw string) (text []byte, n int) {
	inner := jsonspan.Inside(raw)
	return []byte(inner[:min(len(inner), MaxCardLabel+len(`\ud83d\udcbb`))]), min(len(inner), MaxCardLabel)
}

// cardName returns the name of a card, which its row shows: the emoji and the label or, without
// a label, the tool's name. It is one line. Open WebUI draws it as plain text.
func cardName(t *Tool) string {
	var name []byte
	n := 0 // the number of characters
	for i, raw := range [...]string{t.Emoji, t.Label, t.Name} {
		before, space := n, n > 0
		text, end := cardText(raw)
		for at := 0; at < end; {
			r, next := jsonspan.NextRune(text, at)
			at = next
			if r != zeroWidthJoiner && r != emojiSelector && (unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				space = n > 0
				continue
			}
			if space {
				name, n, space = append(name, ' '), n+1, false
			}
			if n >= MaxCardName {
				return string(name) + "…"
			}
			if n++; r == '\\' || r == '"' {
				name = append(name, '\\')
			}
			name = utf8.AppendRune(name, r)
		}
		if i > 0 && n > before {
			break
		}
	}
	return string(name)
}

// Characters that are invisible in an emoji, but belong to it.
const (
	zeroWidthJoiner = '\u200d'
	emojiSelector   = '\ufe0f'
)

// functions matches the JSON strings that an API allows as the name of a function.
var functions = regexp.MustCompile(`^"[-_0-9A-Za-z]{1,64}"$`)

// functionName returns the tool's name, a JSON string, if the API allows it as the name of a
// function, and otherwise "tool".
func functionName(raw string) string {
	if functions.MatchString(raw) {
		return jsonspan.Inside(raw)
	}
	return "tool"
}

// cardLabel returns the JSON string label in arguments, which are a JSON string within a JSON
// string. Nothing gets more than twice as long as it came.
func cardLabel(label string) string {
	var b []byte
	text, end := cardText(label)
	for at := 0; at < end; {
		r, next := jsonspan.NextRune(text, at)
		switch short := strings.IndexRune("\b\t\n\f\r", r); {
		case r == utf8.RuneError && next == at+1: // an invalid byte; U+FFFD would be three
			b = append(b, text[at])
		case r == '"':
			b = append(b, `\\\"`...)
		case r == '\\':
			b = append(b, `\\\\`...)
		case r >= ' ':
			b = utf8.AppendRune(b, r)
		case short >= 0:
			b = append(b, '\\', '\\', "btnfr"[short])
		default:
			b = fmt.Appendf(b, `\\u%04x`, r)
		}
		at = next
	}
	if len(jsonspan.Inside(label)) > end {
		b = append(b, "…"...)
	}
	return string(b)
}

// HasCard reports whether another sidecar has made a card of the tool event x.
func HasCard(x *chunk.Object) bool {
	if !x.C.Extra || !x.C.CallID.Ok() {
		return false
	}
	id := jsonspan.MemberOf(x.F.Data, itemOf(x, itemCall), "call_id")
	return id.Ok() && string(jsonspan.Plain(x.Value(id))) == string(jsonspan.Plain(x.Value(x.C.CallID)))
}

// IsInterrupted reports whether the tool event x says that its tool was interrupted.
func IsInterrupted(x *chunk.Object) bool {
	return x.C.Extra && x.Member("interrupted").Is(x.F.Data, "true")
}

// itemOf returns where the item of the type in x is, or the zero Span.
func itemOf(x *chunk.Object, kind string) jsonspan.Span {
	item := x.Member("item")
	if v := jsonspan.MemberOf(x.F.Data, item, "type"); v.IsString(x.F.Data) && v.Inner().Is(x.F.Data, kind) {
		return item
	}
	return jsonspan.Span{}
}

// OutputOf returns the id of the tool, a JSON string without escapes, whose card the chunk
// x is the output of, or nil if it is none.
func OutputOf(x *chunk.Object) []byte {
	if !x.C.Extra {
		return nil
	}
	return jsonspan.Plain(x.String(jsonspan.MemberOf(x.F.Data, itemOf(x, itemOutput), "call_id")))
}
