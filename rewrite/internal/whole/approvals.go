package whole

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Histories repeat the paragraphs that ask for approvals, and the replies to them. Neither the
// address of a page nor a code in them may reach a model (contract section 5).

// secrets are the codes and the tickets that answer requests for approval.
type secrets struct {
	given         map[string]bool     // of the client; the value says that a reply with the code is waited for
	found         map[string]struct{} // in the paragraphs of the body
	marker.Finder                     // of both
}

func (s *secrets) known(secret []byte) bool {
	if _, ok := s.given[string(secret)]; ok {
		return true
	}
	_, ok := s.found[string(secret)]
	return ok
}

func (s *secrets) add(secret []byte) {
	if s.found == nil {
		s.found = map[string]struct{}{}
	}
	if !s.known(secret) {
		s.found[string(secret)] = struct{}{}
	}
}

// inPlaceOfSecret stands where a secret was in a text that goes on. It keeps the text around the
// secret from becoming another one.
const inPlaceOfSecret = "…"

// withoutApprovals returns text, the inside of a JSON string, without the paragraphs that ask for
// approvals and without the secrets that it repeats, and the number of these. around says that the
// blank lines around a paragraph, which the sidecar has put there, go with it. If no blank line is
// left between two texts, one stays.
func (s *secrets) withoutApprovals(text []byte, around bool) (rest []byte, n int) {
	rest, n = withoutApprovals(text, around)
	if len(s.given)+len(s.found) == 0 {
		return rest, n
	}
	rest, secrets := replace(rest, inPlaceOfSecret, s.Find)
	return rest, n + secrets
}

// withoutApprovals returns text without the paragraphs, and their number.
func withoutApprovals(text []byte, around bool) (rest []byte, n int) {
	if !marker.MayAsk(text) {
		return text, 0
	}
	return replace(text, "", func(text []byte, i int) (from, to int) {
		from, to = marker.FindApproval(text, i)
		if from >= 0 && around {
			from, to = widen(text, i, from, to)
		}
		return from, to
	})
}

// replace returns text with the given one in place of each range that find finds from an index on, and
// the number of ranges. If there are none, it returns text itself.
func replace(text []byte, with string, find func(text []byte, i int) (from, to int)) (rest []byte, n int) {
	at := 0 // text[:at] is in rest, or replaced
	for from, to := find(text, 0); from >= 0; from, to = find(text, at) {
		if n == 0 {
			rest = make([]byte, 0, len(text))
		}
		rest, at = append(append(rest, text[at:from]...), with...), to
		n++
	}
	if n == 0 {
		return text, 0
	}
	return append(rest, text[at:]...), n
}

