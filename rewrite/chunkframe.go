package rewrite

import "bytes"

// chunkFrame handles the frame s.f with the chunk s.c.
func (s *Stream) chunkFrame() {
	c, data := &s.c, s.f.data
	s.sum.Chunks++
	if s.finished && s.failed && c.count > 0 {
		s.fate = fateDrop // nothing takes an error back
		return
	}
	if !s.usable() {
		s.forward()
		return
	}
	s.env.update(c, data)
	s.noteUsage()
	s.noteChoices()
	if s.isMarker() {
		return
	}
	if c.reasoning || c.other {
		s.settle()
	}
	if c.reasoning || c.text && s.o.Imitations != ImitationsTrust {
		s.inferEnds() // an agent that speaks waits for no tool
	}
	s.said.reasoning = s.said.reasoning || c.reasoning
	s.said.other = s.said.other || c.other
	if c.content.ok() && c.index {
		s.textFrame(c.content.inner())
		return
	}
	s.quietFrame()
}

// usable tells whether a chunk can be acted upon. One that will not be changed,
// and is as the one before it, is taken on trust.
func (s *Stream) usable() bool {
	c, data := &s.c, s.f.data
	if !c.finish.ok() && !c.usage.set(data) && !c.err.ok() && !c.hermes.ok() && s.eat == 0 && !s.line.active() && s.env.same(c, data) &&
		!hasBacktick(c.content.of(data)) {
		return true
	}
	return validJSON(data)
}

func hasBacktick(raw []byte) bool {
	return bytes.IndexByte(raw, '`') >= 0 || bytes.Contains(raw, []byte(`\u0060`))
}

// noteChoices notes which choices have begun and which have finished. Beyond
// the 64th they are taken to end with the others.
func (s *Stream) noteChoices() {
	for _, i := range s.c.seen {
		s.manyChoices = s.manyChoices || i != 0
		s.begun |= bit(i)
	}
	for _, i := range s.c.finished {
		s.ended |= bit(i)
	}
}

func bit(i int64) uint64 {
	if i < 0 || i > 63 {
		return 0
	}
	return 1 << i
}

// isMarker takes a chunk whose whole content is a tool marker out of the stream
// and starts the tool (contract section 1).
func (s *Stream) isMarker() bool {
	c := &s.c
	if s.said.shown || s.finished || !c.index || !c.content.ok() {
		return false
	}
	inner := c.content.inner()
	text := inner.of(s.f.data)
	m, ok := wholeMarker(text)
	if !ok {
		return false
	}
	s.settle()
	s.eat = min(s.eat, 1) // the marker's first newline ended the line before
	t := s.startedBy(m.emoji.of(text), m.label.of(text))
	s.sum.Markers++
	s.gap = true
	switch {
	case s.droppable():
		s.startDerived(&t)
		s.fate = fateDrop
	case c.finish.ok():
		s.startDerived(&t)
		s.edit(inner.from, inner.to, nil)
		s.writeChunk()
	default: // it may be the one with the role
		s.edit(inner.from, inner.to, nil)
		s.writeChunk()
		s.startDerived(&t)
	}
	return true
}

// droppable tells whether nothing is lost when the chunk is dropped once its
// content is gone.
func (s *Stream) droppable() bool {
	c := &s.c
	return s.f.plain && c.alone && c.index && !c.finish.ok() &&
		!c.usage.set(s.f.data) && !c.err.ok() && !c.hermes.ok()
}

// writeChunk writes the chunk with its edits.
func (s *Stream) writeChunk() {
	if s.c.finish.ok() {
		s.finishFrame()
		return
	}
	s.errorInside()
	s.writeEdited()
}

// errorInside deals with the error in a chunk that does not finish the stream,
// as gateways send it: it is upstream's, and is not said twice.
func (s *Stream) errorInside() {
	s.redactError()
	if s.c.err.set(s.f.data) && !s.finished {
		s.noteError()
	}
}

// quietFrame handles a chunk without text for the message.
func (s *Stream) quietFrame() {
	c := &s.c
	if c.text { // of another choice
		s.said.text, s.said.sinceTool = true, true
		s.inferEnds()
	}
	if !s.hold.empty() && !c.finish.ok() && !c.extra && !c.text && !c.reasoning && !c.other && !c.err.ok() && c.count <= 1 {
		s.forwardQuiet(s.f.raw)
		return
	}
	s.settle()
	s.writeChunk()
}

// textFrame takes imitations out of the content at in and writes the chunk, or
// holds it back.
func (s *Stream) textFrame(in span) {
	if s.c.finish.ok() && in.ok() {
		s.completeAll() // not between a line that is held and its end
	}
	s.spoke = false
	s.readText(in)
	if s.c.finish.ok() || s.c.err.ok() {
		s.closeLine(in)
	}
	if len(s.trusted) > 0 && !s.line.active() && s.droppable() {
		s.fate = fateDrop
		s.writeTrusted(in)
		return
	}
	s.startTrusted()
	if s.line.active() {
		s.holdFrame(in)
		return
	}
	s.writeText(in)
}

// writeText writes the chunk without what was cut out of its content at in.
func (s *Stream) writeText(in span) {
	if in.ok() && textLeft(in, s.cuts) == 0 && s.droppable() {
		s.fate = fateDrop
		return
	}
	s.cutText(s.cuts)
	s.writeChunk()
}

// closeLine decides the line under suspicion: neither a finish chunk nor an
// error waits.
func (s *Stream) closeLine(in span) {
	switch {
	case !s.line.active():
	case s.line.complete():
		s.cutLine(in, in.to, in.to)
	default:
		s.clearLine()
	}
}

// holdFrame keeps the chunk back. Its content is at in, and the last line of it
// may be an imitation.
func (s *Stream) holdFrame(in span) {
	shift := s.f.at(in.from) - in.from // a JSON string is never broken by a line
	for i := range s.cuts {
		s.cuts[i].from += shift
		s.cuts[i].to += shift
	}
	moved := s.hold.addText(s.f.raw, span{in.from + shift, in.to + shift}, s.cuts, s.droppable())
	if s.lineHere {
		s.line.from += shift + moved
		s.lineHere = false
	}
	s.fate = fateHold
	s.boundHold()
}
