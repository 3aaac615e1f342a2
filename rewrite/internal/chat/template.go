package chat

import (
	"math"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// template is what a frame with text or reasoning looks like: what stands before and
// behind its text, and what that says. The frames of an answer are alike but for
// their text, so that their JSON need not be read again.
type template struct {
	around []byte // what stands before and, from tail on, behind the text
	*shape        // set if learnt
	tail   uint16

	learnt      bool
	passes      bool // the frame before was like it, left as it came, and so may the next
	hasEnvelope bool // it has the values of the stream's envelope

	skip      uint8  // how many frames are not to be learnt
	unmatched uint16 // frames learnt in vain
	passed    uint32 // frames that have left without being read
}

// shape is what frames that are alike have in common whatever they say: where
// their parts are, when their text is empty. The streams of one backend share
// it.
type shape struct {
	data, behind int  // where the data begins, and the bytes behind it
	textFrom     int  // where the text is in the data
	reasoning    bool // the text is reasoning, in a member of its own
	drop         bool // without its text, which is content, nothing is lost
	c            chunk.Chunk
}

// MaxTemplate is the length in bytes up to which what stands around the text is
// remembered.
const MaxTemplate = 1 << 10

// MaxTemplateWait is how many frames at most are let pass before one is learnt
// again in a stream whose frames are never alike.
const MaxTemplateWait = 64

// learn remembers the frame x, if those that are like it differ in nothing but their
// text. It reports whether it has.
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
	p.around = append(append(p.around[:0], raw[:from]...), raw[to:]...)
	p.tail, p.learnt, p.hasEnvelope = uint16(from), true, false
	shape := shape{at, len(raw) - at - len(data), in.From, reasoning, !reasoning && x.Droppable(), *c}
	shape.c.Reasoning, shape.c.Text = false, false
	shape.c.Move(in.From, in.From-in.To)
	p.shape = k.shared(&shape)
	return true
}

// match returns where the text is of the frame that b begins with, whether there
// is a newline in it, and where the frame ends. It returns false if that frame is
// not like the template, or not complete.
func (p *template) match(b []byte) (in jsonspan.Span, newline bool, end int, ok bool) {
	from := int(p.tail)
	if !p.learnt || len(b) < from || string(b[:from]) != string(p.around[:from]) {
		return in, false, 0, false
	}
	to, newline, ok := jsonspan.ScanText(b, from)
	tail := p.around[from:]
	end = to + len(tail)
	if !ok || len(b) < end || string(b[to:end]) != string(tail) {
		return in, false, 0, false
	}
	p.unmatched, p.skip = 0, 0
	return jsonspan.Span{From: from, To: to}, newline, end, true
}

// expand makes x the frame raw, which is like the template with the text at in.
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

// Unlike records that the frame that comes is not like the one before it.
func (s *Stream) Unmatched() { s.template.passes = false }

// Match returns where the text is of the frame that b begins with and where the frame
// ends, if that frame is like the one before but for its text.
func (s *Stream) Match(b []byte) (m Match, ok bool) {
	m.in, m.newline, m.End, ok = s.template.match(b)
	return m, ok
}

// Match is a frame that is like the one before it but for its text.
type Match struct {
	End     int // its length
	in      jsonspan.Span
	newline bool
}

// Pass takes a frame that is like the one before it, and reports whether its text is sure
// to stay and to be of no consequence beyond where its lines begin: it leaves as it is.
// What it does is what Like would do, without a look at the chunk: TestAlikeChangesNothing.
func (s *Stream) Pass(raw []byte, m *Match) bool {
	p := &s.template
	switch {
	case !p.passes:
		return false
	case p.reasoning, !m.newline && s.text.prose.MidLine(): // which changes nothing
	case marker.Begins(m.in.Of(raw)) >= 0 || !s.text.prose.Skim(m.in.Of(raw), s.o.ToolTable()):
		return false
	}
	p.passed++
	s.Frames++
	s.chunks++
	s.Out.ForwardWhole()
	return true
}

// Like handles the frame raw, which is like the one before it.
func (s *Stream) Matched(k *Work, raw []byte, m *Match) {
	p, x := &s.template, &k.Object
	s.Frames++
	p.passes = false
	if text := m.in.Of(raw); p.drop && p.hasEnvelope && s.mayStartTool() && !s.end.done {
		if mk, ok := marker.Whole(text); ok { // nothing else has to be read
			x.Begin()
			s.chunks++
			s.end.begun |= p.c.Begun
			t := s.recordMarker(k, mk, text)
			s.startMarked(k, &t)
			s.Out.Drop()
			return
		}
	}
	p.expand(x, raw, m.in)
	s.handle(k)
}

// mayPass records that the frame x leaves as it came, and tells the template whether
// another like it will: text or reasoning like its own says nothing more than it has.
func (h *handler) mayPass(k *Work) {
	p, t := &h.template, &h.text
	if !k.Object.Matched { // nor was there a template, perhaps
		p.passes = false
		return
	}
	said := t.hasText && h.tools.textSince
	if p.reasoning {
		said = t.hasReasoning
	}
	p.passes = said && k.Object.Edits.Empty() && h.hasEnvelope(&k.Object) && !h.end.finished && !h.end.done &&
		len(h.tools.open) == 0 && k.hold.empty() && t.prose.Idle(&k.reading, p.reasoning)
}
