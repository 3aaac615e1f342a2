package rewrite

// trusted is a tool whose marker was an imitation that is taken for a real one
// (ImitationsTrust).
type trusted struct {
	tool  tool
	spoke bool // text stands between it and the one before, or the frame's beginning
	cuts  int  // how many cuts stand before what follows the marker
}

// startTrusted starts the tools that are trusted, without regard to where their
// markers were in the frame, and completes those that its text completes.
func (s *Stream) startTrusted() {
	since := s.said.sinceTool // what the frame says, of which nothing has been written
	for i := range s.trusted {
		t := &s.trusted[i]
		if t.spoke {
			s.inferEnds()
		}
		s.startDerived(&t.tool)
	}
	if s.spoke {
		s.inferEnds()
	}
	s.trusted = s.trusted[:0]
	s.said.sinceTool = since
}

// writeTrusted writes a chunk whose content, at in, has markers in it that are
// trusted: the text before each, the start of its tool, the text behind it.
// For that the chunk is written more than once, each time with a part of its
// content.
func (s *Stream) writeTrusted(in span) {
	since := s.said.sinceTool
	from, done := in.from, 0
	for i := range s.trusted {
		t := &s.trusted[i]
		cuts := s.cuts[done:t.cuts]
		to := in.from // of a marker that began in the hold
		if len(cuts) > 0 {
			to = cuts[len(cuts)-1].to
		}
		s.writePart(in, span{from, to}, cuts, t.spoke)
		s.startDerived(&t.tool)
		from, done = max(from, to), t.cuts
	}
	s.trusted = s.trusted[:0]
	s.said.sinceTool = since
	s.writePart(in, span{from, in.to}, s.cuts[done:], s.spoke)
}

// writePart writes the chunk with the content at part, less the cuts, and
// nothing when that is empty.
func (s *Stream) writePart(in, part span, cuts []span, spoke bool) {
	if spoke {
		s.inferEnds()
	}
	if textLeft(part, cuts) <= 0 {
		return
	}
	s.edits = s.edits[:0]
	s.edit(in.from, part.from, nil)
	s.cutText(cuts)
	s.edit(part.to, in.to, nil)
	s.writeEdited()
}
