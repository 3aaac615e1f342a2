package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// Upstream's tool events, and its other named events. Strict clients break on a named
// event without the members of a chunk (contract section 2).

// The events with which the newest Hermes reports its state.
const (
	statusEvent   = "hermes.status"
	approvalEvent = "approval.request"
)

// toolEvent handles upstream's tool event in k, which has the form in.
func (h *handler) toolEvent(k *Work, in contract.Progress) {
	x := &k.Object
	h.tools.upstream = true
	if x.C.IsChunk(x.F.Data) { // another sidecar has written it, maybe before any chunk
		h.updateEnvelope(x)
	}
	f := toolFields{name: x.String(x.C.Tool), emoji: x.String(x.C.Emoji), label: x.String(x.C.Label), id: jsonspan.Plain(x.String(x.C.CallID))}
	status := string(jsonspan.Inside(jsonspan.Plain(x.String(x.C.Status))))
	h.Out.Drop()
	switch {
	case h.end.finished: // too late to be completed before the finish chunk
		h.notes.Add(contract.SectionTools, "a tool event behind the finish chunk: dropped")
	case isInternal(f.name): // a start or an end
		h.notes.Add(contract.SectionTools, "a tool event of an internal tool: dropped")
	case status == completed:
		h.toolEnds(k, &f, in)
	case status == running || status == "":
		h.toolStarts(k, &f, status, in)
	case in == contract.ProgressBare:
		h.namedEvent(k)
	default:
		x.RedactFrame()
		chunk.DropFinish(x)
		h.forward(k)
	}
}

// forwardTool writes upstream's tool event x, which has the stream's form. It has no finish
// reason: the stream would have two (contract section 2).
func (w *writer) forwardTool(x *chunk.Object) {
	x.RedactError()
	chunk.DropFinish(x)
	w.forward(x)
}

// isInternal reports whether the tool with the name, a JSON string, is internal: clients
// never see it (contract section 2).
func isInternal(name []byte) bool {
	if len(name) < 3 {
		return false
	}
	r, _ := jsonspan.NextRune(jsonspan.Inside(name), 0)
	return r == '_'
}

// toolStarts starts the tool of the event in k, and writes the event in the stream's
// form. If the event has that form, it leaves byte for byte.
func (h *handler) toolStarts(k *Work, f *toolFields, status string, in contract.Progress) {
	x := &k.Object
	if f.name == nil {
		f.name = x.Literal(`"` + marker.UnknownTool + `"`)
		in = "" // its frame cannot leave as it is
	}
	if f.id != nil && h.tools.started(f.id) {
		h.notes.Add(contract.SectionTools, "a tool that has started already: dropped")
		return
	}
	if h.form != contract.ProgressOff { // an event that does not leave decides nothing
		h.settle(k)
	}
	inferred := status == "" || f.id == nil
	if inferred {
		h.usage.setReportsFailures(false)
	}
	t := h.tools.begin(&h.writer, x, f, inferred)
	t.card = t.card || in != contract.ProgressBare && len(t.id) <= MaxCardID && hasCard(x)
	switch {
	case f.id != nil && status != "" && h.leavesAsIs(x, &t, in):
		h.forwardTool(x)
	case in == contract.ProgressBare && h.envelops() && !x.C.Escaped:
		h.upstreamTool(x, &t, running, f.id == nil, status == "")
	default:
		h.writer.toolEvent(&t, running, false)
	}
	h.tools.add(&h.writer, &t, contract.SourceUpstream)
	h.text.prose.BeginMessage()
}

// toolEnds completes the tool of the event in k, and writes the event in the stream's
// form. It drops the end of a tool that is not open.
func (h *handler) toolEnds(k *Work, f *toolFields, in contract.Progress) {
	x := &k.Object
	find := func() int {
		if f.id == nil {
			return h.tools.findName(f.name)
		}
		return h.tools.find(f.id)
	}
	if find() < 0 {
		h.notes.Add(contract.SectionTools, "the end of a tool that is not open: dropped")
		return
	}
	if h.form != contract.ProgressOff {
		h.settle(k) // this may complete tools: TestToolEndsWhileTextIsHeld
	}
	i := find()
	switch {
	case i < 0:
		return
	case f.id == nil:
		h.tools.complete(&h.writer, i, contract.SourceUpstream, false)
		return
	}
	t := h.tools.remove(i)
	h.tools.report(&h.writer, &t, true, contract.SourceUpstream)
	interrupted := isInterrupted(x)
	switch {
	case t.name == string(f.name) && h.leavesAsIs(x, &t, in):
		h.forwardTool(x)
	case in == contract.ProgressBare && h.envelops() && !x.C.Escaped && t.name == string(x.Value(x.C.Tool)):
		h.upstreamTool(x, &t, completed, false, false)
	default:
		h.writer.toolEvent(&t, completed, interrupted)
	}
	h.cardOutput(&t, interrupted)
}

