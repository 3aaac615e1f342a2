package chat

import (
	"bytes"
	"math"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// template is what a frame with text or reasoning looks like: the bytes before and behind
// its text, and what they say. Most frames of an answer differ in nothing but their text.
// If a frame matches the template, its JSON need not be parsed.
type template struct {
	around []byte // the bytes behind and, from head on, before the text
	*shape        // nil until one has been learnt
	head   uint16

	learnt      bool
	passes      bool // the frame before matched and left as it came, and so may the next
	afterMarker bool // markers have left the text since, and nothing has been said
	hasEnvelope bool // it has the values of the stream's envelope

	skip      uint8  // how many more frames are not learnt
	unmatched uint16 // how many frames have been learnt since one matched
	passed    uint32 // how many frames have passed unread
}

// shape is what all frames that match a template have in common: where their parts are if
// the text is empty. The streams of one backend share it.
type shape struct {
	data, behind int         // where the data begins, and how many bytes are behind it
	textFrom     int         // where the text begins in the data
	reasoning    bool        // the text is reasoning in a member of its own
	drop         bool        // the text is content, and without it the frame says nothing
	c            chunk.Chunk // the members
}

// MaxTemplate is the length in bytes of the longest template.
const MaxTemplate = 1 << 10

// MaxTemplateWait is the number of frames at most between two that are learnt, in a
// stream whose frames never match.
const MaxTemplateWait = 64

// learn makes the frame x the template, if another frame can differ from it in nothing
// but its text. It reports whether it has.
func (p *template) learn(x *chunk.Object, k *Work) bool {
	c, data := &x.C, x.F.Data
	if !x.F.OnlyData || x.F.Raw[len(x.F.Raw)-1] != '\n' || !c.FirstOnly || c.Other || c.Repeat.Ok() || c.Finish.Ok() || c.Usage.IsSet(data) || x.HasError() || c.Hermes.Ok() || c.MoreErrors {
		return false
	}
	in, reasoning := c.Content.Inner(), false
	switch {
	case c.Content.Ok() && c.ReasoningCount == 0:
	case !c.Content.Ok() && c.ReasoningCount == 1:
		in, reasoning = c.ReasoningValue.Inner(), true
	default:
		return false
	}
	if p.skip > 0 {
		p.skip--
		return false
	}
	raw, at := x.F.Raw, x.F.At(0)
	from, to := at+in.From, at+in.To
	n := from + len(raw) - to
	if n > MaxTemplate {
		return false
	}
	if p.unmatched = min(p.unmatched, math.MaxUint16-1) + 1; p.unmatched > 8 {
		p.skip = uint8(min(p.unmatched, MaxTemplateWait))
	}
	if cap(p.around) < n {
		p.around = make([]byte, 0, n)
	}
	p.around = append(append(p.around[:0], raw[to:]...), raw[:from]...)
	p.head, p.learnt, p.hasEnvelope = uint16(len(raw)-to), true, false
	shape := shape{at, len(raw) - at - len(data), in.From, reasoning, !reasoning && x.Droppable(), *c}
	shape.c.Reasoning, shape.c.Text = false, false
	shape.c.Move(in.From, in.From-in.To)
	p.shape = k.shared(&shape)
	return true
}

// match compares the frame at the beginning of b with the template. It returns false if
// the frame does not match or is not complete.
func (p *template) match(b []byte) (m Match, ok bool) {
	if !p.learnt || !bytes.HasPrefix(b, p.around[p.head:]) {
		return m, false
	}
	return p.matchRest(b)
}

// matchRest is match for b that begins like the template.
func (p *template) matchRest(b []byte) (m Match, ok bool) {
	from := len(p.around) - int(p.head)
	to, newline, ok := jsonspan.ScanText(b, from)
	on := bytes.HasPrefix(b[to:], p.around)
	if !ok || !on && !bytes.HasPrefix(b[to:], p.around[:p.head]) {
		return m, false
	}
	p.unmatched, p.skip = 0, 0
	return Match{to + int(p.head), jsonspan.Span{From: from, To: to}, newline, on}, true
}

// matchPlain compares the frames at the beginning of b, which begins like the template. It
// returns the length and the number of those that match, have at most most bytes and no
// escape in their texts, and have a frame behind them that begins like them: what most are.
func (p *template) matchPlain(b []byte, most int) (n, frames int) {
	for {
		from := n + len(p.around) - int(p.head)
		to := jsonspan.NextSpecial(b, from)
		end := to + int(p.head)
		if !bytes.HasPrefix(b[to:], p.around) || end-n > most || redact.MaySay(b[from:to]) {
			return n, frames
		}
		n = end
		frames++
	}
}

// expand makes x the frame raw, which matches the template with the text at in.
func (p *template) expand(x *chunk.Object, raw []byte, in jsonspan.Span) {
	x.Begin()
	x.Matched = true
	x.F.SetData(raw, p.data, len(raw)-p.behind)
	x.C = p.c
	x.C.Move(p.textFrom, in.To-in.From)
	text := jsonspan.HasText(in.Of(raw))
	if p.reasoning {
		x.C.Reasoning = text
	} else {
		x.C.Text = text
	}
}

// Unmatched records that the next frame does not match the template.
func (s *Stream) Unmatched() { s.template.passes = false }

// Match is a frame that matches the template, by position.
type Match struct {
	End     int           // the length of the frame
	in      jsonspan.Span // its text
	newline bool          // there is a newline in the text
	On      bool          // what is behind it begins like it
}

// Match compares the frame at the beginning of b with the template. It returns false if
// the frame does not match or is not complete.
func (s *Stream) Match(b []byte) (m Match, ok bool) { return s.template.match(b) }

// Pass handles the frame raw, which matches the template, if it is certain to leave as it
// is and to change nothing but where lines begin and, behind a marker, that tools end.
// Otherwise it does nothing and returns false. The caller writes raw. Pass does what Matched
// would do, without expanding the template: TestAlikeChangesNothing.
func (s *Stream) Pass(raw []byte, m *Match) bool {
	p := &s.template
	switch {
	case !p.passes, redact.MaySay(m.in.Of(raw)):
		return false
	case p.afterMarker:
		if !s.passAfterMarker(m.in.Of(raw)) {
			return false
		}
	case p.reasoning, !m.newline && s.text.prose.MidLine(): // no line begins
	case marker.Begins(m.in.Of(raw)) >= 0 || !s.text.prose.Skim(m.in.Of(raw), s.o.ToolTable()):
		return false
	}
	s.pass(1)
	return true
}

// passAfterMarker is Pass for a frame with the text behind markers. If the text says
// anything, it writes the ends of the tools.
func (s *Stream) passAfterMarker(text []byte) bool {
	if marker.Begins(text) >= 0 || !s.text.prose.SkimAfterMarker(text, s.o.ToolTable()) {
		return false
	}
	if jsonspan.HasText(text) {
		s.tools.inferEnds(&s.writer)
		s.tools.textSince, s.template.afterMarker = true, false
	}
	return true
}

// PassMore passes and writes the frames at the beginning of b, which follows a Match that
// goes On, as long as each matches the template and has at most most bytes. It returns
// their length, and the frame behind them if that matches as well.
func (s *Stream) PassMore(b []byte, most int) (n int, m Match, ok bool) {
	p := &s.template
	for {
		if p.reasoning || s.text.prose.MidLine() { // no line begins
			length, frames := p.matchPlain(b[n:], most)
			n += length
			s.pass(frames)
		}
		m, ok = p.matchRest(b[n:])
		if !ok || m.End > most || !s.Pass(b[n:n+m.End], &m) {
			break
		}
		n += m.End
		if ok = m.On; !ok {
			break
		}
	}
	s.Out.Bytes = append(s.Out.Bytes, b[:n]...)
	return n, m, ok && m.End <= most
}

// pass records that frames have passed.
func (s *Stream) pass(frames int) {
	s.template.passed += uint32(frames)
	s.Frames += frames
	s.chunks += frames
	s.Out.ForwardWhole()
}

// Matched handles the frame raw, which matches the template.
func (s *Stream) Matched(k *Work, raw []byte, m *Match) {
	p, x := &s.template, &k.Object
	s.Frames++
	passes := p.passes
	p.passes = false
	if text := m.in.Of(raw); p.drop && p.hasEnvelope && s.mayStartTool() && !s.end.done {
		if mk, ok := marker.Whole(text); ok { // nothing else has to be read
			x.Begin()
			s.chunks++
			s.end.begun |= p.c.Begun
			t := s.recordMarker(k, mk, text)
			s.startMarked(k, &t)
			s.Out.Drop()
			p.passes, p.afterMarker = passes, true
			return
		}
	}
	p.expand(x, raw, m.in)
	s.handle(k)
}

// mayPass records whether the next frame that matches the template may Pass, now that the
// one in k is about to leave: nothing waits, and more text or reasoning of the same kind
// changes no state.
func (h *handler) mayPass(k *Work) {
	p, t := &h.template, &h.text
	if !k.Object.Matched { // and p.shape may be nil
		p.passes = false
		return
	}
	recorded := t.hasText && h.tools.textSince && !t.noReply
	if p.reasoning {
		recorded = t.hasReasoning
	}
	p.afterMarker = false
	p.passes = recorded && k.Object.Edits.Empty() && h.hasEnvelope(&k.Object) && !h.end.finished && !h.end.done &&
		len(h.tools.open) == 0 && k.hold.empty() && t.prose.Idle(&k.reading, p.reasoning)
}
