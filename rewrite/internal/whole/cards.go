package whole

import (
	"bytes"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Open WebUI sends the cards of an answer back as tool calls: an assistant's message for
// each text of the answer, with the calls that follow the text, and a tool's message for
// each call. Hermes would take them for several answers. joinCards makes one message of
// them, as it would have been without cards (contract section 5).

// MaxCalls is the number of calls of a message up to which they may be cards.
const MaxCalls = 256

// mayBeCards reports whether the tool calls in the array raw may be cards: there is a label,
// or an escape that may be a letter of one. It is cheap and errs only by returning true.
func mayBeCards(raw []byte) bool {
	return bytes.Contains(raw, []byte("label")) || bytes.Contains(raw, []byte(`\u006`))
}

// joinCards returns body, valid JSON of a request, with the messages of each answer that has
// cards joined, and the number of cards. It returns 0 if there are none. It writes into room
// if that is large enough.
func joinCards(body, room []byte) ([]byte, int) {
	j := joiner{b: body, out: room[:0]}
	for name, value := range jsonspan.Members(body, jsonspan.Span{From: jsonspan.SkipSpace(body, 0), To: len(body)}) {
		if j.spells(name, "messages") && body[value.From] == '[' {
			j.messages(value)
		}
	}
	if j.cards == 0 {
		return nil, 0
	}
	return append(j.out, body[j.at:]...), j.cards
}

// joiner goes once over the messages of a valid body, and joins those of each answer that
// has cards.
type joiner struct {
	b     []byte
	out   []byte // the joined body so far
	at    int    // b[:at] is in out
	cards int    // the number of cards that have been taken out

	answer []cardMessage // the messages of an answer with cards, but its last one has none
	end    int           // where the last message or tool's message of answer ends
	ids    [][]byte      // the ids of the calls of a message that no tool's message has answered
	room   []byte        // to decode a string
}

// cardMessage is a message by position.
type cardMessage struct {
	at             jsonspan.Span
	content, calls member
	more           bool // there are members other than the role, the content and calls
}

// member is a member of an object by position.
type member struct {
	name, value jsonspan.Span // the name without its quotes
	cut         jsonspan.Span // the member with the comma before it, or behind it if it is the first
}

// messages joins the messages in the array at v.
func (j *joiner) messages(v jsonspan.Span) {
	r := jsonspan.Reader{Data: j.b[:v.To], Pos: v.From}
	before := v.From + 1 // where the element before the answer ends
	for r.Open(); r.Element(); {
		m, ok := j.message(&r)
		answers := len(j.answer) > 0 && ok && !m.more // the message may go on with the answer
		switch {
		case ok && m.calls.value.Ok() && j.answered(&m, &r):
			if !answers {
				j.join(&before)
			}
			j.answer, j.end = append(j.answer, m), r.Pos
		case answers && !m.calls.value.Ok() && !j.isOutput(r):
			j.answer, j.end = append(j.answer, m), m.at.To
			j.join(&before)
		default:
			j.join(&before)
			before = m.at.To
		}
	}
	j.join(&before)
}

// message reads the message at r, and moves r behind it. It returns false if that is not the
// assistant's or not of the form that the messages of an answer have.
func (j *joiner) message(r *jsonspan.Reader) (m cardMessage, ok bool) {
	start := *r
	if m, ok = j.members(r); !ok {
		*r = start
		r.Skip()
	}
	m.at = jsonspan.Span{From: start.Pos, To: r.Pos}
	return m, ok
}

// members reads the members of the message at r, unless it returns false.
func (j *joiner) members(r *jsonspan.Reader) (m cardMessage, ok bool) {
	if !r.At('{') {
		return m, false
	}
	assistant := false
	from := r.Pos
	end := from // where the member before ends
	var first *member
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			break
		}
		value := r.Skip()
		if first != nil { // the comma behind it goes
			first.cut.To, first = name.From-1, nil
		}
		to := &m.content
		switch {
		case j.spells(name, "role"):
			if assistant || !j.is(value, "assistant") {
				return m, false
			}
			assistant, to = true, nil
		case j.spells(name, "content"):
		case j.spells(name, "tool_calls"):
			to = &m.calls
		default:
			to, m.more = nil, m.more || value.IsSet(j.b)
		}
		if to != nil {
			if to.value.Ok() {
				return m, false // which one counts?
			}
			*to = member{name, value, jsonspan.Span{From: end, To: value.To}}
			if end == from {
				to.cut.From, first = name.From-1, to
			}
		}
		end = value.To
	}
	if c := m.content.value; c.IsSet(j.b) && !c.IsString(j.b) && j.b[c.From] != '[' {
		return m, false
	}
	if c := m.calls.value; !c.IsSet(j.b) || c.Is(j.b, "[]") {
		m.calls = member{}
	}
	return m, assistant
}

