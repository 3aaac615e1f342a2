package whole

import (
	"bytes"
	"slices"
	"unicode"

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
	for name, value := range jsonspan.Members(body, object(body)) {
		if jsonspan.Spells(name.Of(body), "messages") && body[value.From] == '[' {
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
	cut         jsonspan.Span // the member with the comma before it, or after it if it is the first
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
		case answers && !m.calls.value.Ok() && !j.beforeOutput(r):
			j.answer, j.end = append(j.answer, m), m.at.To
			j.join(&before)
		default:
			j.join(&before)
			before = m.at.To
		}
	}
	j.join(&before)
}

// message reads the message at r, and moves r past it. It returns false if that is not the
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
		if first != nil { // the comma after it goes
			first.cut.To, first = name.From-1, nil
		}
		is := func(want string) bool { return jsonspan.Spells(name.Of(j.b), want) }
		to := &m.content
		switch {
		case is("role"):
			if assistant || !spells(j.b, value, "assistant") {
				return m, false
			}
			assistant, to = true, nil
		case is("content"):
		case is("tool_calls"):
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
// after m, at r, are their outputs and no others. If so, it moves r past those.
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
	if !isOutput(j.b, v) {
		return false
	}
	text := jsonspan.MemberOf(j.b, v, "content")
	if text.Ok() && j.b[text.From] == '[' {
		text = j.onlyText(text)
	}
	if !spells(j.b, text, "completed") && !spells(j.b, text, "Error: interrupted") && !spells(j.b, text, "interrupted") {
		return false
	}
	v = jsonspan.MemberOf(j.b, v, "tool_call_id")
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
	if text := jsonspan.MemberOf(j.b, part, "text"); text.IsString(j.b) && spells(j.b, jsonspan.MemberOf(j.b, part, "type"), "text") {
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

// join writes the messages of the answer as one, if there is an answer. before is where
// the element before them ends, and becomes where they end.
func (j *joiner) join(before *int) {
	if len(j.answer) == 0 {
		return
	}
	first := &j.answer[0]
	if !first.more && !j.says() { // an empty message goes, with a comma
		to := j.end
		if j.b[*before-1] == '[' {
			if next := jsonspan.SkipSpace(j.b, to); j.b[next] == ',' {
				to = jsonspan.SkipSpace(j.b, next+1)
			}
			j.copyTo(first.at.From)
		} else {
			j.copyTo(*before)
		}
		j.at = to
	} else {
		content, calls := &first.content, &first.calls
		writeContent := func() {
			j.copyTo(content.value.From)
			j.writeContent()
			j.at = content.value.To
		}
		switch {
		case !content.value.Ok():
			j.copyTo(calls.name.From - 1)
			j.out = append(j.out, `"content":`...)
			j.writeContent()
			j.at = calls.value.To
		case content.value.From < calls.value.From:
			writeContent()
			j.copyTo(calls.cut.From)
			j.at = calls.cut.To
		default:
			j.copyTo(calls.cut.From)
			j.at = calls.cut.To
			writeContent()
		}
		j.copyTo(first.at.To)
		j.at = j.end
		*before = j.end
	}
	j.answer = j.answer[:0]
}

// copyTo copies the body up to the index to.
func (j *joiner) copyTo(to int) {
	if cap(j.out) < len(j.b) {
		j.out = make([]byte, 0, len(j.b))
	}
	if to > j.at { // the bytes before it may have gone
		j.out = append(j.out, j.b[j.at:to]...)
		j.at = to
	}
}

// says reports whether there is anything but white space in the answer.
func (j *joiner) says() bool {
	for i := range j.answer {
		c := j.answer[i].content.value
		if c.IsString(j.b) && jsonspan.HasText(c.Inner().Of(j.b)) {
			return true
		}
		for part := range jsonspan.Elements(j.b, c) {
			if text := j.textOf(part); !text.Ok() || jsonspan.HasText(text.Inner().Of(j.b)) {
				return true
			}
		}
	}
	return false
}

// writeContent writes the contents of the answer as one: a string or, if one of them is an
// array of parts, an array of all parts. A paragraph break keeps two texts apart if there
// is no newline between them: Open WebUI strips those that were there.
func (j *joiner) writeContent() {
	apart := true // what comes next needs no paragraph break before it
	write := func(text jsonspan.Span, newMessage bool) {
		in := text.Inner().Of(j.b)
		if len(in) == 0 {
			return
		}
		if r, _ := jsonspan.NextRune(in, 0); newMessage && !apart && r != '\n' {
			j.out = append(j.out, `\n\n`...)
		}
		j.out = append(j.out, in...)
		for i := 0; i < len(in); {
			var r rune
			r, i = jsonspan.NextRune(in, i)
			apart = r == '\n'
		}
	}
	isParts := func(m cardMessage) bool { return m.content.value.Ok() && j.b[m.content.value.From] == '[' }
	if !slices.ContainsFunc(j.answer, isParts) {
		j.out = append(j.out, '"')
		from := len(j.out)
		for i := range j.answer {
			if c := j.answer[i].content.value; c.IsString(j.b) {
				write(c, true)
			}
		}
		j.out = append(append(j.out[:from], trimSpace(j.out[from:])...), '"')
		return
	}
	comma := byte('[')
	for i := range j.answer {
		c, newMessage := j.answer[i].content.value, true
		if c.IsString(j.b) && len(c.Inner().Of(j.b)) > 0 {
			j.out = append(append(j.out, comma), `{"type":"text","text":"`...)
			write(c, true)
			j.out, comma = append(j.out, `"}`...), ','
		}
		for part := range jsonspan.Elements(j.b, c) {
			j.out, comma = append(j.out, comma), ','
			if text := j.textOf(part); text.Ok() {
				j.out = append(j.out, j.b[part.From:text.From+1]...)
				write(text, newMessage)
				j.out = append(j.out, j.b[text.To-1:part.To]...)
				newMessage = newMessage && text.To-text.From == len(`""`)
			} else {
				j.out = append(j.out, part.Of(j.b)...)
				apart, newMessage = true, false
			}
		}
	}
	if comma == '[' {
		j.out = append(j.out, comma)
	}
	j.out = append(j.out, ']')
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
