package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// chunk handles a chunk.
func (s *Stream) chunk() {
	x, t := s.Object(), &s.text
	c := &x.C
	s.Sum.Chunks++
	s.w.HasChunk = true
	s.rest = prose.Kept{}
	if s.Finished && s.end.failed && c.Count > 0 {
		s.dropLate()
		return
	}
	if s.dropCardOutput() {
		return
	}
	s.update(x)
	if c.Tokens.Counts && s.memory != nil {
		s.memory.Report(s.w.Model())
	}
	if c.Reasoning {
		s.leaveTags()
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
		s.saysOther()
	}
	if !c.HasContent() {
		s.chunkWithoutContent()
		return
	}
	if !c.Content.Inner().Ok() && c.OnlyText && t.hasReasoning {
		t.answered = true
	}
	if c.Finish.Ok() && c.Content.Inner().Ok() { // now, not between a held line and its end
		code, _, _ := s.verdict(c.Text || t.prose.Waits())
		s.endTools(code != "" && !s.Finished)
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
	x := s.Object()
	c := &x.C
	if c.Text {
		s.text.hasText, s.tools.onTool = true, false
		s.apply(s.tools.inferEnds())
	}
	says := c.Finish.Ok() || c.Extra || c.MoreErrors || c.ChoiceErrors || c.Text || c.Reasoning || c.Other ||
		x.HasError() || c.Hermes.Ok() || c.Count > 1
	switch {
	case c.Count == 1 && !c.FirstOnly && !c.Finish.Ok() && !x.HasError():
	case says:
		s.decideHeld()
	case len(s.hold.whole) > 0:
		s.Quiet(x.F.Raw)
		return
	}
	s.writeChunk()
}

// writeChunk writes the chunk with its edits. Some gateways send an error in a chunk
// without a finish reason. An error finish will not repeat such an error.
func (s *Stream) writeChunk() {
	x := s.Object()
	if x.C.Finish.Ok() {
		s.finishChunk()
		return
	}
	if x.HasError() {
		s.recordError(x)
	}
	s.w.Object(x)
}

// markerChunk handles a chunk whose whole content is a tool marker: the marker leaves the
// stream, and its tool starts (contract section 1). It returns false for any other chunk.
func (s *Stream) markerChunk() bool {
	x := s.Object()
	if s.tools.upstream || s.Finished || !x.C.HasContent() {
		return false
	}
	text := x.Value(x.C.Content.Inner())
	m, ok := marker.Whole(text)
	if !ok {
		return false
	}
	s.decideHeld()
	s.setSendsEvents(false)
	s.notes.Add(contract.SectionMarkers, "a tool marker, the whole content of one chunk: leaves the text")
	s.text.prose.DropMarker()
	s.Sum.Markers++
	x.DropContent()
	switch {
	case x.Droppable():
		s.Out.Drop()
	case !x.C.Finish.Ok(): // it may have the role
		s.writeChunk()
	}
	s.startMarked(&m, contract.SourceMarker)
	s.text.prose.BeginMessage()
	if x.C.Finish.Ok() {
		s.writeChunk()
	}
	return true
}