// leavesAsIs reports whether the event x of the tool t, which has the form in, leaves byte
// for byte. One with an escape in a name is written anew, because a client might not find
// the member.
func (w *writer) leavesAsIs(x *chunk.Object, t *tool, in contract.Progress) bool {
	return in == w.form && !x.C.Escaped && (!w.hasStatusLine() || x.C.StatusLine.Ok()) && (!t.card || hasCard(x))
}

// comment handles a comment that is a tool event, which another sidecar has written. It
// returns false for any other comment.
func (h *handler) comment(k *Work, line []byte) bool {
	if !bytes.HasPrefix(line, []byte(progressComment)) {
		return false
	}
	x := &k.Object
	x.Begin()
	end := len(bytes.TrimRight(line, "\r\n")) // without the blank line
	x.F.SetData(line, len(progressComment), max(end, len(progressComment)))
	if !x.C.Parse(x.F.Data) || !x.C.IsToolEvent(x.F.Data) {
		return false
	}
	h.toolEvent(k, contract.ProgressComment)
	return true
}

// namedEvent handles a named event that is not a chunk.
func (h *handler) namedEvent(k *Work) {
	h.settle(k)
	x := &k.Object
	if isState(x) {
		h.usage.setReportsFailures(true)
	}
	h.text.noteStatus(x)
	if h.envelops() {
		x.RenameMembers(false)
	}
	x.RedactFrame()
	if h.envelops() {
		h.addChunkMembers(x)
		h.addStatusLine(x)
		h.dropName(x)
	}
	h.object(x)
}

// dropName takes the event: line from an event about upstream's state if the form is
// unnamed. Without it the event is a chunk for clients and for a second sidecar, so one
// that would then say more than nothing keeps it, and so does one behind the finish chunk.
func (h *handler) dropName(x *chunk.Object) {
	c := &x.C
	if h.form != contract.ProgressUnnamed || h.end.finished || !isState(x) ||
		c.Err.Ok() || c.Usage.Ok() || c.Hermes.Ok() || c.Tool.Ok() {
		return
	}
	from, to := x.F.EventLine()
	x.Edits.ReplaceRaw(&x.F, from, to, nil)
}

// noteStatus records what the event x says of the model, if it is a status.
func (t *text) noteStatus(x *chunk.Object) {
	if string(x.F.Event) == statusEvent && tellsSilence(jsonspan.Inside(x.String(x.Member("text")))) {
		t.gaveUp = true
	}
}

// isState reports whether the named event x is about upstream's state.
func isState(x *chunk.Object) bool {
	name := string(x.F.Event)
	return name == statusEvent || name == approvalEvent
}

// addStatusLine adds the member that Open WebUI shows to an event about upstream's state.
// A status is done when it comes, an approval is not.
func (h *handler) addStatusLine(x *chunk.Object) {
	if !h.o.StatusLine || x.C.StatusLine.Ok() && !x.C.StatusLine.IsString(x.F.Data) {
		return
	}
	member, before := "", ""
	switch string(x.F.Event) {
	case statusEvent:
		member = "text"
	case approvalEvent:
		member, before = "command", "Approval needed: "
	default:
		return
	}
	text := x.String(x.Member(member))
	if text == nil {
		return
	}
	line := append(append(x.Room(), statusLineHead...), before...)
	line = append(line, jsonspan.Inside(redact.Value(text))...)
	x.Append(x.Commit(appendStatusLineTail(line, string(x.F.Event) == statusEvent)))
}

// isWrapped reports whether the object is a named event with the members of a chunk,
// which another sidecar has added. Whatever else is in it, it is not a chunk.
func isWrapped(x *chunk.Object) bool {
	return x.Named() && x.C.IsChunk(x.F.Data) && saysNothing(x)
}

// saysNothing reports whether the choices of the chunk x say nothing: there is one, with
// an empty delta and no finish reason.
func saysNothing(x *chunk.Object) bool {
	c, data := &x.C, x.F.Data
	return c.Count == 1 && c.FirstOnly && !c.Finish.Ok() &&
		c.Delta.IsObject(data) && data[jsonspan.SkipSpace(data, c.Delta.From+1)] == '}'
}

// wrappedEvent handles a named event that another sidecar has wrapped.
func (h *handler) wrappedEvent(k *Work) {
	h.settle(k)
	x := &k.Object
	h.updateEnvelope(x) // it may come before any chunk
	if string(x.F.Event) == "error" && x.HasError() {
		h.errorFrame(k) // the error is still upstream's
		return
	}
	h.text.noteStatus(x)
	x.RedactFrame()
	h.dropName(x)
	h.object(x)
}
