package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Upstream's tool events, and its other named events (contract section 2).

// toolEvent handles upstream's tool event, which has the form in.
func (s *Stream) toolEvent(in contract.Progress) {
	x := &s.x
	s.tools.upstream = true
	if x.C.IsChunk(x.F.Data) { // another sidecar has written it, maybe before any chunk
		s.updateEnvelope()
	}
	c := encode.Transition{Tool: toolOf(x), Source: contract.SourceUpstream, Event: x, In: in}
	s.Out.Drop()
	switch status := statusOf(x); {
	case s.end.finished: // too late to be completed before the finish chunk
		s.notes.Add(contract.SectionTools, "a tool event after the finish chunk: dropped")
	case isInternal(c.Name): // a start or an end
		s.notes.Add(contract.SectionTools, "a tool event of an internal tool: dropped")
	case status == encode.Completed:
		s.toolEnds(c)
	case status == encode.Running || status == "":
		s.toolStarts(c, status == "")
	case in == contract.ProgressBare:
		s.namedEvent(false)
	default:
		x.DropFinish()
		s.forward()
	}
}

// toolStarts starts the tool of upstream's event.
func (s *Stream) toolStarts(c encode.Transition, lacksStatus bool) {
	if c.Name == "" {
		c.Name, c.In = unknownTool, "" // its frame cannot leave as it is
	}
	if c.ID != "" && s.tools.started(c.ID) {
		s.notes.Add(contract.SectionTools, "a tool that has started already: dropped")
		return
	}
	if s.w.Form != contract.ProgressOff { // an event that does not leave decides nothing
		s.decideHeld()
	}
	inferred := lacksStatus || c.ID == ""
	if inferred {
		s.usage.setReportsFailures(false)
	}
	s.startTool(c, inferred)
	s.text.prose.BeginMessage()
}

// toolEnds ends the tool of upstream's event. It drops the end of a tool that is not open.
func (s *Stream) toolEnds(c encode.Transition) {
	if s.tools.find(&c.Tool) < 0 {
		s.notes.Add(contract.SectionTools, "the end of a tool that is not open: dropped")
		return
	}
	if s.w.Form != contract.ProgressOff {
		s.decideHeld() // this may complete tools: TestToolEndsWhileTextIsHeld
	}
	i := s.tools.find(&c.Tool)
	if i < 0 {
		return
	}
	end := s.tools.end(i, contract.SourceUpstream)
	if c.ID != "" {
		end.Event, end.In, end.Interrupted = c.Event, c.In, encode.IsInterrupted(c.Event)
	}
	s.apply([]encode.Transition{end})
}

// comment handles a comment that is a tool event, which another sidecar has written. It
// returns false for any other comment.
func (s *Stream) comment(line []byte) bool {
	if !bytes.HasPrefix(line, []byte(encode.ProgressComment)) {
		return false
	}
	x := &s.x
	x.Begin()
	end := len(bytes.TrimRight(line, "\r\n")) // without the blank line
	x.F.SetData(line, len(encode.ProgressComment), max(end, len(encode.ProgressComment)))
	if !x.C.Parse(x.F.Data) || !x.C.IsToolEvent(x.F.Data) {
		return false
	}
	x.Redact(false, false)
	s.toolEvent(contract.ProgressComment)
	return true
}

// namedEvent handles a named event that is neither a chunk nor a tool event. wrapped says that
// another sidecar has given it the members of a chunk.
func (s *Stream) namedEvent(wrapped bool) {
	x := &s.x
	s.decideHeld()
	if wrapped {
		s.updateEnvelope() // it may come before any chunk
	} else if encode.IsState(x) {
		s.usage.setReportsFailures(true)
	}
	if string(x.F.Event) == encode.StatusEvent && saysSilence(jsonspan.Inside(x.String(x.Member("text")))) {
		s.text.gaveUp = true
	}
	s.w.NamedEvent(x, wrapped, s.end.finished)
}

// errorFrame handles an error of upstream's that is not in a chunk.
func (s *Stream) errorFrame() {
	s.decideHeld()
	if s.x.C.IsChunk(s.x.F.Data) { // another sidecar has wrapped it, maybe before any chunk
		s.updateEnvelope()
	}
	s.apply(s.tools.endAll(!s.end.finished))
	s.recordError()
	s.w.Object(&s.x)
}

// forward writes the frame with its edits, after the held ones.
func (s *Stream) forward() {
	s.decideHeld()
	s.w.Forward(&s.x)
}

// repeatsOutput reports whether the chunk is the output of a card, which another sidecar
// has written, and which has left, or will, with the end of its tool.
func (s *Stream) repeatsOutput() bool {
	if !saysNothing(&s.x) {
		return false
	}
	id := encode.OutputOf(&s.x)
	return id != nil && s.tools.hadCard(string(id))
}
