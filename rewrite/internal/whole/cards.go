package whole

import (
	"bytes"
	"iter"
	"slices"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// Open WebUI sends the cards of an answer back as tool calls: an assistant's message for
// each text of the answer, with the calls that follow the text, and a tool's message for
// each call. Hermes would take them for several answers. joinCards makes one message of
// them, as it would have been without cards (contract section 5).

// MaxCalls is the number of calls of a message up to which they may be cards.
const MaxCalls = 256

// mayHaveCards reports whether there may be cards in the request body: there is a label, or an
// escape that may be a letter of one. It is cheap, and errs only by returning true.
func mayHaveCards(body []byte) bool {
	return bytes.Contains(body, []byte("label")) || bytes.Contains(body, []byte(`\u006`))
}

// joinCards returns body, valid JSON of a request, with the messages of each answer that has
// cards joined, and the number of cards. It returns body itself if there are none. It writes into
// room if that is large enough.
func joinCards(body, room []byte) ([]byte, int) {
	j := joiner{copier: copier{b: body, out: room[:0]}}
	for name, value := range jsonspan.Members(body, object(body)) {
		if jsonspan.Spells(name.Of(body), "messages") && body[value.From] == '[' {
			j.messages(value)
		}
	}
	return j.rest(), j.cards
}

// joiner goes once over the messages of a valid body, and joins those of each answer that
// has cards.
type joiner struct {
	copier
	cards int // the number of cards that have been taken out

	answer []cardMessage // the messages of an answer with cards, but its last one has none
	before int           // where the element before the answer ends, 0 if none is left
	end    int           // where the last message or tool's message of answer ends
	ids    [][]byte      // the ids of the calls of a message that no tool's message has answered
	room   []byte        // to decode a string
	apart  bool          // the text that comes next needs no paragraph break before it
}

// cardMessage is a message by position.
type cardMessage struct {
	at                   jsonspan.Span
	role, content, calls jsonspan.Span // values; calls is absent if there are none
	more                 bool          // there are other members
}

// messages joins the messages in the array at v.
func (j *joiner) messages(v jsonspan.Span) {
	r := jsonspan.Reader{Data: j.b[:v.To], Pos: v.From}
	j.before = 0
	for r.Open(); r.Element(); {
		m, ok := j.message(r.Skip())
		answers := len(j.answer) > 0 && ok && !m.more // the message may go on with the answer
		switch {
		case ok && m.calls.Ok() && j.answered(&m, &r):
			if !answers {
				j.join()
			}
			j.answer, j.end = append(j.answer, m), r.Pos
		case answers && !m.calls.Ok() && !j.beforeOutput(r):
			j.answer, j.end = append(j.answer, m), m.at.To
			j.join()
		default:
			j.join()
			j.before = m.at.To
		}
	}
	j.join()
}

// message reads the message at v. It returns false if that is not the assistant's or not of
// the form that the messages of an answer have.
func (j *joiner) message(v jsonspan.Span) (m cardMessage, ok bool) {
	m.at = v
	for name, value := range jsonspan.Members(j.b, v) {
		to := &m.role
		switch {
		case jsonspan.Spells(name.Of(j.b), "role"):
		case jsonspan.Spells(name.Of(j.b), "content"):
			to = &m.content
		case jsonspan.Spells(name.Of(j.b), "tool_calls"):
			to = &m.calls
		default:
			m.more = m.more || value.IsSet(j.b)
			continue
		}
		if to.Ok() {
			return m, false // which one counts?
		}
		*to = value
	}
	if !m.calls.IsSet(j.b) || m.calls.Is(j.b, "[]") {
		m.calls = jsonspan.Span{}
	}
	c := m.content
	return m, spells(j.b, m.role, "assistant") && (!c.IsSet(j.b) || c.IsString(j.b) || j.b[c.From] == '[')
}

// answered reports whether all calls of m are cards, and whether the tool's messages
// after m, at r, are their outputs and no others. If so, it moves r past those.
func (j *joiner) answered(m *cardMessage, r *jsonspan.Reader) bool {
	j.ids = j.ids[:0]
	for call := range jsonspan.Elements(j.b, m.calls) {
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
	if j.beforeOutput(ahead) {
		return false
	}
	*r = ahead
	j.cards += n
	return n > 0
}

// beforeOutput reports whether the next message at r is a tool's. That is none of a card, and
// no message before it may go: it would then answer another's call.
func (j *joiner) beforeOutput(r jsonspan.Reader) bool {
	return r.Element() && isOutput(j.b, jsonspan.Span{From: r.Pos, To: len(j.b)})
}

// spells reports whether the value at v is the string want.
func spells(b []byte, v jsonspan.Span, want string) bool {
	return v.IsString(b) && jsonspan.Spells(v.Inner().Of(b), want)
}

// isOutput reports whether the message at v is a tool's.
func isOutput(b []byte, v jsonspan.Span) bool {
	return spells(b, jsonspan.MemberOf(b, v, "role"), "tool")
}

// call returns the id of the tool call at v, and whether that is a card: its arguments are
// an object with nothing but a label.
func (j *joiner) call(v jsonspan.Span) (id jsonspan.Span, ok bool) {
	id = jsonspan.MemberOf(j.b, v, "id")
	arguments := jsonspan.MemberOf(j.b, jsonspan.MemberOf(j.b, v, "function"), "arguments")
	if !id.IsString(j.b) || !arguments.IsString(j.b) {
		return id, false
	}
	j.room = jsonspan.AppendText(j.room[:0], arguments.Inner().Of(j.b))
	if !jsonspan.Valid(j.room) {
		return id, false
	}
	n := 0
	for name, value := range jsonspan.Members(j.room, object(j.room)) {
		if n++; n > 1 || !name.Is(j.room, "label") || !value.IsString(j.room) {
			return id, false
		}
	}
	return id, n == 1
}

// output reports whether the message at v is the output of a card whose call is in j.ids,
// and takes it from there.
func (j *joiner) output(v jsonspan.Span) bool {
	text, id := jsonspan.MemberOf(j.b, v, "content"), jsonspan.MemberOf(j.b, v, "tool_call_id")
	if !isOutput(j.b, v) || !id.IsString(j.b) {
		return false
	}
	if n := 0; text.Ok() && j.b[text.From] == '[' {
		for part := range jsonspan.Elements(j.b, text) {
			n, text = n+1, textOf(j.b, part)
		}
		if n != 1 {
			return false
		}
	}
	if !spells(j.b, text, "completed") && !spells(j.b, text, "Error: interrupted") && !spells(j.b, text, "interrupted") {
		return false
	}
	want := j.decoded(id)
	i := slices.IndexFunc(j.ids, func(open []byte) bool { return bytes.Equal(open, want) })
	if i < 0 {
		return false
	}
	j.ids = slices.Delete(j.ids, i, i+1)
	return true
}

// textOf returns the text of a part of a content, or the zero Span if it has none.
func textOf(b []byte, part jsonspan.Span) jsonspan.Span {
	if text := jsonspan.MemberOf(b, part, "text"); text.IsString(b) && spells(b, jsonspan.MemberOf(b, part, "type"), "text") {
		return text
	}
	return jsonspan.Span{}
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

// join writes the messages of the answer as one, if there is an answer.
func (j *joiner) join() {
	if len(j.answer) == 0 {
		return
	}
	if first := &j.answer[0]; !first.more && !j.says() { // an empty message goes
		j.cutElement(j.before, first.at.From, j.end)
	} else {
		j.write(first)
		j.cut(first.at.To, j.end)
		j.before = j.end
	}
	j.answer = j.answer[:0]
}

// write writes the first message of the answer without its calls, and with all contents. If
// it has no content, that takes the place of its calls.
func (j *joiner) write(first *cardMessage) {
	end := 0 // where the member before ends
	for name, value := range jsonspan.Members(j.b, first.at) {
		switch {
		case value == first.content:
			j.cut(value.From, value.To)
			j.writeContent()
		case value != first.calls:
		case first.content.Ok():
			j.cutElement(end, name.From-1, value.To)
		default:
			j.cut(name.From-1, value.To)
			j.out = append(j.out, `"content":`...)
			j.writeContent()
		}
		end = value.To
	}
}

// piece is a content that is a text, or a part of one that is an array.
type piece struct {
	part, text jsonspan.Span // one of them may be absent
	first      bool          // nothing of its message has come before
}

// pieces returns an iterator over the contents of the answer.
func (j *joiner) pieces() iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for i := range j.answer {
			c, first := j.answer[i].content, true
			if c.IsString(j.b) && !yield(piece{text: c, first: true}) {
				return
			}
			for part := range jsonspan.Elements(j.b, c) {
				text := textOf(j.b, part)
				if !yield(piece{part, text, first}) {
					return
				}
				first = first && text.To-text.From == len(`""`)
			}
		}
	}
}

// says reports whether there is anything but white space in the answer.
func (j *joiner) says() bool {
	for p := range j.pieces() {
		if !p.text.Ok() || jsonspan.HasText(p.text.Inner().Of(j.b)) {
			return true
		}
	}
	return false
}

// writeContent writes the contents of the answer as one: a string or, if one of them is an
// array of parts, an array of all parts.
func (j *joiner) writeContent() {
	j.apart = true
	parts := slices.ContainsFunc(j.answer, func(m cardMessage) bool { return m.content.Ok() && j.b[m.content.From] == '[' })
	if j.out = append(j.out, '"'); parts {
		j.out[len(j.out)-1] = '['
	}
	from := len(j.out)
	for p := range j.pieces() {
		if len(j.out) > from && parts && (p.part.Ok() || p.text.To-p.text.From > len(`""`)) {
			j.out = append(j.out, ',')
		}
		switch {
		case !p.text.Ok():
			j.out = append(j.out, p.part.Of(j.b)...)
			j.apart = true
		case p.part.Ok():
			j.out = append(j.out, j.b[p.part.From:p.text.From+1]...)
			j.writeText(p)
			j.out = append(j.out, j.b[p.text.To-1:p.part.To]...)
		case parts && p.text.To-p.text.From > len(`""`):
			j.out = append(j.out, `{"type":"text","text":"`...)
			j.writeText(p)
			j.out = append(j.out, `"}`...)
		case !parts:
			j.writeText(p)
		}
	}
	if parts {
		j.out = append(j.out, ']')
	} else {
		j.out = append(append(j.out[:from], trimSpace(j.out[from:])...), '"')
	}
}

// writeText writes the text of p. A paragraph break keeps the texts of two messages apart if
// there is no newline between them: Open WebUI strips those that were there.
func (j *joiner) writeText(p piece) {
	in := p.text.Inner().Of(j.b)
	if len(in) == 0 {
		return
	}
	if r, _ := jsonspan.NextRune(in, 0); p.first && !j.apart && r != '\n' {
		j.out = append(j.out, prose.BreakInJSON...)
	}
	j.out = append(j.out, in...)
	for i := 0; i < len(in); {
		var r rune
		r, i = jsonspan.NextRune(in, i)
		j.apart = r == '\n'
	}
}

// trimSpace returns the inside of a JSON string without the white space at its ends. Open
// WebUI sends no answer with any, but of one with cards it trims only the last text.
func trimSpace(in []byte) []byte {
	from, to := len(in), 0
	for i := 0; i < len(in); {
		r, next := jsonspan.NextRune(in, i)
		if !unicode.IsSpace(r) {
			from, to = min(from, i), next
		}
		i = next
	}
	return in[min(from, to):to]
}
