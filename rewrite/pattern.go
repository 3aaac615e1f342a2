package rewrite

import (
	"math"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// pattern is the shape of a frame with text or reasoning: what stands before and
// behind its text, and what that says. The frames of an answer are alike but for
// their text, so that their JSON need not be read again: see Stream.like.
type pattern struct {
	around []byte // what stands before and, from tail on, behind the text
	*shape
	tail uint16

	known bool
	calm  bool // the frame before was like it, left as it came, and so may the next

	wait   uint8  // how many frames are not to be learnt
	unused uint16 // frames learnt in vain
	unread uint32 // frames that have left without being read
}

// shape is what frames that are alike have in common whatever they say: where
// their parts are, when their text is empty. The streams of one backend share
// it.
type shape struct {
	data, behind int  // where the data begins, and the bytes behind it
	text         int  // where the text is in the data
	reasoning    bool // the text is reasoning, in a member of its own
	drop         bool // without its text, which is content, nothing is lost
	c            chunk
}

// maxPattern is the length in bytes up to which what stands around the text is
// remembered.
const maxPattern = 1 << 10

// maxPatternWait is how many frames at most are let pass before one is learnt
// again in a stream whose frames are never alike.
const maxPatternWait = 64

// learnText remembers the frame s.f with the chunk s.c, whose text is at in of
// the data. It is false when it does not.
func (s *Stream) learnText(in jsonspan.Span, reasoning bool) bool {
	p, f := &s.pattern, &s.f
	if p.wait > 0 {
		p.wait--
		return false
	}
	at := f.At(0)
	from, to := at+in.From, at+in.To
	if from+len(f.Raw)-to > maxPattern {
		return false
	}
	if p.unused = min(p.unused, math.MaxUint16-1) + 1; p.unused > 8 {
		p.wait = uint8(min(p.unused, maxPatternWait))
	}
	if n := from + len(f.Raw) - to; cap(p.around) < n {
		p.around = make([]byte, 0, n)
	}
	p.around = append(append(p.around[:0], f.Raw[:from]...), f.Raw[to:]...)
	p.tail, p.known = uint16(from), true
	learnt := shape{at, len(f.Raw) - at - len(f.Data), in.From, reasoning, !reasoning && s.droppable(), s.c}
	learnt.c.reasoning, learnt.c.text = false, false
	learnt.c.move(in.From, in.From-in.To)
	p.shape = s.work.shared(&learnt)
	s.env.like = false
	return true
}

// match returns where the text is of the frame that b begins with, whether there
// is a newline in it, and where the frame ends. It is false when that frame is
// not like the pattern, or not complete.
func (p *pattern) match(b []byte) (in jsonspan.Span, newline bool, end int, ok bool) {
	from := int(p.tail)
	if !p.known || len(b) < from || string(b[:from]) != string(p.around[:from]) {
		return in, false, 0, false
	}
	to, newline, ok := jsonspan.ScanText(b, from)
	tail := p.around[from:]
	end = to + len(tail)
	if !ok || len(b) < end || string(b[to:end]) != string(tail) {
		return in, false, 0, false
	}
	p.unused, p.wait = 0, 0
	return jsonspan.Span{From: from, To: to}, newline, end, true
}

// move moves what stands behind the index i of the data by n bytes.
func (c *chunk) move(i, n int) {
	c.shut += n
	for _, v := range [...]*jsonspan.Span{
		&c.id, &c.object, &c.created, &c.model, &c.choices, &c.usage, &c.err, &c.tool, &c.emoji, &c.label, &c.callID,
		&c.status, &c.statusLine, &c.delta, &c.content, &c.contentKey, &c.thought, &c.role,
	} {
		if v.From > i {
			v.From += n
		}
		if v.To > i {
			v.To += n
		}
	}
}

// takeLike handles the next frame when it is like the pattern. It is false when
// it has to be looked for, and at.
func (s *Stream) takeLike() bool {
	p := &s.pattern
	if !p.known || !s.scan.Between() {
		return false
	}
	b := s.scan.Ahead()
	in, newline, n, ok := p.match(b)
	if !ok || n > s.scan.MaxFrame {
		return false
	}
	s.scan.Skip(n)
	s.out = s.framing.Next(s.out, sse.UnitFrame)
	s.like(b[:n], in, newline)
	return true
}

// like handles the frame raw, which is like the pattern with the text at in.
func (s *Stream) like(raw []byte, in jsonspan.Span, newline bool) {
	if s.alike(raw, in, newline) {
		s.out = append(s.out, raw...)
		return
	}
	s.sum.Frames++
	s.borrow()
	s.pattern.calm = false
	s.known = true
	s.edits.Reset()
	s.cuts, s.room = s.cuts[:0], s.room[:0]
	if !s.likeMarker(in.Of(raw)) {
		s.recognise(raw, in)
		s.object()
	}
}

// likeMarker starts a tool when the text of a frame like the pattern is its
// marker. Like alike it does what would be done without it.
func (s *Stream) likeMarker(text []byte) bool {
	p := &s.pattern
	c := &p.shape.c
	if s.said.shown || s.finished || s.done || !p.drop || !s.env.like {
		return false
	}
	m, ok := marker.Whole(text)
	if !ok {
		return false
	}
	s.sum.Chunks++
	s.begun |= c.begun
	t := s.markerComes(m, text)
	s.startDerived(&t, SourceMarker)
	s.framing.Drop()
	return true
}

// alike takes a frame that is like the one before it when its text is sure to stay
// and to be of no consequence beyond where its lines begin: it leaves as it is. What
// it does is what like would do, without a look at the chunk: TestAlikeChangesNothing.
func (s *Stream) alike(raw []byte, in jsonspan.Span, newline bool) bool {
	p := &s.pattern
	switch {
	case !p.calm:
		return false
	case p.reasoning, !newline && s.midLine(): // which changes nothing
	case marker.Begins(in.Of(raw)) >= 0 || !s.readLines(in.Of(raw)):
		return false
	}
	p.unread++
	s.sum.Frames++
	s.sum.Chunks++
	s.framing.ForwardWhole()
	return true
}

// Pass takes bytes of upstream's that leave as they are, all of them: the next
// frame of a stream whose frames are alike. It is false when they have to be fed,
// and has then done nothing. What it spares is to copy them.
func (s *Stream) Pass(in []byte) bool {
	p := &s.pattern
	if !p.calm || s.closed || s.framing.MarkWaits() || s.work != nil || !s.scan.Between() || len(s.scan.Tail()) > 0 || len(in) > s.scan.MaxFrame {
		return false
	}
	text, newline, n, ok := p.match(in)
	if !ok || n != len(in) || !s.alike(in, text, newline) {
		return false
	}
	return true
}

// recognise sets s.f and s.c to what they are for the frame raw, which is like
// the pattern with the text at in.
func (s *Stream) recognise(raw []byte, in jsonspan.Span) {
	p := &s.pattern
	s.f.SetData(raw, p.data, len(raw)-p.behind)
	s.c = p.c
	s.c.move(p.text, in.To-in.From)
	text := jsonspan.HasText(in.Of(raw))
	if p.reasoning {
		s.c.reasoning = text
	} else {
		s.c.text = text
	}
}

// learn remembers the frame s.f with the chunk s.c, when those that are like it
// differ in nothing but their text.
func (s *Stream) learn() {
	c, data := &s.c, s.f.Data
	if s.known || s.explains() || !s.f.OnlyData || s.f.Raw[len(s.f.Raw)-1] != '\n' || !c.index || c.other || c.repeat.Ok() || c.finish.Ok() || c.usage.IsSet(data) || c.err.IsSet(data) || c.hermes.Ok() || c.twins {
		return
	}
	switch {
	case c.content.Ok() && c.thoughts == 0:
		s.known = s.learnText(c.content.Inner(), false)
	case !c.content.Ok() && c.thoughts == 1:
		s.known = s.learnText(c.thought.Inner(), true)
	}
}

// calm notes that the frame s.f leaves as it came, and tells the pattern whether
// another like it will: text or reasoning like its own says nothing more than it
// has.
func (s *Stream) calm() {
	p := &s.pattern
	if !s.known { // nor was there a pattern, perhaps
		p.calm = false
		return
	}
	said := s.said.text && s.said.begun && s.said.sinceTool
	if p.reasoning {
		said = s.said.reasoning
	}
	p.calm = said && s.edits.Empty() && s.hasEnvelope() && !s.finished && !s.done &&
		len(s.tools.open) == 0 && !s.line.Active() && s.hold.empty() && s.tags.idle() && s.eat == 0 && !s.owed && len(s.lead) == 0
}
