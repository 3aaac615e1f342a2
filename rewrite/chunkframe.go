package rewrite

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// chunkFrame handles the frame s.f with the chunk s.c.
func (s *Stream) chunkFrame() {
	c, data := &s.c, s.f.Data
	s.sum.Chunks++
	if s.finished && s.failed && c.count > 0 {
		s.note(contract.SectionEnd, "behind the error finish nothing takes it back: dropped")
		s.framing.Drop()
		return
	}
	s.stays = s.passes(c.content.Of(data))
	s.learn()
	s.rest = kept{}
	s.updateEnvelope()
	s.noteChoices()
	s.noteUsage()
	if s.isMarker() {
		return
	}
	if (c.reasoning || c.other) && !s.says() {
		s.settle()
	}
	if c.reasoning || c.text && s.o.Imitations != ImitationsTrust {
		s.inferEnds() // an agent that speaks waits for no tool
	}
	s.said.reasoning = s.said.reasoning || c.reasoning
	if c.other {
		s.said.other, s.said.sinceTool = true, true
	}
	switch {
	case s.hasText():
		s.textFrame(c.content.Inner())
	case c.count == 1 && !c.index && !c.finish.Ok() && !c.err.IsSet(data):
		s.otherChoice()
	default:
		s.quietFrame()
	}
}

// says tells whether the chunk says something that is looked at.
func (s *Stream) says() bool { return s.hasText() && s.c.content.Inner().Ok() }

// jsonspan.HasText tells whether the chunk has content of the choice that is looked at.
func (s *Stream) hasText() bool { return s.c.content.Ok() && s.c.index }

// passes tells whether content is sure to be text that stays: it has no backtick
// and no < in it, nothing is held, and no reasoning is under way.
func (s *Stream) passes(content []byte) bool {
	return s.eat == 0 && !s.line.Active() && s.tags.idle() && !hasSigns(content)
}

// hasSigns tells whether the inside of a JSON string has a backtick or a <, with
// which markers and tags begin, as they are or escaped.
func hasSigns(raw []byte) bool {
	if bytes.IndexByte(raw, '`') >= 0 || bytes.IndexByte(raw, '<') >= 0 {
		return true
	}
	for {
		i := bytes.Index(raw, []byte(`\u00`))
		if i < 0 {
			return false
		}
		raw = raw[i+len(`\u00`):]
		for _, end := range []string{`60`, `3c`, `3C`} {
			if bytes.HasPrefix(raw, []byte(end)) {
				return true
			}
		}
	}
}

// noteChoices notes which choices have begun and which have finished.
func (s *Stream) noteChoices() {
	s.manyChoices = s.manyChoices || s.c.further
	s.begun |= s.c.begun
	s.ended |= s.c.ended
}

// allEnded tells whether all choices that have begun have finished.
func (s *Stream) allEnded() bool { return s.begun&^s.ended == 0 }

// isMarker takes a chunk whose whole content is a tool marker out of the stream
// and starts the tool (contract section 1).
func (s *Stream) isMarker() bool {
	c := &s.c
	if s.said.shown || s.finished || !c.index || !c.content.Ok() {
		return false
	}
	inner := c.content.Inner()
	text := inner.Of(s.f.Data)
	m, ok := marker.Whole(text)
	if !ok {
		return false
	}
	t := s.markerComes(m, text)
	switch {
	case s.droppable():
		s.startDerived(&t, SourceMarker)
		s.framing.Drop()
	case c.finish.Ok():
		s.startDerived(&t, SourceMarker)
		s.keepNothing(inner)
		s.writeChunk()
	default: // it may be the one with the role
		s.keepNothing(inner)
		s.writeChunk()
		s.startDerived(&t, SourceMarker)
	}
	return true
}

// markerComes notes that the marker m leaves the text, and returns the tool that
// it stands for.
func (s *Stream) markerComes(m marker.Marker, text []byte) toolFields {
	s.settle()
	s.note(contract.SectionMarkers, "a tool marker, the whole content of one chunk: leaves the text")
	s.owes()
	s.sum.Markers++
	return s.startedBy(m.Emoji.Of(text), m.Label.Of(text))
}

// owes notes that a marker goes with its newlines, of which one has to keep the
// texts around it apart.
func (s *Stream) owes() {
	switch {
	case s.owed:
		s.eat = 0 // the marker's first newline ended the line before
	case s.eat > 0:
		s.eat = 1 // and so here, where one has left before that line
	default:
		s.owed = s.said.begun
	}
}

// droppable tells whether nothing is lost when the chunk is dropped once its
// content is gone.
func (s *Stream) droppable() bool {
	c := &s.c
	return s.f.OnlyData && c.alone && c.index && !c.extra && !c.twins && !c.more && !c.finish.Ok() &&
		!c.usage.IsSet(s.f.Data) && !c.err.IsSet(s.f.Data) && !c.hermes.Ok()
}

