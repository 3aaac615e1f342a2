package rewrite

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// part is a stretch of a chunk's content that is all text or all reasoning.
// Where a tag stands between two, or a marker that is trusted, the chunk is
// taken apart: clients that get both in one delta drop one of them.
type part struct {
	from      int        // where it begins in the data
	cuts      int        // how many cuts stand before it
	reasoning bool       // it stood between tags
	spoke     bool       // a non-space character is in it, or in what has left since the part before
	newline   bool       // one that is owed goes in front of it
	breaks    bool       // it begins a stretch of reasoning behind another, and nothing of it has left
	starts    bool       // a tool starts before it
	tool      toolFields // of this one
}

// kept is what is left of a chunk's content: a part of it without the cuts, and
// what goes in front of it.
type kept struct {
	jsonspan.Span
	cuts  []jsonspan.Span
	front []byte
}

// newlineInJSON and breakInJSON are a newline and a paragraph break, inside a JSON
// string.
var newlineInJSON, breakInJSON = []byte(`\n`), []byte(`\n\n`)

// left returns how many bytes are.
func (k kept) left() int {
	n := len(k.front) + k.To - k.From
	for _, c := range k.cuts {
		n -= c.To - c.From
	}
	return n
}

// appendTo appends it to dst. It stands in data.
func (k kept) appendTo(dst, data []byte) []byte {
	dst = append(dst, k.front...)
	at := k.From
	for _, c := range k.cuts {
		dst = append(dst, data[at:c.From]...)
		at = c.To
	}
	return append(dst, data[at:k.To]...)
}

// begin begins a part at the index from of the data.
func (s *Stream) begin(from int, reasoning bool) *part {
	s.parts = append(s.parts, part{from: from, cuts: len(s.cuts), reasoning: reasoning})
	return &s.parts[len(s.parts)-1]
}

// cut takes data[from:to] out of the part under way. Cuts come in order; what
// one leaves no byte before the next is one.
func (s *Stream) cut(from, to int) {
	n := len(s.cuts)
	switch {
	case from >= to:
	case n > s.parts[len(s.parts)-1].cuts && s.cuts[n-1].To == from:
		s.cuts[n-1].To = to
	default:
		if n == maxIdleItems { // there will be many: room for all of them, once
			s.cuts = slices.Grow(s.cuts, (len(s.f.Data)-from)/len("a`💻 x`"))
		}
		s.cuts = append(s.cuts, jsonspan.Span{From: from, To: to})
	}
}

// spoken notes that a non-space character leaves.
func (s *Stream) spoken() {
	if n := len(s.parts); n > 0 {
		s.parts[n-1].spoke = true
	}
}

// kept returns what is left of the part i of the content at in.
func (s *Stream) kept(in jsonspan.Span, i int) kept {
	k := kept{Span: jsonspan.Span{From: s.parts[i].from, To: in.To}, cuts: s.cuts[s.parts[i].cuts:]}
	if i+1 < len(s.parts) {
		k.To = s.parts[i+1].from
		k.cuts = s.cuts[s.parts[i].cuts:s.parts[i+1].cuts]
	}
	return k
}

// writeParts writes the content at in but for the last part that has anything
// in it, which it returns: with that the chunk itself leaves.
func (s *Stream) writeParts(in jsonspan.Span) (last part, k kept) {
	n := len(s.parts)
	for n > 1 && !s.parts[n-1].starts && s.kept(in, n-1).left() == 0 {
		n--
	}
	since := s.said.sinceTool // what the frame says, of which nothing has been written
	for i := range s.parts[:n] {
		p := &s.parts[i]
		if p.starts {
			s.startDerived(&p.tool, SourceImitation)
		}
		if p.spoke {
			s.inferEnds()
		}
		k = s.kept(in, i) // what follows the last is cut
		k.front = s.frontOf(p, k)
		if i < n-1 {
			s.writePart(in, p, k)
		}
	}
	last = s.parts[n-1]
	s.breaks = s.parts[len(s.parts)-1].breaks
	if n > 1 {
		s.said.sinceTool = since
	}
	return last, k
}

// frontOf returns what goes in front of the part p, of which k is left.
func (s *Stream) frontOf(p *part, k kept) []byte {
	lead := s.takeLead()
	switch {
	case p.newline:
		return newlineInJSON
	case p.breaks && k.left()+len(lead) > 0:
		p.breaks = false
		return s.broken(lead)
	}
	return lead
}