// answered reports whether all calls of m are cards, and whether the tool's messages
// behind m, at r, are their outputs and no others. If so, it moves r behind those.
func (j *joiner) answered(m *cardMessage, r *jsonspan.Reader) bool {
	j.ids = j.ids[:0]
	for call := range jsonspan.Elements(j.b, m.calls.value) {
		id, ok := j.call(call)
		if !ok || len(j.ids) == MaxCalls {
			return false
		}
		j.ids = append(j.ids, j.decoded(id))
	}
	n := len(j.ids)
	ahead := *r
	for len(j.ids) > 0 {
		if !ahead.Element() || !j.output(ahead.Skip()) {
			return false
		}
	}
	if j.isOutput(ahead) {
		return false
	}
	*r = ahead
	j.cards += n
	return n > 0
}

// isOutput reports whether the next message at r is a tool's. That is none of a card, and
// no message before it may go: it would then answer another's call.
func (j *joiner) isOutput(r jsonspan.Reader) bool {
	return r.Element() && j.is(j.memberOf(jsonspan.Span{From: r.Pos, To: len(j.b)}, "role"), "tool")
}

// call returns the id of the tool call at v, and whether that is a card: its arguments are
// an object with nothing but a label.
func (j *joiner) call(v jsonspan.Span) (id jsonspan.Span, ok bool) {
	id = j.memberOf(v, "id")
	arguments := j.memberOf(j.memberOf(v, "function"), "arguments")
	if !id.IsString(j.b) || !arguments.IsString(j.b) {
		return id, false
	}
	j.room = jsonspan.AppendText(j.room[:0], arguments.Inner().Of(j.b))
	if !jsonspan.Valid(j.room) {
		return id, false
	}
	n := 0
	for name, value := range jsonspan.Members(j.room, jsonspan.Span{From: jsonspan.SkipSpace(j.room, 0), To: len(j.room)}) {
		if n++; n > 1 || !name.Is(j.room, "label") || !value.IsString(j.room) {
			return id, false
		}
	}
	return id, n == 1
}

// output reports whether the message at v is the output of a card whose call is in j.ids,
// and takes it from there.
func (j *joiner) output(v jsonspan.Span) bool {
	if !j.is(j.memberOf(v, "role"), "tool") {
		return false
	}
	text := j.memberOf(v, "content")
	if text.Ok() && j.b[text.From] == '[' {
		text = j.onlyText(text)
	}
	if !j.is(text, "completed") && !j.is(text, "Error: interrupted") && !j.is(text, "interrupted") {
		return false
	}
	v = j.memberOf(v, "tool_call_id")
	if !v.IsString(j.b) {
		return false
	}
	id := j.decoded(v)
	i := slices.IndexFunc(j.ids, func(open []byte) bool { return bytes.Equal(open, id) })
	if i < 0 {
		return false
	}
	j.ids = slices.Delete(j.ids, i, i+1)
	return true
}

// onlyText returns the text of the parts at v if there is one part and it is text, or else
// the zero Span.
func (j *joiner) onlyText(v jsonspan.Span) (text jsonspan.Span) {
	n := 0
	for part := range jsonspan.Elements(j.b, v) {
		n++
		text = j.textOf(part)
	}
	if n != 1 {
		return jsonspan.Span{}
	}
	return text
}

// textOf returns the text of a part of a content, or the zero Span if it has none.
func (j *joiner) textOf(part jsonspan.Span) jsonspan.Span {
	if text := j.memberOf(part, "text"); text.IsString(j.b) && j.is(j.memberOf(part, "type"), "text") {
		return text
	}
	return jsonspan.Span{}
}

// memberOf returns the value of the member with the name in the object at v, or the zero
// Span if there is none. The name may be written with escapes. If there are several, the
// last one counts.
func (j *joiner) memberOf(v jsonspan.Span, name string) (found jsonspan.Span) {
	for key, value := range jsonspan.Members(j.b, v) {
		if j.spells(key, name) {
			found = value
		}
	}
	return found
}

// spells reports whether the inside of the JSON string at s stands for want.
func (j *joiner) spells(s jsonspan.Span, want string) bool { return jsonspan.Spells(s.Of(j.b), want) }

// is reports whether the value at v is the string want.
func (j *joiner) is(v jsonspan.Span, want string) bool {
	return v.IsString(j.b) && j.spells(v.Inner(), want)
}

// decoded returns the text of the JSON string at v. It is decoded once, and not for each text
// that it is compared with.
func (j *joiner) decoded(v jsonspan.Span) []byte {
	inner := v.Inner().Of(j.b)
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return jsonspan.AppendText(nil, inner)
}