// writeChunk writes the chunk with its edits.
func (s *Stream) writeChunk() {
	if s.c.finish.Ok() {
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
	if s.c.err.IsSet(s.f.Data) && !s.finished {
		s.noteError()
	}
}

// otherChoice handles a chunk of another choice than the one that is looked at.
// It says nothing about what that holds back, and does not wait for it.
func (s *Stream) otherChoice() {
	s.otherText()
	s.writeChunk()
}

// otherText notes the text of a chunk that has none of the choice that is looked
// at: it is another's.
func (s *Stream) otherText() {
	if s.c.text {
		s.said.text, s.said.sinceTool = true, true
		s.inferEnds()
	}
}

// quietFrame handles a chunk without text for the message.
func (s *Stream) quietFrame() {
	c := &s.c
	s.otherText()
	switch quiet := !c.finish.Ok() && !c.extra && !c.twins && !c.errors && !c.text && !c.reasoning && !c.other && !c.err.IsSet(s.f.Data) && !c.hermes.Ok() && c.count <= 1; {
	case !quiet:
		s.settle()
	case !s.hold.empty():
		s.forwardQuiet(s.f.Raw)
		return
	}
	s.calm()
	s.writeChunk()
}

// textFrame takes imitations and reasoning out of the content at in and writes
// the chunk, or holds it back.
func (s *Stream) textFrame(in jsonspan.Span) {
	if s.c.finish.Ok() && in.Ok() {
		s.completeAll(s.willFail()) // not between a line that is held and its end
	}
	s.parts, s.stretches, s.growth = s.parts[:0], 0, maxGrowth-s.tools.cost(s.endSize())
	s.begin(in.From, s.tags.inside).breaks = s.breaks
	if s.stays {
		s.readPlain(in.Of(s.f.Data))
	} else {
		s.readText(in)
	}
	if s.c.finish.Ok() || s.c.err.IsSet(s.f.Data) || s.c.reasoning || s.c.acts {
		s.closeLine(in)
		s.decideClosing(in)
	} else {
		s.keepClosing(in)
	}
	s.splitMarkers(in)
	p, k := s.writeParts(in)
	if s.line.Active() {
		if s.owed && s.lineHere {
			k.front = newlineInJSON
		}
		s.holdFrame(in, k)
		return
	}
	s.writeText(in, k, p.reasoning)
}

// writeText writes the chunk with nothing of its content at in but k. Reasoning
// gets a delta of its own (contract section 4).
func (s *Stream) writeText(in jsonspan.Span, k kept, reasoning bool) {
	left := k.left()
	if reasoning && left > 0 {
		s.note(contract.SectionReasoning, "reasoning: leaves the content")
	}
	if reasoning && left > 0 && !s.renamable() {
		if s.o.Reasoning != ReasoningDrop {
			s.writeDelta(true, k)
		}
		k, left = nothing(in), 0
	}
	if in.Ok() && left == 0 && s.droppable() {
		s.writeLF() // of the parts that have left
		s.framing.Drop()
		return
	}
	s.rest = k
	s.keep(in, k, reasoning && left > 0)
	s.calm()
	s.writeChunk()
}

// renamable tells whether the chunk may leave with its content as reasoning.
func (s *Stream) renamable() bool {
	c := &s.c
	return s.o.Reasoning != ReasoningDrop && c.bare && !c.finish.Ok() && !c.err.IsSet(s.f.Data)
}

// closeLine decides the line under suspicion: neither a finish chunk nor an
// error waits, nor what else the model does.
func (s *Stream) closeLine(in jsonspan.Span) {
	switch {
	case !s.line.Active():
	case s.line.Complete():
		s.cutLine(in, in.To)
		s.eat++ // its own newline is yet to come
	default:
		s.clearLine()
	}
}

// holdFrame keeps the chunk back with nothing of its content at in but k, whose
// last line may be an imitation, or a tag.
func (s *Stream) holdFrame(in jsonspan.Span, k kept) {
	if s.line.Phase == marker.InTag {
		s.note(contract.SectionReasoning, "may be a tag: held back")
	} else {
		s.note(contract.SectionMarkers, "may be an imitated marker: held back to the end of the line")
	}
	s.writeLF() // of the parts that have left
	s.keep(in, k, false)
	s.redactError()
	start := s.hold.size()
	held := func(v jsonspan.Span) jsonspan.Span {
		return jsonspan.Span{From: start + s.edits.MovedBefore(&s.f, v.From), To: start + s.edits.Moved(&s.f, v.To)}
	}
	h := heldFrame{text: held(in), drop: s.droppable()}
	if s.c.repeat.Ok() {
		h.repeat = held(s.c.repeat.Inner())
	}
	if s.lineHere {
		s.line.From = start + s.edits.Moved(&s.f, s.line.From)
		if s.owed {
			s.line.From -= len(k.front) // which goes with the line
		}
		s.lineHere = false
	}
	s.hold.buf = s.edits.Append(s.hold.buf, &s.f)
	s.hold.addText(h)
	s.framing.Hold()
	s.boundHold()
}
