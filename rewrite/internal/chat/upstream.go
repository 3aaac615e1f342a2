package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Upstream's tool events, and its other named events (contract section 2).

// apply writes the transitions, and reports each to the notes and to OnTool.
func (s *Stream) apply(changes []encode.Transition) {
	for i := range changes {
		c := &changes[i]
		if s.notes != nil {
			verb := " starts: "
			if c.Completed {
				verb = " has ended: "
			}
			s.notes.Add(contract.SectionTools, "tool "+jsonspan.Unquote(c.Name)+verb+c.Source.Reason())
		}
		if s.onTool != nil {
			s.onTool(contract.ToolEvent{ID: jsonspan.Unquote(c.ID), Name: jsonspan.Unquote(c.Name), Completed: c.Completed, Source: c.Source})
		}
		s.w.Transition(c)
	}
}

// endSize returns how many bytes it takes at most to complete a tool, if the envelope becomes
// longer by that many bytes.
func (s *Stream) endSize(longer int) endSize {
	return func(t *encode.Tool) int { return s.w.EndSize(t, longer) }
}

// startTool starts the tool of c, and writes its start. A tool without an id gets one of
// ours. inferred says that upstream will not say when it ends.
func (s *Stream) startTool(c encode.Transition, inferred bool) {
	t := openTool{inferred: inferred, derived: c.ID == ""}
	if t.derived {
		c.ID = s.w.CallID(s.tools.count + 1)
	}
	c.Card = !c.Left && len(c.ID) <= encode.MaxCardID &&
		(s.w.HasCards() || c.Event != nil && c.In != contract.ProgressBare && encode.HasCard(c.Event))
	s.apply(s.tools.start(c, t, s.now, s.o.Window(), s.endSize(0)))
}

// toolOf returns the tool that the event x names. Its id, if any, has no escapes.
func toolOf(x *chunk.Object) encode.Tool {
	return encode.Tool{
		Name: string(x.String(x.C.Tool)), Emoji: string(x.String(x.C.Emoji)), Label: string(x.String(x.C.Label)),
		ID: string(jsonspan.Plain(x.String(x.C.CallID))),
	}
}

// statusOf returns the status that the event x says, or "".
func statusOf(x *chunk.Object) string {
	return string(jsonspan.Inside(jsonspan.Plain(x.String(x.C.Status))))
}

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

// isInternal reports whether the tool with the name, a JSON string, is internal: clients
// never see it (contract section 2).
func isInternal(name string) bool {
	if len(name) < 3 {
		return false
	}
	r, _ := jsonspan.NextRune([]byte(jsonspan.Inside(name)), 0)
	return r == '_'
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

// unknownTool is the name of a tool of which upstream says none.
const unknownTool = `"` + marker.UnknownTool + `"`

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

// repeatsOutput reports whether the chunk is the output of a card, which another sidecar
// has written, and which has left, or will, with the end of its tool.
func (s *Stream) repeatsOutput() bool {
	if !saysNothing(&s.x) {
		return false
	}
	id := encode.OutputOf(&s.x)
	return id != nil && s.tools.hadCard(string(id))
}
