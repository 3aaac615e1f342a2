package rewrite

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// takesTags tells whether reasoning between tags is taken out of the text
// (contract section 4).
func (s *Stream) takesTags() bool { return s.o.Reasoning != ReasoningKeep }

// readTag follows the rune r at text[i:next] of the content at in as far as tags
// go. It is false when the rune is content, or to be looked at again.
func (s *Stream) readTag(in jsonspan.Span, i, next int, r rune) (at int, taken bool) {
	inside := s.tags.inside
	switch s.tags.step(r, s.fence.open() || r == '<' && !s.mayOpen(in)) {
	case stepReasoning:
		if !jsonspan.IsSpace(r) {
			s.thought()
		}
	case stepSpace:
		s.note(contract.SectionReasoning, "white space behind a closing tag: goes")
		s.cut(i, next)
	case stepMaybe:
		if inside {
			s.suspectClosing(in, i)
		} else {
			s.suspectOpening(i)
		}
	case stepTag:
		if inside {
			s.closeThought(in, next)
		} else {
			s.openThought(in, next)
		}
	case stepClosed:
		s.closeThought(in, i)
		return i, true
	case stepNot:
		if inside {
			s.clearClosing()
		} else {
			s.clearLine()
		}
		return i, true
	default:
		return i, false
	}
	return next, true
}

// thought notes that reasoning with a non-space character leaves, or is dropped.
func (s *Stream) thought() {
	if s.o.Reasoning == ReasoningDrop {
		s.said.dropped = true
	} else {
		s.said.reasoning = true
	}
	s.spoken()
}

// maxStretches is how many stretches of reasoning at most are taken out of one chunk
// (contract section 4).
const maxStretches = 64

// mayOpen tells whether one more stretch of reasoning may be taken out of the
// content at in: it and the text behind it get chunks of their own.
func (s *Stream) mayOpen(in jsonspan.Span) bool {
	return s.tags.inside || s.stretches < maxStretches && s.growth >= 2*s.partSize(in)
}

// broken returns reasoning that begins a stretch behind another with a paragraph
// break in front of it (contract section 4).
func (s *Stream) broken(reasoning []byte) []byte {
	return s.added(append(append(s.room, breakInJSON...), reasoning...))
}

// suspectOpening holds back what may be an opening tag.
func (s *Stream) suspectOpening(i int) {
	if s.line.Active() {
		s.line.Size++
		return
	}
	s.line.Start(i, marker.InTag)
	s.lineHere = true
	s.eat = 0
}

// openThought cuts the opening tag that ends at next and begins reasoning.
func (s *Stream) openThought(in jsonspan.Span, next int) {
	from := in.From
	if s.lineHere {
		from = s.line.From
	}
	s.cut(from, next)
	s.out = s.hold.strip(s.out, s.line.From)
	s.line.Phase, s.lineHere = marker.None, false
	s.sum.Reasoning++
	s.stretches++
	s.growth -= 2 * s.partSize(in)
	s.note(contract.SectionReasoning, "an opening tag: reasoning begins, the tag goes")
	s.begin(next, true).breaks = s.said.reasoning
}

// suspectClosing notes that what may be a closing tag goes on at i.
func (s *Stream) suspectClosing(in jsonspan.Span, i int) {
	if !s.closing.Ok() { // where it began in a frame before, that is the start
		s.closing = jsonspan.Span{From: i, To: in.To}
	}
}

// closingFrom returns where, in the content at in, that begins: at its start
// when it did in a frame before.
func (s *Stream) closingFrom(in jsonspan.Span) int {
	if s.closing.Ok() {
		return s.closing.From
	}
	return in.From
}

// clearClosing notes that it is none: it is reasoning.
func (s *Stream) clearClosing() {
	s.lead, s.pending = append(s.lead, s.pending...), s.pending[:0]
	s.closing = jsonspan.Span{}
	s.thought()
}

// closeThought cuts the closing tag, which ends at to, and goes on with text.
func (s *Stream) closeThought(in jsonspan.Span, to int) {
	s.cut(s.closingFrom(in), to)
	s.note(contract.SectionReasoning, "a closing tag: reasoning ends, the tag goes")
	s.pending, s.closing = s.pending[:0], jsonspan.Span{}
	s.begin(to, false)
}

// keepClosing takes what may be a closing tag out of the content at in, until
// more is known. No frame is held for it: it is reasoning, or nothing.
func (s *Stream) keepClosing(in jsonspan.Span) {
	if !s.tags.pending() {
		return
	}
	s.note(contract.SectionReasoning, "may be a closing tag: held back")
	from := s.closingFrom(in)
	s.cut(from, in.To)
	s.pending = append(s.pending, s.f.Data[from:in.To]...)
	s.closing = jsonspan.Span{}
}

// decideClosing decides what may be a closing tag at the end of the content at
// in: neither a finish chunk nor an error waits.
func (s *Stream) decideClosing(in jsonspan.Span) {
	switch {
	case !s.tags.pending():
	case s.tags.settle():
		s.closeThought(in, in.To)
	default:
		s.clearClosing()
	}
}

// takeLead returns the reasoning from frames before that goes in front.
func (s *Stream) takeLead() []byte {
	lead := s.lead
	s.lead = s.lead[:0]
	return lead
}

// settleThought decides what may be a closing tag as if the text ended here.
func (s *Stream) settleThought() {
	if !s.tags.pending() {
		return
	}
	if !s.tags.settle() {
		s.thought()
		if s.o.Reasoning != ReasoningDrop {
			said := s.pending
			if s.breaks {
				s.breaks, said = false, s.broken(said)
			}
			s.writeOwn(nil, nil, true, kept{front: said})
		}
	}
	s.pending = s.pending[:0]
}