// writePart writes one part of several: as a copy of the chunk where nothing
// else is in that, and nothing large, or as a chunk of our own.
func (s *Stream) writePart(in jsonspan.Span, p *part, k kept) {
	if p.reasoning && k.left() > 0 {
		s.note(contract.SectionReasoning, "reasoning: leaves the content")
	}
	if k.left() == 0 || p.reasoning && s.o.Reasoning == ReasoningDrop {
		return
	}
	if !s.copies(in) {
		s.writeDelta(p.reasoning, k)
		return
	}
	s.edits.Reset()
	s.keep(in, k, p.reasoning)
	s.writeEdited()
}

// copies tells whether parts of the content at in leave as copies of the chunk.
func (s *Stream) copies(in jsonspan.Span) bool {
	return s.droppable() && len(s.f.Raw)-(in.To-in.From) <= maxEnvelope
}

// writeDelta writes a chunk of our own with what is kept of the chunk s.c. The
// chunk's role comes first, and comes again only in the chunk itself.
func (s *Stream) writeDelta(reasoning bool, k kept) {
	role := s.c.role
	s.c.role = jsonspan.Span{}
	s.writeOwn(role.Of(s.f.Data), s.c.repeat.Of(s.f.Data), reasoning, k)
}

// writeOwn writes a chunk of our own with what is kept of the frame s.f. Where
// upstream repeats the content, it does.
func (s *Stream) writeOwn(role, repeat []byte, reasoning bool, k kept) {
	s.writeLF()
	s.out = append(s.out, "data: {"...)
	s.out = append(s.envelope().appendHead(s.out), `[{"index":0,`...)
	if len(repeat) > 0 && !reasoning {
		s.out = append(s.out, `"text":"`...)
		s.out = append(k.appendTo(s.out, s.f.Data), `",`...)
	}
	s.out = append(s.out, `"delta":{`...)
	if len(role) > 0 {
		s.out = append(append(append(s.out, `"role":`...), role...), ',')
	}
	if reasoning {
		s.out = append(s.out, `"reasoning_content":"`...)
	} else {
		s.out = append(s.out, `"content":"`...)
	}
	s.out = k.appendTo(s.out, s.f.Data)
	s.out = append(s.out, "\"},\"finish_reason\":null}]}\n\n"...)
}

// keep adds the edits that leave nothing of the content at in but k, and have it be
// reasoning. Where the chunk repeats its content, the repeat follows.
func (s *Stream) keep(in jsonspan.Span, k kept, reasoning bool) {
	shift := s.c.repeat.From - s.c.content.From
	if s.c.repeat.Ok() && shift < 0 { // edits are cheapest in order
		s.keepRepeat(in, k, reasoning, shift)
	}
	if reasoning {
		s.edits.Replace(&s.f, s.c.contentKey.From, s.c.contentKey.To, []byte("reasoning_content"))
	}
	s.keepAt(in, k, 0)
	if s.c.repeat.Ok() && shift > 0 {
		s.keepRepeat(in, k, reasoning, shift)
	}
}

// keepRepeat does to the repeat what keep does to the content: of reasoning
// nothing stays.
func (s *Stream) keepRepeat(in jsonspan.Span, k kept, reasoning bool, shift int) {
	if reasoning {
		k = nothing(in)
	}
	s.keepAt(in, k, shift)
}

// keepNothing adds the edits that leave nothing of the content at in.
func (s *Stream) keepNothing(in jsonspan.Span) { s.keep(in, nothing(in), false) }

// nothing returns nothing of the content at in.
func nothing(in jsonspan.Span) kept { return kept{Span: jsonspan.Span{From: in.To, To: in.To}} }

// manyCuts is the number of cuts from which on what is left of a content is written
// anew: an edit of each takes more memory than the text.
const manyCuts = 64

// keepAt adds the edits that leave nothing but k, for a copy of the content at in
// that stands shift bytes further on.
func (s *Stream) keepAt(in jsonspan.Span, k kept, shift int) {
	cut := func(from, to int, with []byte) {
		if from < to || len(with) > 0 {
			s.edits.Replace(&s.f, from+shift, to+shift, with)
		}
	}
	if n := len(k.cuts); n > manyCuts {
		head := k
		head.To = k.cuts[n-1].To
		s.edits.Replace(&s.f, in.From+shift, head.To+shift, s.added(head.appendTo(slices.Grow(s.room, head.left()), s.f.Data)))
		cut(k.To, in.To, nil)
		return
	}
	cut(in.From, k.From, k.front)
	for _, c := range k.cuts {
		cut(c.From, c.To, nil)
	}
	cut(k.To, in.To, nil)
}
