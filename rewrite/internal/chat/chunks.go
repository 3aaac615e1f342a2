package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// chunk handles a chunk.
func (s *Stream) chunk() {
	x, t := &s.x, &s.text
	c := &x.C
	s.chunks++
	s.rest = prose.Kept{}
	switch {
	case s.end.finished && s.end.failed && c.Count > 0:
		s.dropLate()
		return
	case s.repeatsOutput():
		s.notes.Add(contract.SectionTools, "the output of a card that leaves with the end of its tool: dropped")
		s.Out.Drop()
		return
	}
	s.updateEnvelope()
	s.end.update(x)
	if c.Tokens.Counts {
		s.usage.report(s.w.Model())
	}
	if s.markerChunk() {
		return
	}
	if (c.Reasoning || c.Other) && !(c.HasContent() && c.Content.Inner().Ok()) {
		s.decideHeld()
	}
	if c.Reasoning || c.Text && s.o.Imitations != contract.ImitationsTrust {
		s.apply(s.tools.inferEnds()) // an agent that speaks does not wait for a tool
	}
	t.hasReasoning = t.hasReasoning || c.Reasoning
	if c.Other {
		t.hasOther, s.tools.textSince = true, true
	}
	if !c.HasContent() {
		s.chunkWithoutContent()
		return
	}
	if c.Finish.Ok() && c.Content.Inner().Ok() { // now, not between a held line and its end
		s.apply(s.tools.endAll(s.willFail()))
	}
	last := c.Finish.Ok() || x.HasError() || c.Reasoning || c.Calls // these wait for no text
	if s.readContent(last) {
		s.learn()
		s.writeChunk()
	}
}

// chunkWithoutContent handles a chunk without content of the first choice. A chunk of
// another choice decides nothing about held text, and does not wait for it.
func (s *Stream) chunkWithoutContent() {
	x := &s.x
	c := &x.C
	if c.Text {
		s.text.hasText, s.tools.textSince = true, true
		s.apply(s.tools.inferEnds())
	}
	switch another := c.Count == 1 && !c.FirstOnly && !c.Finish.Ok() && !x.HasError(); {
	case another:
		s.writeChunk()
		return
	case c.Finish.Ok(), c.Extra, c.MoreErrors, c.ChoiceErrors, c.Text, c.Reasoning, c.Other, x.HasError(), c.Hermes.Ok(), c.Count > 1:
		s.decideHeld()
	case !s.hold.empty():
		s.Quiet(x.F.Raw)
		return
	}
	s.learn()
	s.writeChunk()
}

// writeChunk writes the chunk with its edits. Some gateways send an error in a chunk
// without a finish reason. An error finish will not repeat that.
func (s *Stream) writeChunk() {
	x := &s.x
	if x.C.Finish.Ok() {
		s.finishChunk()
		return
	}
	if x.HasError() {
		s.recordError()
	}
	s.w.Object(x)
}

// markerChunk handles a chunk whose whole content is a tool marker: the marker leaves the
// stream, and its tool starts (contract section 1). It returns false for any other chunk.
func (s *Stream) markerChunk() bool {
	x := &s.x
	if s.tools.upstream || s.end.finished || !x.C.HasContent() {
		return false
	}
	text := x.Value(x.C.Content.Inner())
	m, ok := marker.Whole(text)
	if !ok {
		return false
	}
	s.decideHeld()
	s.notes.Add(contract.SectionMarkers, "a tool marker, the whole content of one chunk: leaves the text")
	s.text.prose.DropMarker()
	s.text.markers++
	start := func() {
		s.startMarked(m.Emoji.Of(text), m.Label.Of(text), contract.SourceMarker)
		s.text.prose.BeginMessage()
	}
	switch {
	case x.Droppable():
		start()
		s.Out.Drop()
	case x.C.Finish.Ok():
		start()
		x.DropContent()
		s.writeChunk()
	default: // it may have the role
		x.DropContent()
		s.writeChunk()
		start()
	}
	return true
}
