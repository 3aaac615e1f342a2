package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// chunk handles the chunk x.
func (s *Stream) chunk(x *chunk.Object) {
	a, c := &s.answer, &x.C
	s.Sum.Chunks++
	if s.Finished && s.end.failed && c.Count > 0 {
		s.end.dropLate(s.Out)
		return
	}
	if s.tools.hasOutput(x) {
		s.tools.dropOutput()
		return
	}
	s.w.HasChunk = true
	s.end.update(x)
	if c.Tokens.Counts {
		s.upstream.memory.Report(s.w.Model())
	}
	if c.Reasoning {
		s.leaveTags()
	}
	if !s.tools.upstream && !s.Finished && c.HasContent() {
		if m, ok := marker.Whole(x.Value(c.Content.Inner())); ok {
			s.markerChunk(x, &m)
			return
		}
	}
	if (c.Reasoning || c.Other) && !(c.HasContent() && c.Content.Inner().Ok()) {
		s.decideHeld()
	}
	if c.Reasoning || c.Text && s.o.Imitations != contract.ImitationsTrust {
		s.tools.infer() // an agent that speaks does not wait for a tool
	}
	a.hasReasoning = a.hasReasoning || c.Reasoning
	if c.Other {
		a.saysOther()
	}
	if !c.HasContent() {
		s.chunkWithoutContent(x)
		return
	}
	if !c.Content.Inner().Ok() && c.OnlyText && a.hasReasoning {
		a.answered = true
	}
	if c.Finish.Ok() && c.Content.Inner().Ok() { // now, not between a held line and its end
		code, _, _ := s.verdict(x, c.Text || s.prose.Waits())
		s.tools.finish(code != "" && !s.Finished)
	}
	last := c.Finish.Ok() || x.HasError() || c.Reasoning || c.Calls // these wait for no text
	rest, leaves := s.readContent(x, last)
	if !leaves {
		return
	}
	if a.isSettled() && !s.Finished && !s.Done && len(s.tools.open) == 0 && !s.tools.line && len(s.hold.whole) == 0 && s.prose.Idle() {
		s.template.learn(x)
	}
	s.writeChunk(x, &rest)
}

// chunkWithoutContent handles x, a chunk without content of the first choice. A chunk of
// another choice decides nothing about held text, and does not wait for it.
func (s *Stream) chunkWithoutContent(x *chunk.Object) {
	c := &x.C
	if c.Text {
		s.answer.saysText()
		s.tools.infer()
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
	s.writeChunk(x, &prose.Kept{})
}

// writeChunk writes the chunk x with its edits. rest is the rest of its content. Some gateways
// send an error in a chunk without a finish reason. An error finish will not repeat such an error.
func (s *Stream) writeChunk(x *chunk.Object, rest *prose.Kept) {
	if x.C.Finish.Ok() {
		s.finishChunk(x, rest)
		return
	}
	if x.HasError() && !s.Finished {
		s.end.sendError(x)
	}
	s.w.Object(x)
}

// markerChunk handles the chunk x, whose whole content is the marker m: the marker leaves the
// stream, and its tool starts (contract section 1).
func (s *Stream) markerChunk(x *chunk.Object, m *marker.Marker) {
	s.decideHeld()
	s.upstream.setSendsEvents(false, s.w.Form)
	s.notes.Add(contract.SectionMarkers, "a tool marker, the whole content of one chunk: removed from the text")
	s.prose.DropMarker()
	s.Sum.Markers++
	if x.Droppable() {
		s.Out.Drop()
	} else if x.DropContent(); !x.C.Finish.Ok() { // it may have the role
		s.writeChunk(x, &prose.Kept{})
	}
	s.startMarked(m, contract.SourceMarker)
	s.prose.BeginMessage()
	if x.C.Finish.Ok() {
		s.writeChunk(x, &prose.Kept{})
	}
}
