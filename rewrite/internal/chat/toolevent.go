package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

const (
	// ProgressEvent is the name of tool events.
	ProgressEvent = "hermes.tool.progress"

	progressComment = ": " + ProgressEvent + " " // how a tool event in a comment begins
)

// The statuses of a tool event.
const (
	running   = "running"
	completed = "completed"
)

// toolHead is what the tool events of a stream have in common. It is made once, and again
// when a chunk has changed the envelope.
type toolHead struct {
	fresh bool          // it agrees with the envelope
	event []byte        // an event of our own up to the name of the tool
	empty jsonspan.Span // in event, the members of a chunk that says nothing; a comma follows
	calls [20]byte      // what ids of our own begin with, behind call_
}

// toolHead returns the head of the stream's tool events.
func (w *writer) toolHead() *toolHead {
	e := w.envelope()
	if w.head == nil {
		w.head = new(toolHead)
	}
	f := w.head
	if f.fresh {
		return f
	}
	f.fresh = true
	switch f.event = f.event[:0]; w.form {
	case contract.ProgressComment:
		f.event = append(f.event, progressComment+"{"...)
	case contract.ProgressUnnamed:
		f.event = append(f.event, "data: {"...)
	default:
		f.event = append(f.event, "event: "+ProgressEvent+"\ndata: {"...)
	}
	if w.envelops() {
		f.empty.From = len(f.event)
		f.event = e.AppendEmpty(f.event)
		f.empty.To = len(f.event)
		f.event = append(f.event, ',')
	}
	f.event = append(f.event, `"tool":`...)
	h := sha256.Sum256(e.ID())
	hex.Encode(f.calls[:], h[:len(f.calls)/2])
	return f
}

// appendCallID appends the id of our own, a JSON string, for the tool n of the
// completion, from 1 on. Every replica derives the same id (contract section 2). It is
// short enough for clients that allow 40 characters.
func (f *toolHead) appendCallID(dst []byte, n int) []byte {
	dst = append(append(dst, `"call_`...), f.calls[:]...)
	for most := 1000; most > max(n, 1); most /= 10 {
		dst = append(dst, '0')
	}
	return append(strconv.AppendInt(dst, int64(n), 10), '"')
}

// envelops reports whether named events get the members of a chunk.
func (w *writer) envelops() bool {
	return w.form == contract.ProgressEnvelope || w.form == contract.ProgressUnnamed
}

// hasStatusLine reports whether tool events get the status member that Open WebUI shows.
func (w *writer) hasStatusLine() bool { return w.o.StatusLine && w.envelops() }

// ownSize is the number of bytes that a chunk of our own takes at most without the values
// of the envelope, and a tool event without its head and the fields of the tool.
const ownSize = 192

// toolEvent writes the event that the tool t has the status. interrupted says that the
// tool is completed because the stream failed.
func (w *writer) toolEvent(t *tool, status string, interrupted bool) {
	if w.form == contract.ProgressOff {
		return
	}
	front := w.toolHead()
	w.Out.BeginOwn()
	dst := append(append(w.Out.Bytes, front.event...), t.name...)
	if status == running { // upstream's five fields for a start, three for an end
		if len(t.emoji) > 0 {
			dst = append(append(dst, `,"emoji":`...), t.emoji...)
		}
		if len(t.label) > 0 {
			dst = append(append(dst, `,"label":`...), t.label...)
		}
	}
	dst = appendStatus(appendToolID(dst, t), status)
	if interrupted && w.envelops() {
		dst = append(dst, `,"interrupted":true`...)
	}
	if w.hasStatusLine() {
		dst = appendStatusLine(dst, t, status)
	}
	if t.card && w.envelops() {
		dst = appendCard(dst, t, status, interrupted)
	}
	if w.form == contract.ProgressComment {
		w.Out.Bytes = append(dst, '}')
		w.Out.EndComment()
		return
	}
	w.Out.Bytes = append(dst, "}\n\n"...)
}

// appendToolID appends the id, which events of Hermes v0.9 to v0.11 lack.
func appendToolID(dst []byte, t *tool) []byte {
	return append(append(dst, `,"toolCallId":`...), t.id...)
}

// appendStatus appends the status, which events of Hermes v0.9 to v0.11 lack.
func appendStatus(dst []byte, status string) []byte {
	if status == completed {
		return append(dst, `,"status":"completed"`...)
	}
	return append(dst, `,"status":"running"`...)
}

// appendStatusLine appends Open WebUI's status member.
func appendStatusLine(dst []byte, t *tool, status string) []byte {
	dst = append(dst, statusLineHead...)
	emoji, label := jsonspan.Inside(t.emoji), jsonspan.Inside(t.label)
	dst = append(dst, emoji...)
	if len(emoji) > 0 && len(label) > 0 {
		dst = append(dst, ' ')
	}
	dst = append(dst, label...)
	if len(emoji)+len(label) == 0 {
		dst = append(dst, jsonspan.Inside(t.name)...)
	}
	return appendStatusLineTail(dst, status == completed)
}

// statusLineHead is what Open WebUI's status member begins with.
const statusLineHead = `,"event":{"type":"status","data":{"description":"`

// appendStatusLineTail appends what Open WebUI's status member ends with.
func appendStatusLineTail(dst []byte, done bool) []byte {
	return append(strconv.AppendBool(append(dst, `","done":`...), done), `}}`...)
}

// upstreamTool writes upstream's tool event x in the stream's form, with the id and the
// status of t if it lacks them.
func (w *writer) upstreamTool(x *chunk.Object, t *tool, status string, lacksID, lacksStatus bool) {
	x.RenameMembers(t.card)
	members := x.Room()
	switch v := x.C.CallID; {
	case !lacksID:
	case v.Ok(): // it is null, or empty
		x.Replace(v.From, v.To, []byte(t.id))
	default:
		members = appendToolID(members, t)
	}
	switch v := x.C.Status; {
	case !lacksStatus:
	case v.Ok():
		x.Replace(v.From, v.To, []byte(`"`+status+`"`))
	default:
		members = appendStatus(members, status)
	}
	if w.hasStatusLine() && (!x.C.StatusLine.Ok() || x.C.StatusLine.IsString(x.F.Data)) {
		members = appendStatusLine(members, t, status)
	}
	if t.card {
		members = appendCard(members, t, status, false)
	}
	if w.form == contract.ProgressUnnamed {
		from, to := x.F.EventLine()
		x.Edits.ReplaceRaw(&x.F, from, to, nil)
	}
	members = x.Commit(members)
	w.addChunkMembers(x)
	x.RedactError()
	x.Append(members)
	w.object(x)
}

// addChunkMembers adds the members of a chunk before those of the named event x.
func (w *writer) addChunkMembers(x *chunk.Object) {
	w.notes.Add(contract.SectionTools, "a named event: gets the members of a chunk")
	f := w.toolHead()
	front := f.empty
	if jsonspan.SkipSpace(x.F.Data, x.C.Open+1) != x.C.Shut {
		front.To += len(",")
	}
	x.Replace(x.C.Open+1, x.C.Open+1, front.Of(f.event))
}
