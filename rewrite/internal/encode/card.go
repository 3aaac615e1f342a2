package encode

import (
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

// Size returns how many bytes the fields of the tool take, and its card at its end at
// most, without the envelope of the output.
func (t *Tool) Size() int {
	n := len(t.Name) + len(t.Emoji) + len(t.Label) + len(t.ID)
	if t.Card {
		n += cardSize + 4*len(t.ID) + 4*min(len(t.Label), MaxCardLabel)
	}
	return n
}

// appendCard appends the members that make a card of the event of t. A row shows the item's name. In later requests Open WebUI sends what stands in
// provider_function instead, if that is there: an API takes no emoji in the name of a
// function, and the chat may go on with another model.
func appendCard(dst []byte, t *Transition, interrupted bool) []byte {
	dst = append(dst, itemHead+itemCall+`","id":`...)
	dst = append(append(append(dst, t.ID...), `,"call_id":`...), t.ID...)
	dst = appendCardName(append(dst, `,"name":"`...), &t.Tool)
	dst = append(dst, '"')
	from := len(dst)
	dst = appendCardLabel(append(dst, `,"arguments":"{\"label\": \"`...), t.Label)
	dst = append(dst, `\"}"`...)
	arguments := dst[from:]
	dst = appendFunctionName(append(dst, `,"provider_function":{"name":"`...), t.Name)
	dst = append(append(append(dst, '"'), arguments...), `},"status":"`...)
	switch {
	case !t.Completed:
		dst = append(dst, "in_progress"...)
	case interrupted:
		dst = append(dst, incomplete...)
	default:
		dst = append(dst, Completed...)
	}
	return append(dst, `"}`...)
}

// cardOutput writes the output of the card of t, which has ended. It is a chunk that no
// client takes for another tool event.
func (w *Writer) cardOutput(t *Transition) {
	text, status := Completed, Completed
	if t.Interrupted {
		text, status = textInterrupted, incomplete
	}
	e := w.envelope()
	w.Out.BeginOwn()
	dst := e.appendEmpty(append(w.Out.Bytes, "data: {"...))
	dst = append(append(dst, itemHead+itemOutput+`","id":"fco_`...), t.ID[1:]...)
	dst = append(append(dst, `,"call_id":`...), t.ID...)
	dst = append(append(dst, `,"output":[{"type":"input_text","text":"`...), text...)
	dst = append(append(dst, `"}],"status":"`...), status...)
	w.Out.Bytes = append(dst, "\"}}\n\n"...)
}

// cardText returns the inside of a JSON string, and how many of its first bytes a card
// repeats. A rune that begins within them is repeated as a whole.
func cardText(raw string) (text []byte, n int) {
	inner := jsonspan.Inside(raw)
	return []byte(inner[:min(len(inner), MaxCardLabel+len(`\ud83d\udcbb`))]), min(len(inner), MaxCardLabel)
}

// appendCardName appends the name of a card, which its row shows: the emoji and the label
// or, without a label, the tool's name. It is one line. Open WebUI draws it as plain text.
func appendCardName(dst []byte, t *Tool) []byte {
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
				dst, n, space = append(dst, ' '), n+1, false
			}
			if n >= MaxCardName {
				return append(dst, "…"...)
			}
			if n++; r == '\\' || r == '"' {
				dst = append(dst, '\\')
			}
			dst = utf8.AppendRune(dst, r)
		}
		if i > 0 && n > before {
			break
		}
	}
	return dst
}

// Characters that are invisible in an emoji, but belong to it.
const (
	zeroWidthJoiner = '\u200d'
	emojiSelector   = '\ufe0f'
)

// appendFunctionName appends the tool's name, a JSON string, if the API allows it as the
// name of a function, and otherwise "tool".
func appendFunctionName(dst []byte, raw string) []byte {
	name := jsonspan.Inside(raw)
	if len(name) == 0 || len(name) > 64 {
		return append(dst, "tool"...)
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return append(dst, "tool"...)
		}
	}
	return append(dst, name...)
}

// appendCardLabel appends the JSON string label to arguments, which are a JSON string
// within a JSON string.
func appendCardLabel(dst []byte, label string) []byte {
	const digits = "0123456789abcdef"
	short := [' ']byte{'\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}
	text, end := cardText(label)
	for at := 0; at < end; {
		r, next := jsonspan.NextRune(text, at)
		switch {
		case r == utf8.RuneError && next == at+1: // an invalid byte; U+FFFD would be three
			dst = append(dst, text[at])
		case r == '"':
			dst = append(dst, `\\\"`...)
		case r == '\\':
			dst = append(dst, `\\\\`...)
		case r >= ' ':
			dst = utf8.AppendRune(dst, r)
		case short[r] != 0: // nothing gets more than twice as long as it came
			dst = append(dst, '\\', '\\', short[r])
		default:
			dst = append(append(dst, `\\u00`...), digits[r>>4], digits[r&15])
		}
		at = next
	}
	if len(jsonspan.Inside(label)) > end {
		dst = append(dst, "…"...)
	}
	return dst
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
