package chat

import (
	"cmp"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// kind is the kind of a frame.
type kind uint8

const (
	kindOther   kind = iota
	kindTool         // a tool event
	kindChunk        // a chunk
	kindError        // an error of upstream's that is not in a chunk
	kindWrapped      // a named event with the members of a chunk, which another sidecar has added
	kindNamed        // another named event
)

// kindOf returns the kind of the frame x, and the form of a tool event. large says that x is
// only the beginning of a large frame, which may lack the id of its tool.
func kindOf(x *chunk.Object, large bool) (kind, contract.Progress) {
	c, data, named := &x.C, x.F.Data, chunk.IsNamed(&x.F)
	wrapped := named && c.IsChunk(data) && saysNothing(x) // it is no chunk, whatever else is in it
	unnamed := c.CallID.IsString(data) && c.Choices.Ok()
	if large {
		unnamed = c.ChoicesArray && saysNothing(x)
	}
	switch {
	case string(x.F.Event) == encode.ProgressEvent && c.TellsTool(data):
		if c.IsChunk(data) && c.Count > 0 {
			return kindTool, contract.ProgressEnvelope
		}
		return kindTool, contract.ProgressBare
	case !named && c.IsToolEvent(data) && unnamed:
		return kindTool, contract.ProgressUnnamed
	case x.IsChunk() && !wrapped:
		return kindChunk, ""
	case x.HasError() && (!named || string(x.F.Event) == "error"):
		return kindError, ""
	case wrapped:
		return kindWrapped, ""
	case named:
		return kindNamed, ""
	}
	return kindOther, ""
}

// saysNothing reports whether the choices of the chunk x say nothing: there is one, with
// an empty delta and no finish reason.
func saysNothing(x *chunk.Object) bool {
	c, data := &x.C, x.F.Data
	return c.Count == 1 && c.FirstOnly && !c.Finish.Ok() &&
		c.Delta.IsObject(data) && jsonspan.SkipSpace(data, c.Delta.From+1) == c.Delta.To-1
}

// transitionOf returns the transition in upstream's tool event x, and its status. Values that the
// event lacks are empty. The id has no more escapes than it needs.
func transitionOf(x *chunk.Object) (t encode.Transition, status string) {
	c := &x.C
	return encode.Transition{Source: contract.SourceUpstream, Event: x, Tool: encode.Tool{
		Name: string(x.String(c.Tool)), Emoji: string(x.String(c.Emoji)), Label: string(x.String(c.Label)),
		ID: string(jsonspan.Plain(x.String(c.CallID))),
	}}, string(jsonspan.Inside(jsonspan.Plain(x.String(c.Status))))
}

// isInternal reports whether the tool with the name, a JSON string, is internal: clients
// never see it (contract section 2).
func isInternal(name string) bool { return strings.HasPrefix(jsonspan.Unquote(name), "_") }

// toolEvent handles x, a tool event of upstream's in the form in.
func (s *Stream) toolEvent(x *chunk.Object, in contract.Progress) {
	s.Out.Drop()
	c, status := transitionOf(x)
	c.In = in
	if s.transition(c, status) {
		return
	}
	if i := s.tools.find(&c.Tool); i >= 0 && c.ID != "" {
		s.tools.open[i].SetID(x)
	}
	if in == contract.ProgressBare {
		s.namedEvent(x, false, nil)
		return
	}
	x.DropFinish()
	s.decideHeld()
	s.w.Object(x)
}

// transition applies upstream's tool event c, which has the status. It returns false if it does
// not know the status.
func (s *Stream) transition(c encode.Transition, status string) bool {
	s.tools.upstream = true
	switch {
	case s.Finished: // too late to be completed before the finish chunk
		s.notes.Add(contract.SectionTools, "a tool event after the finish chunk: dropped")
	case isInternal(c.Name): // a start or an end
		s.notes.Add(contract.SectionTools, "a tool event of an internal tool: dropped")
	case isEnd(status):
		if status != contract.Completed {
			c.Status = status
		}
		s.toolEnds(c)
	case status == contract.Running || status == "":
		s.toolStarts(c, status == "")
	default:
		s.upstream.setSendsEvents(true, s.w.Form)
		return false
	}
	return true
}

// isEnd reports whether the status says that a tool has ended, well or not.
func isEnd(status string) bool {
	return status == contract.Completed || contract.EndedOtherwise(status)
}

// toolStarts starts the tool of upstream's event.
func (s *Stream) toolStarts(c encode.Transition, lacksStatus bool) {
	if s.tools.repeats(&c.Tool) {
		s.notes.Add(contract.SectionTools, "a tool that has started already: dropped")
		return
	}
	c.Name = cmp.Or(c.Name, marker.UnknownTool)
	s.upstream.setSendsEvents(true, s.w.Form)
	if s.w.Form != contract.ProgressOff || s.prose.InReasoning() { // an event that does not leave ends no line
		s.decideHeld()
	}
	c.Inferred = lacksStatus || c.ID == ""
	if c.Inferred && c.Event != nil { // a large one may not show them
		s.upstream.setReportsFailures(false)
	}
	s.startTool(c)
	s.prose.BeginMessage()
}

// toolEnds ends the tool of upstream's event. It drops the end of a tool that is not open.
func (s *Stream) toolEnds(c encode.Transition) {
	if s.tools.find(&c.Tool) < 0 {
		s.notes.Add(contract.SectionTools, "the end of a tool that is not open: dropped")
		return
	}
	s.upstream.setSendsEvents(true, s.w.Form)
	if s.w.Form != contract.ProgressOff {
		s.decideHeld() // this may complete tools: TestTagsAndTheirNeighbours
	}
	i := s.tools.find(&c.Tool)
	if i < 0 || c.Left && c.ID == "" { // an end that has left without an id may be that of another tool
		return
	}
	end := s.tools.end(i, contract.SourceUpstream)
	end.Status = c.Status
	if c.ID != "" {
		end.Event, end.In, end.Left = c.Event, c.In, c.Left && end.UpstreamID == ""
		if c.Event != nil {
			end.Interrupted, end.Approval = encode.IsInterrupted(c.Event), encode.OutcomeIn(c.Event)
		}
	}
	s.tools.apply([]encode.Transition{end})
}

// namedEvent handles x, a named event that is neither a chunk nor a tool event. wrapped says that
// another sidecar has given it the members of a chunk. asks is the request for approval that it makes,
// nil if that is not to be asked about.
func (s *Stream) namedEvent(x *chunk.Object, wrapped bool, q *contract.ApprovalRequest) {
	s.decideHeld()
	if !wrapped && encode.IsState(x) {
		s.upstream.setReportsFailures(true)
	}
	if string(x.F.Event) == encode.StatusEvent && saysSilence(jsonspan.Inside(x.String(x.Member("text")))) {
		s.answer.gaveUp = true
	}
	if q != nil {
		s.approvalEvent(x, wrapped, q)
		return
	}
	if s.w.NamedEvent(x, wrapped, s.Finished, nil) {
		s.tools.showLine(s.tools.waiting(jsonspan.Unquote(x.String(x.Member("command")))))
	}
}
