package whole

import (
	"bytes"
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

// mayHaveCards reports whether there may be cards in the request body, which is nested depth deep:
// as deep as the function of a call, which hardly any history without calls is, and there is a
// label, or an escape that may be a letter of one. It is cheap, and errs only by returning true.
func mayHaveCards(body []byte, depth int) bool {
	return depth >= len("{[{[{{") && (bytes.Contains(body, []byte("label")) || bytes.Contains(body, []byte(`\u006`)))
}

// joinCards returns body, valid JSON of a request, with the messages of each answer that has
// cards joined, and the number of cards. It returns body itself if there are none.
func joinCards(body []byte) ([]byte, int) {
	j := joiner{copier: copier{b: body}}
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
	ids    []string      // the ids of the calls of a message that no tool's message has answered
	room   []byte        // to decode a string
}

// cardMessage is a message by position.
type cardMessage struct {
	at, content, calls jsonspan.Span   // calls is absent if there are none
	texts              []jsonspan.Span // of content
	more               bool            // there are other members
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

// message reads the message at v. It returns false if that is not the assistant's, begins no
// answer and goes on with none, or is not of the form that the messages of an answer have.
func (j *joiner) message(v jsonspan.Span) (m cardMessage, ok bool) {
	var role jsonspan.Span
	m.at = v
	for name, value := range jsonspan.Members(j.b, v) {
		to := &role
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
	if Spells(j.b, role, "assistant") && (m.calls.Ok() || len(j.answer) > 0) {
		m.texts, ok = j.texts(m.content)
	}
	return m, ok
}

// texts returns the texts of the content at v: a string, or an array of parts. It returns false if
// there is anything else in it.
func (j *joiner) texts(v jsonspan.Span) (texts []jsonspan.Span, ok bool) {
	if v.IsString(j.b) {
		return []jsonspan.Span{v}, true
	}
	for part := range jsonspan.Elements(j.b, v) {
		text := jsonspan.MemberOf(j.b, part, "text")
		if !text.IsString(j.b) || !Spells(j.b, jsonspan.MemberOf(j.b, part, "type"), "text") {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, !v.IsSet(j.b) || j.b[v.From] == '['
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
		j.ids = append(j.ids, jsonspan.Unquote(string(id.Of(j.b))))
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

// Spells reports whether the value at v is the string want.
func Spells(b []byte, v jsonspan.Span, want string) bool {
	return v.IsString(b) && jsonspan.Spells(v.Inner().Of(b), want)
}

// isOutput reports whether the message at v is a tool's.
func isOutput(b []byte, v jsonspan.Span) bool {
	return Spells(b, jsonspan.MemberOf(b, v, "role"), "tool")
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
	id := jsonspan.MemberOf(j.b, v, "tool_call_id")
	texts, _ := j.texts(jsonspan.MemberOf(j.b, v, "content"))
	says := func(want string) bool { return Spells(j.b, texts[0], want) }
	if !isOutput(j.b, v) || !id.IsString(j.b) || len(texts) != 1 ||
		!slices.ContainsFunc([]string{"completed", "Error: interrupted", "interrupted"}, says) {
		return false
	}
	i := slices.Index(j.ids, jsonspan.Unquote(string(id.Of(j.b))))
	if i < 0 {
		return false
	}
	j.ids = slices.Delete(j.ids, i, i+1)
	return true
}

// join writes the messages of the answer as one, if there is an answer.
func (j *joiner) join() {
	if len(j.answer) == 0 {
		return
	}
	first := &j.answer[0]
	says := func(text jsonspan.Span) bool { return jsonspan.HasText(text.Inner().Of(j.b)) }
	isText := func(m cardMessage) bool { return slices.ContainsFunc(m.texts, says) }
	if !first.more && !slices.ContainsFunc(j.answer, isText) { // an empty message goes
		j.cutElement(j.before, first.at.From, j.end)
	} else {
		j.write(first)
		j.cut(first.at.To, j.end)
		j.before = j.end
	}
	j.answer = j.answer[:0]
}

// write writes the first message of the answer without its calls, and with all texts as its
// content. If it has no content, that takes the place of its calls.
func (j *joiner) write(first *cardMessage) {
	replace := func(from, to int, name string) {
		j.cut(from, to)
		j.out = append(j.appendText(append(j.out, name...)), '"')
	}
	end := 0 // where the member before ends
	for name, value := range jsonspan.Members(j.b, first.at) {
		switch {
		case value == first.content:
			replace(value.From, value.To, `"`)
		case value != first.calls:
		case first.content.Ok():
			j.cutElement(end, name.From-1, value.To)
		default:
			replace(name.From-1, value.To, `"content":"`)
		}
		end = value.To
	}
}

// appendText appends the texts of the answer as one, the inside of a JSON string, without white
// space at its ends: Open WebUI sends no answer with any, but of one with cards it trims only the last
// text. A paragraph break keeps two texts apart if there is no newline between them: Open WebUI
// strips those that were there.
func (j *joiner) appendText(dst []byte) []byte {
	from, end, newline := len(dst), len(dst), false
	for i := range j.answer {
		first := true
		for _, v := range j.answer[i].texts {
			in := v.Inner().Of(j.b)
			for at := 0; at < len(in); first = false {
				r, next := jsonspan.NextRune(in, at)
				if first && len(dst) > from && !newline && r != '\n' {
					dst = append(dst, prose.BreakInJSON...)
				}
				space := unicode.IsSpace(r)
				if !space || len(dst) > from {
					dst = append(dst, in[at:next]...)
				}
				if !space {
					end = len(dst)
				}
				newline, at = r == '\n', next
			}
		}
	}
	return dst[:end]
}
