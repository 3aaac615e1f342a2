package whole

import (
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Heal removes the marker lines of known tools from the content of the
// assistant's messages in body, the JSON of a request, and joins the messages of each
// answer that Open WebUI has taken apart for its cards (contract section 5). Every other
// byte stays. The healed body is a copy. If there is nothing to heal it is
// body itself.
//
// A content is a string, or an array of parts whose texts are those of the parts with the
// type text. If messages, content or text are there twice, Heal heals both, because
// servers differ in the one they use. If role, type or stream are there twice, the last
// one counts, as for most servers. A body passes untouched if it is not well-formed JSON
// in UTF-8, is nested deeper than jsonspan.MaxDepth, or has a lone surrogate in a marker.
func Heal(body []byte, tools *marker.Table) ([]byte, Healed) {
	h := healer{copier: copier{b: body}, tools: tools, escapes: mayEscapeTick(body)}
	marks := h.escapes || h.nextMark(body, 0) >= 0
	h.heals = marks && isJSON(body)
	h.request()
	valid := h.heals || !marks && (h.cards || h.req.Asked == AskedWhole) && isJSON(body)
	if h.req.Asked == AskedWhole && !valid { // deadlines would not run
		h.req = Healed{}
	}
	if h.cards && valid {
		if joined, n := joinCards(body, h.out); n > 0 { // a line, and a fence, may go on in the next text
			h = healer{copier: copier{b: joined, out: joined[:0]}, tools: h.tools, escapes: h.escapes, heals: true}
			h.request()
			if h.req.Cards = n; h.loneSurrogate { // joined has been overwritten
				body, _ = joinCards(body, joined)
			} else {
				body = joined
			}
		}
	}
	if h.loneSurrogate || h.req.Markers == 0 {
		h.req.Markers = 0
		return body, h.req
	}
	return h.rest(), h.req
}

// isJSON reports whether body is well-formed JSON in UTF-8.
func isJSON(body []byte) bool { return jsonspan.Valid(body) && utf8.Valid(body) }

// healer takes the marker lines out of a request's history, or out of one text. It goes
// over it once.
type healer struct {
	copier  // of JSON, or the inside of a string
	tools   *marker.Table
	escapes bool // there may be backticks that are written as escapes
	heals   bool // b is valid, and may have markers

	req           Healed // what has been read and removed so far
	cards         bool   // a message has tool calls that may be cards
	loneSurrogate bool   // a marker has a lone surrogate, which no text can have contained

	texts  []jsonspan.Span // the texts of a message
	before int             // where the element before the message ends, 0 if none is left
	left   bool            // there is more in the message than marker lines
}

// request reads the request b, and heals its messages. If b is not an object, or does not
// end with it, request leaves the zero value in h.req.
func (h *healer) request() {
	r := jsonspan.Reader{Data: h.b, Pos: jsonspan.SkipSpace(h.b, 0)}
	if !r.At('{') {
		return
	}
	h.req.Asked = AskedWhole
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		if !r.At('[') || !jsonspan.Spells(name.Of(h.b), "messages") {
			h.req.member(h.b, name.Of(h.b), r.Skip())
			continue
		}
		h.before = 0
		for r.Open(); r.Element(); {
			h.message(&r)
		}
	}
	if !r.AtEnd() {
		h.req = Healed{}
	}
}

// message heals the message at r if it is the assistant's, and moves r to its end. If
// nothing but marker lines was in it, it leaves, because providers refuse an empty message
// (contract section 5).
func (h *healer) message(r *jsonspan.Reader) {
	m, assistant := jsonspan.Span{From: r.Pos}, false
	if h.texts, h.left = h.texts[:0], false; cap(h.texts) > 256 { // of an unusual message
		h.texts = nil
	}
	if !r.At('{') {
		h.before = r.Skip().To
		return
	}
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		v := r.Skip()
		is := func(want string) bool { return jsonspan.Spells(name.Of(h.b), want) }
		switch {
		case is("role"):
			assistant = spells(h.b, v, "assistant")
		case is("content"):
			if h.heals {
				h.content(v)
			}
		case is("tool_calls"):
			h.cards = h.cards || mayBeCards(v.Of(h.b))
			h.left = h.left || chunk.Filled(v.Of(h.b))
		case !is("name") && !is("id"):
			h.left = h.left || chunk.Filled(v.Of(h.b))
		}
	}
	if m.To = r.Pos; !assistant || !h.heals {
		h.before = m.To
		return
	}
	start := h.before // the comma before the message leaves, too
	if start == 0 {
		start = m.From
	}
	kept, markers := len(h.out)+max(start-h.at, 0), h.req.Markers
	for _, t := range h.texts {
		h.text(t)
	}
	if h.req.Markers == markers || h.left || h.beforeOutput(m.To) {
		h.before = m.To
		return
	}
	h.out, h.at = h.out[:kept], m.To
	if h.before == 0 {
		h.at = nextElement(h.b, m.To)
	}
}

// content collects the texts of the content at v.
func (h *healer) content(v jsonspan.Span) {
	if v.IsString(h.b) {
		h.texts = append(h.texts, v.Inner())
		return
	}
	if h.b[v.From] != '[' {
		h.left = h.left || chunk.Filled(v.Of(h.b))
		return
	}
	for part := range jsonspan.Elements(h.b, v) {
		if !part.IsObject(h.b) {
			h.left = h.left || chunk.Filled(part.Of(h.b))
			continue
		}
		n := len(h.texts)
		for name, value := range jsonspan.Members(h.b, part) {
			switch {
			case !jsonspan.Spells(name.Of(h.b), "text"):
			case value.IsString(h.b):
				h.texts = append(h.texts, value.Inner())
			default:
				h.left = h.left || chunk.Filled(value.Of(h.b))
			}
		}
		if !spells(h.b, jsonspan.MemberOf(h.b, part, "type"), "text") {
			h.texts, h.left = h.texts[:n], true
		}
	}
}

// beforeOutput reports whether a tool's message follows the message that ends at to. If
// that message left, the output would answer the call of another.
func (h *healer) beforeOutput(to int) bool {
	next := nextElement(h.b, to)
	return next > to && isOutput(h.b, jsonspan.Span{From: next, To: len(h.b)})
}
