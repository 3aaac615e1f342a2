package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// handler decides what becomes of a frame that has been parsed. Each field uses only
// those before it.
type handler struct {
	writer
	tools    tools
	text     text
	end      ending
	template template
	chunks   int // the number of chunks that have come
}

// handle handles the frame in k, whose data is an object.
func (h *handler) handle(k *Work) {
	x := &k.Object
	x.RedactMany()
	chunk.RedactSaidOf(x, h.text.prose.InTag())
	c, data := &x.C, x.F.Data
	named := x.Named()
	switch {
	case h.end.done:
		x.RedactFrame()
		h.late(x)
	case string(x.F.Event) == ProgressEvent && c.TellsTool(data):
		if c.IsChunk(data) && c.Count > 0 {
			h.toolEvent(k, contract.ProgressEnvelope)
		} else {
			h.toolEvent(k, contract.ProgressBare)
		}
	case !named && c.IsToolEvent(data) && c.CallID.IsString(data) && c.Choices.Ok():
		h.toolEvent(k, contract.ProgressUnnamed)
	case isWrapped(x):
		h.wrappedEvent(k)
	case x.IsChunk():
		h.chunk(k)
	case x.HasError() && (!named || string(x.F.Event) == "error"):
		h.errorFrame(k)
	case named:
		h.namedEvent(k)
	default:
		x.RedactFrame()
		h.forward(k)
	}
}

// late handles a frame behind [DONE]. Only a chunk without choices, such as one of
// usage, passes, but no tool event (contract section 2).
func (h *handler) late(x *chunk.Object) {
	if h.end.failed || !x.IsChunk() || x.C.Count > 0 || string(x.F.Event) == ProgressEvent || x.C.IsToolEvent(x.F.Data) {
		h.dropLate()
		return
	}
	h.object(x)
}

// dropLate drops what comes behind [DONE] or an error finish.
func (h *handler) dropLate() {
	if h.end.failed {
		h.notes.Add(contract.SectionEnd, "behind the error finish nothing takes it back: dropped")
	} else {
		h.notes.Add(contract.SectionEnd, "behind [DONE]: dropped")
	}
	h.Out.Drop()
}

// doneFrame handles [DONE].
func (h *handler) doneFrame(k *Work) {
	if h.end.done {
		h.dropLate()
		return
	}
	h.settle(k)
	if !h.end.finished {
		h.end.finishError(&h.writer, &h.tools, &h.text, &k.Object, contract.CodeIncomplete)
	}
	h.end.done = true
	if string(k.Object.F.Data) == done {
		h.forward(k)
		return
	}
	h.notes.Add(contract.SectionEnd, "[DONE] with other white space: strict clients know one spelling")
	h.Out.Drop()
	h.writeDone()
}

// errorFrame handles an error of upstream's that is not in a chunk.
func (h *handler) errorFrame(k *Work) {
	x := &k.Object
	chunk.KeepOneError(x)
	h.settle(k)
	h.tools.completeAll(&h.writer, !h.end.finished)
	x.RedactAll()
	h.end.recordError(&h.writer, &h.tools, &h.text, x)
	h.object(x)
}

// chunk handles a chunk.
func (h *handler) chunk(k *Work) {
	x := &k.Object
	chunk.KeepOneError(x)
	c := &x.C
	h.chunks++
	switch {
	case h.end.finished && h.end.failed && c.Count > 0:
		h.dropLate()
		return
	case h.tools.repeatsOutput(x):
		h.notes.Add(contract.SectionTools, "the output of a card that leaves with the end of its tool: dropped")
		h.Out.Drop()
		return
	}
	h.updateEnvelope(x)
	h.end.update(&h.writer, x)
	if h.markerChunk(k) {
		return
	}
	if (c.Reasoning || c.Other) && !(c.HasContent() && c.Content.Inner().Ok()) {
		h.settle(k)
	}
	if c.Reasoning || c.Text && h.o.Imitations != contract.ImitationsTrust {
		h.tools.inferEnds(&h.writer) // an agent that speaks does not wait for a tool
	}
	h.text.hasReasoning = h.text.hasReasoning || c.Reasoning
	if c.Other {
		h.text.hasOther, h.tools.textSince = true, true
	}
	if !c.HasContent() {
		h.chunkWithoutContent(k)
		return
	}
	if c.Finish.Ok() && c.Content.Inner().Ok() { // now, not between a held line and its end
		h.tools.completeAll(&h.writer, h.end.willFail(&h.writer, &h.tools, &h.text, k))
	}
	last := c.Finish.Ok() || x.HasError() || c.Reasoning || c.Calls // these wait for no text
	if h.text.read(&h.writer, &h.tools, k, h.end.finished, last) == sse.Forwarded {
		h.learn(k)
		h.writeChunk(x)
	}
}