// widen returns text[from:to], a paragraph, with the white space that is left of its line, and at
// most two newlines on either side, of which none is before at. If no other newline keeps two texts
// apart, it leaves out those of the side with more of them.
func widen(text []byte, at, from, to int) (int, int) {
	var before []int // where the newlines begin that end at from
	indent := at     // where the white space begins that ends at from, if a newline precedes it, or else -1
	for i := at; i < from; {
		r, next := jsonspan.NextRune(text, i)
		switch {
		case r == '\n' && indent < i:
			before, indent = append(before[:0], i), next
		case r == '\n':
			before, indent = append(before, i), next
		case r != ' ' && r != '\t':
			before, indent = before[:0], -1
		}
		i = next
	}
	if indent >= 0 {
		from = indent
	}
	if end := lineEnd(text, to); end >= 0 {
		to = end
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

// lineEnd returns where the line ends at text[i:], or -1 if more than white space is left of it.
func lineEnd(text []byte, i int) int {
	for i < len(text) {
		r, next := jsonspan.NextRune(text, i)
		switch {
		case r == '\n':
			return i
		case r != ' ' && r != '\t':
			return -1
		}
		i = next
	}
	return i
}

// reply returns the text of m that is a reply of the user's, and its word. The word is nil if there
// is none. A reply whose code is not known counts only after a paragraph: elsewhere the same words
// may be about something else.
func (h *healer) reply(m *message) (at jsonspan.Span, word []byte) {
	for _, v := range h.texts {
		switch {
		case !jsonspan.HasText(v.Of(h.b)):
		case at.Ok():
			return at, nil // it says more
		default:
			at = v
		}
	}
	if !at.Ok() || m.role.Ok() && !Spells(h.b, m.role, "user") {
		return at, nil
	}
	r, ok := marker.ReadReply(at.Of(h.b))
	if !ok || !h.known([]byte(r.Code)) && (!r.Exact || !h.afterParagraph && h.approvals == 0) {
		return at, nil
	}
	return at, r.Word
}

// forget takes the paragraphs and the secrets out of the texts of m, a message that is not the
// assistant's, and all but the word out of a reply.
func (h *healer) forget(m *message) {
	if !h.mayHaveApprovals {
		return
	}
	if at, word := h.reply(m); word != nil {
		h.cut(at.From, at.To)
		h.out = append(h.out, word...)
		h.approvals++
		return
	}
	for _, v := range h.texts {
		if rest, n := h.withoutApprovals(v.Of(h.b), false); n > 0 {
			h.cut(v.From, v.To)
			h.out = append(h.out, rest...)
			h.approvals += n
		}
	}
}

// Reply is what the last message of a chat says about an approval. It is the zero value for most
// messages. Messages after it that say nothing to the agent do not count: those of the system, and
// empty ones of the assistant.
type Reply struct {
	// Code is the code in the message, as it was shown: K7QF-2M9D.
	Code string
	// IsReply says that the message is a reply and nothing else: approve or deny, and the code. Case,
	// white space, dashes, and punctuation around do not matter (contract section 5). Otherwise the
	// message has, among other words, the code of an approval that waits.
	IsReply bool
	// Approve says that the reply approves.
	Approve bool
}

// replyIn returns what the last message in body says. given are the secrets of the client.
func replyIn(body []byte, given map[string]bool) (r Reply) {
	text, before, alone := lastOfUser(body)
	if alone {
		said, ok := marker.ReadReply(ownWords(text))
		if _, known := given[said.Code]; ok && (said.Exact || known) {
			return Reply{said.Code, true, said.Approve}
		}
	}
	code := waitingCode(text, given, true)
	if code == "" {
		// Open WebUI lets models name a chat that it quotes, paragraphs and all, in a chat of its own:
		// what waits in another chat is no matter there.
		if code = waitingCode(text, given, false); code != "" && !hasParagraph(body[:before], code) {
			code = ""
		}
	}
	return Reply{Code: code}
}

// waitingCode returns the first code in text that waits, "" if there is none. outside says that
// paragraphs that ask do not count.
func waitingCode(text []byte, given map[string]bool, outside bool) (code string) {
	if outside {
		text, _ = withoutApprovals(text, false)
	}
	f := marker.Finder{Known: func(secret []byte) bool {
		if given[string(secret)] {
			code = string(secret)
		}
		return code != ""
	}}
	f.Find(text, 0)
	return code
}

// hasParagraph reports whether a paragraph in b, JSON, asks for a reply with the code.
func hasParagraph(b []byte, code string) (found bool) {
	marker.Secrets(b, func(secret []byte) { found = found || string(secret) == code })
	return found
}

// ownWords returns the part of text that the user has written: Open WebUI puts what it has found, in
// documents or in the web, in front of that. A relay written in Go or PHP spells tags with escapes.
func ownWords(text []byte) []byte {
	text = jsonspan.Plain(text)
	if i := bytes.LastIndex(text, []byte("<user_query>")); i >= 0 {
		query, _, _ := bytes.Cut(text[i+len("<user_query>"):], []byte("</user_query>"))
		return query
	}
	if i := bytes.LastIndex(text, []byte("</context>")); i >= 0 {
		return text[i+len("</context>"):]
	}
	return text
}

// lastOfUser returns the text of the last message in body, the inside of a JSON string, and where
// the message begins. There is none if the message is not the user's. Messages after it that say
// nothing to the agent do not count: those of the system, and empty ones of the assistant. alone
// says that the message has nothing but its text.
func lastOfUser(body []byte) (text []byte, from int, alone bool) {
	var last jsonspan.Span
	for m := range jsonspan.Elements(body, jsonspan.MemberIn(body, "messages")) {
		role := jsonspan.MemberOf(body, m, "role")
		is := func(want string) bool { return Spells(body, role, want) }
		switch {
		case is("system"), is("developer"), is("assistant") && saysNothing(body, m):
		case is("user"):
			last = m
		default:
			last = jsonspan.Span{}
		}
	}
	if !last.Ok() {
		return nil, 0, false
	}
	text, alone = textIn(body, last)
	return text, last.From, alone
}

// textIn returns the text of the message at v, the inside of a JSON string, with a newline between parts. alone says
// that its content has nothing else.
func textIn(b []byte, v jsonspan.Span) (text []byte, alone bool) {
	content := jsonspan.MemberOf(b, v, "content")
	if content.IsString(b) {
		return content.Inner().Of(b), true
	}
	text, alone = make([]byte, 0, content.To-content.From), true
	for part := range jsonspan.Elements(b, content) {
		switch in := textOf(b, part); {
		case !in.IsString(b):
			alone = alone && isEmpty(b, part)
		case len(text) == 0:
			text = append(text, in.Inner().Of(b)...)
		case in.Inner().Ok():
			text = append(append(text, `\n`...), in.Inner().Of(b)...)
		}
	}
	return text, alone
}

// saysNothing reports whether the assistant's message at v has neither text nor calls.
func saysNothing(b []byte, v jsonspan.Span) bool {
	text, alone := textIn(b, v)
	return alone && !jsonspan.HasText(text) && !chunk.Filled(jsonspan.MemberOf(b, v, "tool_calls").Of(b))
}

// isEmpty reports whether the part at v, which has no text, says nothing.
func isEmpty(b []byte, v jsonspan.Span) bool {
	return isText(b, v) && !chunk.Filled(jsonspan.MemberOf(b, v, "text").Of(b)) || !chunk.Filled(v.Of(b))
}
