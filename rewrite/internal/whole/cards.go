package whole

import (
	"bytes"
	"slices"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// Open WebUI sends the cards of an answer back as tool calls: an assistant's message for
// each text of the answer, with the calls that follow the text, and a tool's message for
// each call. Hermes would take them for several answers. The healer makes one message of
// them, as it would have been without cards (contract section 5).

// MaxCalls is the number of calls of a message up to which they may be cards.
const MaxCalls = 256

// mayHaveCards reports whether there may be cards in the request body, which is nested depth deep:
// it is as deep as the function of a call, as hardly any history without calls is, and it has such a call, or
// a label, or an escape that may be a letter of these words. It is cheap, and errs only by returning true.
func mayHaveCards(body []byte, depth int) bool {
	if depth < len("{[{[{{") {
		return false
	}
	return bytes.Contains(body, []byte("label")) || bytes.Contains(body, []byte("tool_calls")) || bytes.Contains(body, []byte(`\u00`))
}

// answer is an answer with cards. Each of its messages has cards, except that the last one need
// not.
type answer struct {
	first   message // absent if there is no answer
	end     int     // where the last message or tool's message of the answer ends
	said    []byte  // the texts as one, the inside of a JSON string, without white space before it
	words   int     // the length of said without white space after it
	newline bool    // said ends with one
}

// takeCards moves next past the outputs of the cards in m. It returns false, and moves nothing, unless
// all calls of m are cards, and the tool's messages after m are their outputs and no others.
func (h *healer) takeCards(m *message) bool {
	h.ids = h.ids[:0]
	for call := range jsonspan.Elements(h.b, m.calls) {
		id, told, ok := h.cardOf(call)
		if !ok || len(h.ids) == MaxCalls {
			return false
		}
		h.ids = append(h.ids, cardID{jsonspan.Unquote(id.Of(h.b)), told})
	}
	n := len(h.ids)
	ahead := h.next
	for len(h.ids) > 0 {
		if !ahead.Element() || !h.takeOutput(ahead.Skip()) {
			return false
		}
	}
	if n == 0 || h.beforeOutput(ahead) {
		return false
	}
	h.next = ahead
	h.cards += n
	return true
}

// beforeOutput reports whether the next message at r is a tool's. Such a message belongs to no
// card, and no message before it may be removed: it would then answer the call of another message.
func (h *healer) beforeOutput(r jsonspan.Reader) bool {
	return r.Element() && isOutput(h.b, jsonspan.Span{From: r.Pos, To: len(h.b)})
}

// Spells reports whether the value at v is the string want.
func Spells(b []byte, v jsonspan.Span, want string) bool {
	return v.IsString(b) && jsonspan.Spells(v.Inner().Of(b), want)
}

// isOutput reports whether the message at v is a tool's.
func isOutput(b []byte, v jsonspan.Span) bool {
	return Spells(b, jsonspan.MemberOf(b, v, "role"), "tool")
}

// cardID is a card whose output is yet to come.
type cardID struct {
	id   string
	told bool // the card has details, so that its output is any text
}

// cardOf returns the id of the tool call at v, and whether that is a card: it has the arguments of one. told says
// that these have details. It is also a card if it has the name of one, which no function has, and shows
// details: Open WebUI 0.11 sends back what it shows.
func (h *healer) cardOf(v jsonspan.Span) (id jsonspan.Span, told, ok bool) {
	id = jsonspan.MemberOf(h.b, v, "id")
	function := jsonspan.MemberOf(h.b, v, "function")
	arguments, shown := jsonspan.MemberOf(h.b, function, "arguments"), jsonspan.MemberOf(h.b, function, "name")
	if !id.IsString(h.b) || !arguments.IsString(h.b) {
		return id, false, false
	}
	h.room = jsonspan.AppendText(h.room[:0], arguments.Inner().Of(h.b))
	if shown.IsString(h.b) && isShown(jsonspan.Unquote(shown.Of(h.b)), h.room) {
		return id, true, true
	}
	_, _, kind := cardArguments(h.room)
	return id, kind == cardWithResult, kind != noCard
}

// isShown reports whether a call with the name and the arguments is a card as it is shown.
func isShown(name string, arguments []byte) bool {
	return bytes.HasSuffix(arguments, []byte(contract.ShownEnd)) && marker.BeginsWithEmoji(name)
}

// takeOutput removes from ids the card whose output the message at v is. It returns false if there is
// none.
func (h *healer) takeOutput(v jsonspan.Span) bool {
	id := jsonspan.MemberOf(h.b, v, "tool_call_id")
	m, n := message{plain: true}, len(h.texts)
	h.content(&m, jsonspan.MemberOf(h.b, v, "content"))
	texts := h.texts[n:]
	h.texts = h.texts[:n]
	if !isOutput(h.b, v) || !id.IsString(h.b) || !m.plain || len(texts) != 1 {
		return false
	}
	h.room = jsonspan.AppendText(h.room[:0], texts[0].Of(h.b))
	of := jsonspan.Unquote(id.Of(h.b))
	i := slices.IndexFunc(h.ids, func(c cardID) bool { return c.id == of })
	if i < 0 || !h.ids[i].told && !contract.IsCardOutput(string(h.room)) {
		return false
	}
	h.ids = slices.Delete(h.ids, i, i+1)
	return true
}

// say adds the texts of the current message to the answer, which now reaches to end. It drops
// white space at the ends of the answer: Open WebUI sends no answer with any, but of one with cards
// it trims only the last text. A paragraph break keeps two texts apart if there is no newline
// between them: Open WebUI strips those that were there.
func (h *healer) say(end int) {
	h.end = end
	first := true
	for _, v := range h.texts {
		in := v.Of(h.b)
		h.said = slices.Grow(h.said, len(in))
		for at := 0; at < len(in); first = false {
			r, next := jsonspan.NextRune(in, at)
			if first && len(h.said) > 0 && !h.newline && r != '\n' {
				h.said = append(h.said, prose.BreakInJSON...)
			}
			space := unicode.IsSpace(r)
			if !space || len(h.said) > 0 {
				h.said = append(h.said, in[at:next]...)
			}
			if !space {
				h.words = len(h.said)
			}
			h.newline, at = r == '\n', next
		}
	}
}

// join puts the answer, if there is one, as one message.
func (h *healer) join() {
	if h.first.at.Ok() {
		h.put(&h.first, h.end, true)
		h.answer = answer{said: h.said[:0]}
	}
}

// write writes m, the first message of the answer, without its calls, and with the text of the
// answer as its content. If m has no content, the text takes the place of its calls.
func (h *healer) write(m *message) {
	end := 0 // where the member before ends
	for name, value := range jsonspan.Members(h.b, m.at) {
		from, opening := value.From, `"`
		switch {
		case value == m.calls && m.content.Ok():
			h.cutElement(end, name.From-1, value.To)
		case value == m.calls:
			from, opening = name.From-1, `"content":"`
			fallthrough
		case value == m.content:
			h.cut(from, value.To)
			said, n := h.withoutApprovals(h.said[:h.words], true)
			h.approvals += n
			h.out = append(h.strip(append(h.out, opening...), said, lastMarker(said, h.tools)), '"')
		}
		end = value.To
	}
}
