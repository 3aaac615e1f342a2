// Package whole repairs bodies that come whole: the history that a request carries (wire
// contract, section 5), and an answer that is not streamed (sections 1, 3 and 4).
//
//	history.go  Heal: messages that are healed, and those that leave
//	text.go     the marker lines of a text
//	copier.go   JSON without the parts that are cut
//	cards.go    the messages of an answer that Open WebUI has taken apart, joined
//	answer.go   RepairAnswer: content, reasoning, failures and secrets of an answer
//
// It holds no state. A body that needs no repair is returned as it is, without a copy.
// Heal validates a body only if it may have a marker or a card, or if the caller asks for it.
// RepairAnswer validates the answer, and copies it if something changes.
package whole

import (
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Healed is the body of a request without the marker lines and the cards of its history.
type Healed struct {
	Body           []byte // a copy, or the body itself if nothing was removed
	Markers, Cards int    // the numbers of those that were removed
}

// Heal heals the history in body, the JSON of a request (contract section 5). A
// jsonspan.Reader has read body as an object that is nested depth deep. sound reports whether
// body is well formed, but is only certain if there may be anything to heal or if check is true.
//
// A content is a string, or an array of parts whose texts are those of the parts with the
// type text. If messages, content or text are there twice, Heal heals both, because
// servers differ in the one they use. If role or type are there twice, the last one counts,
// as for most servers. A body passes untouched if it is not well-formed JSON in UTF-8, is
// nested deeper than jsonspan.MaxDepth, or has a lone surrogate in a marker.
func Heal(body []byte, tools *marker.Table, depth int, check bool) (h Healed, sound bool) {
	h.Body = body
	marks, cards := mayHaveMarkers(body, tools), mayHaveCards(body, depth)
	if !marks && !cards && !check {
		return h, false
	}
	if !jsonspan.ValidAt(body, depth) || !utf8.Valid(body) {
		return h, false
	}
	if cards {
		h.Body, h.Cards = joinCards(body)
	}
	if !marks {
		return h, true
	}
	s := stripper{copier: copier{b: h.Body}, tools: tools}
	if h.Cards > 0 { // which makes room for the only copy
		s.out = h.Body[:0]
	}
	s.messages()
	if s.loneSurrogate {
		return Healed{Body: body}, true
	}
	h.Body, h.Markers = s.rest(), s.markers
	return h, true
}

// stripper takes the marker lines out of the assistant's messages of a request, or out of
// one text. It goes over it once.
type stripper struct {
	copier  // of valid JSON, or the inside of a string
	tools   *marker.Table
	markers int // the number of those that were removed

	loneSurrogate bool // a marker has a lone surrogate, which no text can have contained

	texts  []jsonspan.Span // the texts of a message
	before int             // where the element before the message ends, 0 if none is left
	left   bool            // there is more in the message than marker lines
}

// messages strips the messages of a request.
func (s *stripper) messages() {
	r := jsonspan.Reader{Data: s.b, Pos: object(s.b).From}
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		if !r.At('[') || !jsonspan.Spells(name.Of(s.b), "messages") {
			r.Skip()
			continue
		}
		s.before = 0
		for r.Open(); r.Element(); {
			if r.At('{') {
				s.message(&r)
			} else {
				s.before = r.Skip().To
			}
		}
	}
}

// message moves r past a message, and strips it if it is the assistant's. If nothing but marker
// lines was in it, it leaves, because providers refuse an empty message, but not before a tool's
// message, which would then answer the call of another.
func (s *stripper) message(r *jsonspan.Reader) {
	m, before, assistant := jsonspan.Span{From: r.Pos}, s.before, false
	s.texts, s.left = s.texts[:0], false
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		v := r.Skip()
		is := func(want string) bool { return jsonspan.Spells(name.Of(s.b), want) }
		switch {
		case is("role"):
			assistant = Spells(s.b, v, "assistant")
		case is("content"):
			s.content(v)
		case !is("name") && !is("id"):
			s.left = s.left || chunk.Filled(v.Of(s.b))
		}
	}
	m.To, s.before = r.Pos, r.Pos
	if !assistant {
		return
	}
	start, next := before, m.To // the comma before the message leaves, too, or the one after it
	if before == 0 {
		start, next = m.From, nextElement(s.b, m.To)
	}
	kept, markers := len(s.out)+max(start-s.at, 0), s.markers
	for _, t := range s.texts {
		s.text(t)
	}
	if after := nextElement(s.b, m.To); s.markers == markers || s.left || after > m.To && isOutput(s.b, jsonspan.Span{From: after, To: len(s.b)}) {
		return
	}
	s.out, s.at, s.before = s.out[:kept], next, before
}

// content collects the texts of the content at v.
func (s *stripper) content(v jsonspan.Span) {
	if v.IsString(s.b) {
		s.texts = append(s.texts, v.Inner())
		return
	}
	s.left = s.left || s.b[v.From] != '[' && chunk.Filled(v.Of(s.b))
	for part := range jsonspan.Elements(s.b, v) {
		if !Spells(s.b, jsonspan.MemberOf(s.b, part, "type"), "text") {
			s.left = s.left || chunk.Filled(part.Of(s.b))
			continue
		}
		for name, value := range jsonspan.Members(s.b, part) {
			switch {
			case !jsonspan.Spells(name.Of(s.b), "text"):
			case value.IsString(s.b):
				s.texts = append(s.texts, value.Inner())
			default:
				s.left = true
			}
		}
	}
}
