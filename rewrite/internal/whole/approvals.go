package whole

import (
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Histories repeat the paragraphs that ask for approvals, and the replies to them. Neither the
// address of a page nor a code in them may reach a model (contract section 5).

// unasked returns text, the inside of a JSON string, without the paragraphs that ask for
// approvals, and the number of these. around says that the blank lines around a paragraph, which
// the sidecar has put there, go with it. If no blank line is left between two texts, one stays.
func unasked(text []byte, around bool) (rest []byte, n int) {
	if !marker.MayAsk(text) {
		return text, 0
	}
	at := 0 // text[:at] is in rest, or removed
	for {
		from, to := marker.FindApproval(text, at)
		if from < 0 {
			break
		}
		if around {
			from, to = widen(text, at, from, to)
		}
		rest, at = append(rest, text[at:from]...), to
		n++
	}
	if n == 0 {
		return text, 0
	}
	return append(rest, text[at:]...), n
}

// widen returns text[from:to] with at most two newlines on either side, of which none is before
// at. If no other newline keeps two texts apart, it leaves out those of the side with more of
// them.
func widen(text []byte, at, from, to int) (int, int) {
	var before []int // where the newlines begin that end at from
	for i := at; i < from; {
		r, next := jsonspan.NextRune(text, i)
		if before = append(before, i); r != '\n' {
			before = before[:0]
		}
		i = next
	}
	end, after := to, 0
	r := '\n' // what follows
	for end < len(text) {
		var next int
		if r, next = jsonspan.NextRune(text, end); r != '\n' || after == 2 {
			break
		}
		end, after = next, after+1
	}
	begin, n := from, len(before)
	if n > 0 {
		begin = before[max(0, n-2)]
	}
	switch apart := end == len(text) || r == '\n' || n > 2 || begin == 0; {
	case apart:
		return begin, end
	case after > n:
		return begin, to
	}
	return from, end
}

// reply returns the word of m without its code, if m is a reply of the user's and a paragraph came
// before it. Otherwise it returns nil: without a paragraph, the same words may be about something
// else.
func (h *healer) reply(m *message) []byte {
	if h.approvals == 0 || !Spells(h.b, m.role, "user") || len(h.texts) != 1 {
		return nil
	}
	return marker.Word(h.texts[0].Of(h.b))
}

// forget takes the paragraphs out of the texts of m, a message that is not the assistant's, and
// the code out of a reply.
func (h *healer) forget(m *message) {
	if !h.asks {
		return
	}
	if word := h.reply(m); word != nil {
		h.cut(h.texts[0].From, h.texts[0].To)
		h.out = append(h.out, word...)
		h.approvals++
		return
	}
	for _, v := range h.texts {
		if rest, n := unasked(v.Of(h.b), false); n > 0 {
			h.cut(v.From, v.To)
			h.out = append(h.out, rest...)
			h.approvals += n
		}
	}
}

// replyIn returns the text of the last message in body, without the white space around it, if the
// message is a reply to a request for approval, and otherwise "".
func replyIn(body []byte) string {
	text, ok := lastOfUser(body)
	if !ok || marker.Word(text) == nil {
		return ""
	}
	return strings.TrimSpace(string(jsonspan.AppendText(nil, text)))
}

// lastOfUser returns the text of the last message in body, the inside of a JSON string. It returns
// false if that is not the user's, or has other content than a string or one part of text.
func lastOfUser(body []byte) (text []byte, ok bool) {
	var last jsonspan.Span
	for m := range jsonspan.Elements(body, jsonspan.MemberOf(body, object(body), "messages")) {
		last = m
	}
	if !last.IsObject(body) || !Spells(body, jsonspan.MemberOf(body, last, "role"), "user") {
		return nil, false
	}
	content := jsonspan.MemberOf(body, last, "content")
	n := 0
	for part := range jsonspan.Elements(body, content) {
		if content = jsonspan.MemberOf(body, part, "text"); !Spells(body, jsonspan.MemberOf(body, part, "type"), "text") {
			return nil, false
		}
		n++
	}
	if n > 1 || !content.IsString(body) {
		return nil, false
	}
	return content.Inner().Of(body), true
}
