package prose

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Split takes the reasoning between tags out of a complete text. It returns the content
// that is left, the reasoning, and the number of its stretches. All texts are insides of
// JSON strings. State.Read does the same text by text.
//
// Split leaves marker lines of the tools in the content. The caller will remove them, so
// that a message may open behind one. Nil tools mean that no marker lines are removed.
func Split(text []byte, tools *marker.Table) (content, reasoning []byte, stretches int) {
	s := splitter{text: text, tools: tools}
	for i := 0; i < len(text); {
		i = s.step(i)
	}
	if s.tags.settle() {
		s.endStretch(s.tagFrom)
	} else {
		s.endStretch(len(text))
	}
	return s.content, s.reasoning, s.stretches
}

// splitter separates a text.
type splitter struct {
	text  []byte
	tags  tags
	fence Fence         // of the content
	tools *marker.Table // nil to leave marker lines
	line  marker.Line   // room to read one

	inside  bool // the current stretch is reasoning
	from    int  // where the current stretch begins
	tagFrom int  // where what may be a tag begins

	content, reasoning []byte
	hasReasoning       bool // the reasoning has a non-space character
	stretches          int
}

// step reads the rune at i, and returns the index to go on at.
func (s *splitter) step(i int) int {
	r, next := jsonspan.NextRune(s.text, i)
	maybe := s.tags.matched > 0
	if to, ok := s.markerLine(r, next); ok {
		s.tags.boundary()
		return to
	}
	switch s.tags.step(r, s.fence.Open()) {
	case stepText:
		s.sent(r)
	case stepSpace:
		s.from = next
	case stepMaybe:
		if !maybe {
			s.tagFrom = i
		}
	case stepTag:
		s.endStretch(s.tagFrom)
		s.inside, s.from = s.tags.inside, next
		if s.inside {
			s.stretches++
		}
	case stepClosed:
		s.endStretch(s.tagFrom)
		s.inside, s.from = false, i
		return i
	case stepNot:
		if !s.inside {
			s.sent('<') // in place of all that has come, which makes no fence
		}
		return i
	}
	return next
}

// markerLine reports whether the rune r, which ends at next, begins the marker line of a
// tool, and returns where the next line begins.
func (s *splitter) markerLine(r rune, next int) (to int, ok bool) {
	if r != '`' || s.tools == nil || s.tags.inside || s.tags.matched > 0 || !s.fence.LineStart() || s.fence.Open() {
		return 0, false
	}
	return s.line.ReadWhole(s.text, next, s.tools)
}

// endStretch ends the current stretch at to.
func (s *splitter) endStretch(to int) {
	stretch := s.text[s.from:to]
	if !s.inside {
		s.content = append(s.content, stretch...)
		return
	}
	s.reasoning = AppendReasoning(s.reasoning, stretch, s.hasReasoning)
	s.hasReasoning = s.hasReasoning || jsonspan.HasText(stretch)
}

// AppendReasoning appends a stretch of reasoning to the reasoning before it. hasText says
// that there is a non-space character in that. Then a paragraph break keeps the two apart
// (contract section 4).
func AppendReasoning(before, stretch []byte, hasText bool) []byte {
	if hasText && len(stretch) > 0 {
		before = append(before, BreakInJSON...)
	}
	return append(before, stretch...)
}

// sent records that the rune r is content.
func (s *splitter) sent(r rune) {
	s.tags.sent(r)
	s.fence.Step(r)
}