// chunkWithoutContent handles a chunk without content of the first choice. A chunk of
// another choice decides nothing about what is held back, and does not wait for it.
func (h *handler) chunkWithoutContent(k *Work) {
	x := &k.Object
	c := &x.C
	if c.Text {
		h.text.hasText, h.tools.textSince = true, true
		h.tools.inferEnds(&h.writer)
	}
	switch another := c.Count == 1 && !c.FirstOnly && !c.Finish.Ok() && !x.HasError(); {
	case another:
		h.writeChunk(x)
		return
	case c.Finish.Ok(), c.Extra, c.MoreErrors, c.ChoiceErrors, c.Text, c.Reasoning, c.Other, x.HasError(), c.Hermes.Ok(), c.Count > 1:
		h.settle(k)
	case !k.hold.empty():
		h.text.forwardQuiet(&h.writer, &h.tools, k, x.F.Raw)
		return
	}
	h.learn(k)
	h.writeChunk(x)
}

// writeChunk writes the chunk x with its edits. Some gateways send an error in a chunk
// without a finish reason. An error finish will not repeat that.
func (h *handler) writeChunk(x *chunk.Object) {
	if x.C.Finish.Ok() {
		h.end.finish(&h.writer, &h.tools, &h.text, x)
	} else {
		x.RedactError()
		if x.HasError() {
			h.end.recordError(&h.writer, &h.tools, &h.text, x)
		}
	}
	h.object(x)
}

// mayStartTool reports whether a marker may start a tool.
func (h *handler) mayStartTool() bool { return !h.tools.upstream && !h.end.finished }

// markerChunk handles a chunk whose whole content is a tool marker: the marker leaves the
// stream, and its tool starts (contract section 1). It returns false for any other chunk.
func (h *handler) markerChunk(k *Work) bool {
	x := &k.Object
	if !h.mayStartTool() || !x.C.HasContent() {
		return false
	}
	text := x.Value(x.C.Content.Inner())
	m, ok := marker.Whole(text)
	if !ok {
		return false
	}
	t := h.recordMarker(k, m, text)
	switch {
	case x.Droppable():
		h.startMarked(k, &t)
		h.Out.Drop()
	case x.C.Finish.Ok():
		h.startMarked(k, &t)
		x.DropContent()
		h.writeChunk(x)
	default: // it may have the role
		x.DropContent()
		h.writeChunk(x)
		h.startMarked(k, &t)
	}
	return true
}

// recordMarker records that the marker m leaves the text, and returns the fields of the
// tool that it stands for.
func (h *handler) recordMarker(k *Work, m marker.Marker, text []byte) toolFields {
	h.settle(k)
	h.notes.Add(contract.SectionMarkers, "a tool marker, the whole content of one chunk: leaves the text")
	h.text.prose.DropMarker()
	h.text.markers++
	return markerFields(&k.Object, h.o.ToolTable(), m.Emoji.Of(text), m.Label.Of(text))
}

// startMarked starts the tool t of a marker.
func (h *handler) startMarked(k *Work, t *toolFields) {
	h.tools.startDerived(&h.writer, &k.Object, t, contract.SourceMarker)
	h.text.prose.BeginMessage()
}

// settle decides what waits for more text, as if the text ended here.
func (h *handler) settle(k *Work) { h.text.settle(&h.writer, &h.tools, k, h.end.finished) }

// forward writes the frame in k with its edits, behind what is held.
func (h *handler) forward(k *Work) {
	h.settle(k)
	h.writer.forward(&k.Object)
}

// updateEnvelope takes over the values of the chunk x.
func (h *handler) updateEnvelope(x *chunk.Object) {
	if h.env.Same(x) {
		return
	}
	id, created, model := x.Values()
	if id == nil || created == nil || model == nil {
		e := h.envelope()
		if id == nil {
			id = e.ID()
		}
		if created == nil {
			created = e.Created()
		}
		if model == nil {
			model = e.Model()
		}
	}
	if longer := len(id) + len(created) + len(model) - h.env.Len(); longer > 0 {
		h.tools.bound(&h.writer, longer)
	}
	h.env.Set(id, created, model, true)
	if h.head != nil {
		h.head.fresh = false
	}
}
