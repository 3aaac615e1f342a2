package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// Object returns the object of the current frame. The caller parses its F before Frame.
func (s *Stream) Object() *chunk.Object { return &s.x }

// Frame handles the current frame. parsed says that the object in its data has been
// parsed, too.
func (s *Stream) Frame(parsed bool) {
	x := &s.x
	switch {
	case !x.F.HasData:
		s.Quiet(x.F.Raw)
	case chunk.IsDone(x.F.Data):
		s.doneFrame()
	case parsed || x.C.Parse(x.F.Data):
		s.object()
	case s.end.done:
		s.dropLate()
	default:
		s.notes.Add(contract.SectionHarm, "no well-formed JSON object: passes")
		if chunk.TellsState(x.F.Event) {
			chunk.RedactText(&x.F, &x.Edits, x.Notes)
		}
		s.forward()
	}
}

// kind is what a frame is.
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
	c, data, named := &x.C, x.F.Data, x.Named()
	wrapped := named && c.IsChunk(data) && saysNothing(x) // whatever else is in it, it is no chunk
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

// object handles the frame, whose data is an object.
func (s *Stream) object() {
	x := &s.x
	k, form := kindOf(x, false)
	all := k == kindError || (k != kindChunk || s.end.done) && x.TellsState()
	x.Redact(all, s.text.prose.InTag())
	if s.end.done {
		s.late()
		return
	}
	if k == kindChunk || k == kindError {
		x.KeepOneError()
	}
	switch k {
	case kindTool:
		s.toolEvent(form)
	case kindChunk:
		s.chunk()
	case kindError:
		s.errorFrame()
	case kindWrapped, kindNamed:
		s.namedEvent(k == kindWrapped)
	default:
		s.forward()
	}
}

// late handles a frame after [DONE]. Only a chunk without choices, such as one of
// usage, passes, but no tool event (contract section 2).
func (s *Stream) late() {
	x := &s.x
	if s.end.failed || !x.IsChunk() || x.C.Count > 0 || string(x.F.Event) == encode.ProgressEvent || x.C.IsToolEvent(x.F.Data) {
		s.dropLate()
		return
	}
	s.w.Object(x)
}

// dropLate drops what comes after [DONE] or an error finish.
func (s *Stream) dropLate() {
	if s.end.failed {
		s.notes.Add(contract.SectionEnd, "after the error finish nothing takes it back: dropped")
	} else {
		s.notes.Add(contract.SectionEnd, "after [DONE]: dropped")
	}
	s.Out.Drop()
}

// doneFrame handles [DONE].
func (s *Stream) doneFrame() {
	if s.end.done {
		s.dropLate()
		return
	}
	s.decideHeld()
	if !s.end.finished {
		s.finishError(contract.CodeIncomplete)
	}
	s.end.done = true
	if string(s.x.F.Data) == encode.DoneData {
		s.w.Forward(&s.x)
		return
	}
	s.notes.Add(contract.SectionEnd, "[DONE] with other white space: strict clients know one spelling")
	s.Out.Drop()
	s.w.Done()
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

// forward writes the frame with its edits, after the held ones.
func (s *Stream) forward() {
	s.decideHeld()
	s.w.Forward(&s.x)
}

// updateEnvelope takes over the values of the chunk.
func (s *Stream) updateEnvelope() {
	if s.w.Env.Same(&s.x) {
		return
	}
	e := s.w.EnvelopeOf(&s.x)
	if longer := e.Len() - s.w.Env.Len(); longer > 0 {
		s.apply(s.tools.bound(s.endSize(longer)))
	}
	s.w.Env = e
}

// saysNothing reports whether the choices of the chunk x say nothing: there is one, with
// an empty delta and no finish reason.
func saysNothing(x *chunk.Object) bool {
	c, data := &x.C, x.F.Data
	return c.Count == 1 && c.FirstOnly && !c.Finish.Ok() &&
		c.Delta.IsObject(data) && data[jsonspan.SkipSpace(data, c.Delta.From+1)] == '}'
}
