// Package whole repairs whole bodies: the history that a request carries (wire
// contract, section 5), and an answer that is not streamed (sections 1, 3 and 4).
//
//	history.go  Heal: messages that are healed or removed
//	text.go     the marker lines of a text
//	approvals.go requests for approval in a history, and replies to them
//	copier.go   JSON without the parts that are cut
//	opening.go  the beginning of a conversation, and a line in front of it
//	cards.go    the messages of an answer that Open WebUI has taken apart, joined
//	memory.go   Recall: records of the tools that ran during the answers
//	turns.go    the questions of the user's and their answers
//	answer.go   RepairAnswer: content, reasoning, failures and secrets of an answer
//
// It holds no state. A body that needs no repair is returned as it is, without a copy.
// Heal validates a body only if it may have a marker or a card, or if the caller asks for it.
// RepairAnswer validates the answer, and copies it if something changes.
package whole

import (
	"slices"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Changes are what was removed from the history that a request carries, and added to it.
type Changes struct {
	// Markers and Cards are the numbers of the marker lines and of the tool cards that were removed.
	Markers, Cards int
	// Approvals is the number of paragraphs that ask for approvals, and of codes and tickets
	// elsewhere, that were removed.
	Approvals int
	// Reply is what the last message of the user says about an approval.
	Reply Reply
	// FromRequest and FromMemory are the numbers of the records that were put in front of the user's
	// messages, by their source: tool calls of the request, or the Memory.
	FromRequest, FromMemory int
	// Turn is that of the answer that the request asks for, without the Answer. It is zero without a
	// Memory, and its Question is zero if the last message is not the user's.
	Turn contract.Turn
}

// Changed reports whether the body was changed.
func (c *Changes) Changed() bool { return c.Markers+c.Cards+c.Approvals+c.Recalled() > 0 }

// Recalled returns the number of the records.
func (c *Changes) Recalled() int { return c.FromRequest + c.FromMemory }

// Heal heals the history in body, the JSON of a request (contract section 5). The healed body is a copy, or
// body itself if nothing was removed. A
// jsonspan.Reader has read body as an object that is nested depth deep. sound reports whether
// body is well formed, but is only certain if there may be anything to heal or if check is true.
//
// A content is a string, or an array of parts whose texts are those of the parts with a type in
// textTypes. If messages, content or text are there twice, Heal heals both, because
// servers differ in the one they use. If role or type are there twice, the last one counts,
// as for most servers. A body passes untouched if it is not well-formed JSON in UTF-8, is
// nested deeper than jsonspan.MaxDepth, or has a lone surrogate in a marker.
//
// given are the codes and the tickets of the client's requests for approval. The value says that
// a reply with the code is waited for. left gets the messages of a chat in the healed body, if that is not
// body itself; it may be nil.
func Heal(body []byte, tools *marker.Table, depth int, check bool, given map[string]bool, left *Messages) (healed []byte, c Changes, sound bool) {
	may := len(given) > 0 || marker.MayAsk(body)
	// MayAsk also looks for escaped backticks.
	if !may && nextMarker(body, 0, tools) < 0 && !mayHaveCards(body, depth) && !check {
		return body, c, false
	}
	if !jsonspan.Valid(body) || !utf8.Valid(body) {
		return body, c, false
	}
	if len(given) > 0 {
		c.Reply = replyIn(body, given)
	}
	h := healer{copier: copier{b: body}, stripper: stripper{tools: tools}, secrets: secrets{given: given}, mayHaveApprovals: may, left: left}
	h.Known = h.known
	paragraphs := may && marker.Secrets(body, h.add) > 0
	h.next = jsonspan.Reader{Data: body, Pos: jsonspan.ObjectIn(body).From}
	h.next.Open()
	for name, ok := h.next.Member(); ok; name, ok = h.next.Member() {
		h.member(name.Of(body), paragraphs)
	}
	if h.markers+h.cards+h.approvals == 0 || h.loneSurrogate {
		return body, c, true
	}
	c.Markers, c.Cards, c.Approvals = h.markers, h.cards, h.approvals
	return h.rest(), c, true
}

// member heals the member with the name, whose value is at next, if it is one of those that have
// messages of a conversation: those of chat completions, /v1/responses and /v1/runs, or the message
// to a session. paragraphs says that there are paragraphs in the body.
func (h *healer) member(name []byte, paragraphs bool) {
	is := func(want string) bool { return jsonspan.Spells(name, want) }
	now := is("input") || is("message") // the last message, wherever it stands
	switch {
	case h.next.At('[') && (now || is("messages") || is("conversation_history")):
		h.afterParagraph = now && paragraphs
		left := h.left
		switch {
		case !is("messages"):
			h.left = nil // what is left of others is no chat
		case left != nil:
			*left = Messages{}
		}
		h.messages()
		h.left = left
	case h.mayHaveApprovals && h.next.At('"') && (now || is("instructions") || is("system_message")):
		h.afterParagraph = now && paragraphs
		h.texts = append(h.texts[:0], h.next.Skip().Inner())
		h.forget(&message{})
	default:
		h.next.Skip()
	}
}

// healer goes once over the messages of a valid body. It joins the messages of each answer with
// cards, and takes the marker lines out of the assistant's messages.
type healer struct {
	copier
	stripper
	secrets
	cards            int  // the number of cards that have been taken out
	approvals        int  // the number of paragraphs and secrets that have been taken out
	mayHaveApprovals bool // there may be such paragraphs or secrets
	afterParagraph   bool // the message follows a paragraph, wherever that stands in the body

	next   jsonspan.Reader // after the current message
	texts  []jsonspan.Span // of the current message, insides of strings
	before int             // where the element before the message or answer ends, 0 if none is left

	left *Messages // those that are left of the last array, in the copy; or nil

	answer          // with cards, to which the next message may belong
	ids    []cardID // the ids of the calls of a message that no tool's message has answered
	room   []byte   // to decode a string
}

// message is a message by position.
type message struct {
	at, role, content, calls jsonspan.Span

	plain  bool // the assistant's, and of the form of the messages of an answer with cards
	called bool // there are calls
	more   bool // there are members other than role, content and calls
	filled bool // one of them has content
	others bool // it is not the assistant's
}

// messages heals the messages in the array at next.
func (h *healer) messages() {
	h.before = 0
	for h.next.Open(); h.next.Element(); {
		m := h.message()
		goesOn := m.plain && !m.more && h.first.at.Ok()
		switch {
		case m.plain && m.called && h.takeCards(&m):
			if !goesOn {
				h.join()
				h.first = m
			}
			h.say(h.next.Pos)
		case goesOn && !m.called && !h.beforeOutput(h.next):
			h.say(m.at.To)
			h.join()
		default:
			h.join()
			h.put(&m, m.at.To, false)
		}
	}
	h.join()
}

// message moves next past a message, and collects its texts.
func (h *healer) message() message {
	m := message{at: jsonspan.Span{From: h.next.Pos}, plain: true}
	h.texts = h.texts[:0]
	if !h.next.At('{') {
		m = message{at: h.next.Skip()}
		if m.at.IsString(h.b) { // for Hermes it is the user's
			h.texts, m.others = append(h.texts, m.at.Inner()), true
		}
		return m
	}
	h.next.Open()
	for name, ok := h.next.Member(); ok; name, ok = h.next.Member() {
		value := h.next.Skip()
		is := func(want string) bool { return jsonspan.Spells(name.Of(h.b), want) }
		to := &m.role
		switch {
		case is("role"):
		case is("content"):
			to = &m.content
			h.content(&m, value)
		case is("tool_calls"):
			to = &m.calls
			m.called = m.called || chunk.Filled(value.Of(h.b))
		default:
			m.more = m.more || value.IsSet(h.b)
			m.filled = m.filled || !is("name") && !is("id") && !is("type") && !is("status") && !is("phase") && chunk.Filled(value.Of(h.b))
			continue
		}
		m.plain = m.plain && !to.Ok() // of two, it is not known which one counts
		*to = value
	}
	m.at.To = h.next.Pos
	if !Spells(h.b, m.role, "assistant") {
		m.others, m.plain = true, false
	}
	if !m.role.Ok() && !m.content.Ok() && h.mayHaveApprovals { // a part of the user's message, or what a tool has returned
		if text := textOf(h.b, m.at); text.IsString(h.b) {
			h.texts = append(h.texts, text.Inner())
		} else if output := jsonspan.MemberOf(h.b, m.at, "output"); output.Ok() {
			h.content(&m, output)
		}
	}
	return m
}

// content collects the texts of the content of m at v: a string, or an array of parts.
func (h *healer) content(m *message, v jsonspan.Span) {
	if v.IsString(h.b) {
		h.texts = append(h.texts, v.Inner())
		return
	}
	if h.b[v.From] != '[' {
		m.plain, m.filled = m.plain && !v.IsSet(h.b), m.filled || chunk.Filled(v.Of(h.b))
	}
	for part := range jsonspan.Elements(h.b, v) {
		if part.IsString(h.b) {
			h.texts = append(h.texts, part.Inner())
			m.plain = false
			continue
		}
		if !isText(h.b, part) {
			m.plain, m.filled = false, m.filled || chunk.Filled(part.Of(h.b))
			continue
		}
		n := 0
		for name, value := range jsonspan.Members(h.b, part) {
			switch {
			case !jsonspan.Spells(name.Of(h.b), "text"):
			case value.IsString(h.b):
				h.texts = append(h.texts, value.Inner())
				n++
			default:
				m.filled = true
			}
		}
		m.plain = m.plain && n == 1
	}
}

// textTypes are the types of parts with a text of a message: those of chat completions and of
// /v1/responses.
var textTypes = []string{"text", "input_text", "output_text"}

// isText reports whether the part at v has one of the textTypes.
func isText(b []byte, v jsonspan.Span) bool {
	kind := jsonspan.MemberOf(b, v, "type")
	return slices.ContainsFunc(textTypes, func(want string) bool { return Spells(b, kind, want) })
}

// textOf returns the text of the part at v, which is absent if the part has none. A part may be a
// string.
func textOf(b []byte, v jsonspan.Span) (text jsonspan.Span) {
	switch {
	case v.IsString(b):
		return v
	case isText(b, v):
		return jsonspan.MemberOf(b, v, "text")
	}
	return text
}

// put copies the message m or, if joined is true, the answer that begins with m and ends at end,
// without marker lines and what asks for approvals. A message of which nothing is left is removed,
// because providers refuse an empty message, but not before a tool's message, which would then
// answer the call of another.
func (h *healer) put(m *message, end int, joined bool) {
	at, out, markers := h.at, len(h.out), h.markers+h.approvals
	begins := out + m.at.From - at // in the copy
	h.text = m.filled || m.called && !joined
	switch {
	case joined:
		h.write(m)
	case m.others:
		h.forget(m)
		h.text = true
	default:
		for _, v := range h.texts {
			text, n := v.Of(h.b), 0
			if h.mayHaveApprovals {
				text, n = h.withoutApprovals(text, true)
				h.approvals += n
			}
			if last := lastMarker(text, h.tools); last >= 0 || n > 0 {
				h.cut(v.From, v.To)
				h.out = h.strip(h.out, text, last)
			} else {
				h.text = h.text || jsonspan.HasText(text)
			}
		}
	}
	goes := !h.text && (h.markers+h.approvals > markers || joined && !m.more)
	switch {
	case goes && (joined || !h.beforeOutput(h.next)):
		h.at, h.out = at, h.out[:out]
		h.cutElement(h.before, m.at.From, end)
		return
	case joined:
		h.cut(m.at.To, end)
	}
	h.before = end
	h.left.add(begins)
}
