package encode

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

const (
	// ProgressEvent is the name of tool events.
	ProgressEvent = "hermes.tool.progress"
	// ProgressComment begins a tool event in a comment.
	ProgressComment = ": " + ProgressEvent + " "
)

// The statuses of a tool event.
const (
	Running   = "running"
	Completed = "completed"
)

// Tool is a tool call. Its fields are JSON strings, quotes included. All but the name and
// the id may be empty.
type Tool struct {
	Name, Emoji, Label, ID string
	Card                   bool // its events have cards
}

// Transition says that a tool starts or ends.
type Transition struct {
	Tool
	Completed   bool
	Interrupted bool                // the stream failed, so that it is not known whether the tool has ended
	Source      contract.ToolSource // what says so

	Event *chunk.Object     // upstream's own event, nil if there is none that may leave
	In    contract.Progress // the form of Event, empty if it cannot leave as it is
	Left  bool              // an event that is too large to be read has left already
}

// status returns the status of the tool.
func (t *Transition) status() string {
	if t.Completed {
		return Completed
	}
	return Running
}

// CallID returns an id of our own, a JSON string, for the tool n of the completion, from 1
// on. Every replica derives the same id (contract section 2). It is short enough for
// clients that allow 40 characters.
func (w *Writer) CallID(n int) string {
	h := sha256.Sum256([]byte(w.envelope().ID))
	return fmt.Sprintf(`"call_%x%04d"`, h[:10], n)
}

// Envelops reports whether named events get the members of a chunk.
func (w *Writer) Envelops() bool {
	return w.Form == contract.ProgressEnvelope || w.Form == contract.ProgressUnnamed
}

// EndSize says how many bytes it takes at most to complete a tool, without the fields of
// the tool and Tool.CardSize.
type EndSize struct{ Event, Output int }

// EndSize returns the size of the end of a tool if the envelope becomes longer by that
// many bytes.
func (w *Writer) EndSize(longer int) EndSize {
	if w.Form == contract.ProgressOff {
		return EndSize{Event: longer}
	}
	size := EndSize{Event: w.headSize() + ownSize + longer, Output: longer}
	if w.Envelops() {
		size.Output += emptySize + w.Env.Len()
	}
	return size
}

// StartSize returns how many bytes the event of a tool takes at most, without the fields of
// the tool.
func (w *Writer) StartSize() int {
	n := w.headSize() + ownSize
	if w.HasCards() {
		n += emptySize + w.Env.Len() + cardSize + 2*MaxCardLabel
	}
	return n
}

// headSize returns the length of a tool event up to the name of the tool.
func (w *Writer) headSize() int {
	n := len(w.eventHead()) + len(`"tool":`)
	if w.Envelops() {
		n += emptySize + w.envelope().Len() + len(",")
	}
	return n
}

// eventHead returns the beginning of a tool event.
func (w *Writer) eventHead() string {
	switch w.Form {
	case contract.ProgressComment:
		return ProgressComment + "{"
	case contract.ProgressUnnamed:
		return "data: {"
	}
	return "event: " + ProgressEvent + "\ndata: {"
}

// hasStatusLine reports whether tool events get the status member that Open WebUI shows.
func (w *Writer) hasStatusLine() bool { return w.o.StatusLine && w.Envelops() }

// Transition writes the event of t in the stream's form, and the output of its card. If
// upstream's own event has that form, it leaves byte for byte.
func (w *Writer) Transition(t *Transition) {
	switch x := t.Event; {
	case t.Left:
	case x == nil || t.Name != string(x.String(x.C.Tool)):
		w.toolEvent(t)
	case w.leavesAsIs(t):
		x.DropFinish() // the stream would have two (contract section 2)
		w.Forward(x)
	case t.In == contract.ProgressBare && w.Envelops() && !x.C.Escaped:
		w.editEvent(t)
	default:
		w.toolEvent(t)
	}
	if t.Completed && t.Card && w.Envelops() {
		w.cardOutput(t)
	}
}

// leavesAsIs reports whether upstream's event of t leaves byte for byte. One with an escape
// in a name is written anew, because a client might not find the member.
func (w *Writer) leavesAsIs(t *Transition) bool {
	x := t.Event
	return t.In == w.Form && x.String(x.C.CallID) != nil && x.String(x.C.Status) != nil &&
		!x.C.Escaped && (!w.hasStatusLine() || x.C.StatusLine.Ok()) && (!t.Card || HasCard(x))
}

// toolEvent writes the event of t as one of our own.
func (w *Writer) toolEvent(t *Transition) {
	if w.Form == contract.ProgressOff {
		return
	}
	e := w.envelope()
	w.Out.BeginOwn()
	dst := append(w.Out.Bytes, w.eventHead()...)
	if w.Envelops() {
		dst = append(e.appendEmpty(dst), ',')
	}
	dst = append(append(dst, `"tool":`...), t.Name...)
	if !t.Completed { // upstream's five fields for a start, three for an end
		if t.Emoji != "" {
			dst = append(append(dst, `,"emoji":`...), t.Emoji...)
		}
		if t.Label != "" {
			dst = append(append(dst, `,"label":`...), t.Label...)
		}
	}
	dst = appendStatus(appendToolID(dst, t), t)
	if t.Interrupted && w.Envelops() {
		dst = append(dst, `,"interrupted":true`...)
	}
	if w.hasStatusLine() {
		dst = appendStatusLine(dst, t)
	}
	if t.Card && w.Envelops() {
		dst = appendCard(dst, t, t.Interrupted)
	}
	if w.Form == contract.ProgressComment {
		w.Out.Bytes = append(dst, '}')
		w.Out.EndComment()
		return
	}
	w.Out.Bytes = append(dst, "}\n\n"...)
}

// appendToolID appends the id, which events of Hermes v0.9 to v0.11 lack.
func appendToolID(dst []byte, t *Transition) []byte {
	return append(append(dst, `,"toolCallId":`...), t.ID...)
}

// appendStatus appends the status, which events of Hermes v0.9 to v0.11 lack.
func appendStatus(dst []byte, t *Transition) []byte {
	return append(append(append(dst, `,"status":"`...), t.status()...), '"')
}

// appendStatusLine appends Open WebUI's status member.
func appendStatusLine(dst []byte, t *Transition) []byte {
	dst = append(dst, statusLineHead...)
	emoji, label := jsonspan.Inside(t.Emoji), jsonspan.Inside(t.Label)
	dst = append(dst, emoji...)
	if len(emoji) > 0 && len(label) > 0 {
		dst = append(dst, ' ')
	}
	dst = append(dst, label...)
	if len(emoji)+len(label) == 0 {
		dst = append(dst, jsonspan.Inside(t.Name)...)
	}
	return appendStatusLineTail(dst, t.Completed)
}

// statusLineHead begins Open WebUI's status member.
const statusLineHead = `,"event":{"type":"status","data":{"description":"`

// appendStatusLineTail ends Open WebUI's status member.
func appendStatusLineTail(dst []byte, done bool) []byte {
	return append(strconv.AppendBool(append(dst, `","done":`...), done), `}}`...)
}

// editEvent writes upstream's event of t, which is bare, with the members of a chunk, and
// with the id and the status if it lacks them.
func (w *Writer) editEvent(t *Transition) {
	x := t.Event
	x.RenameMembers(t.Card)
	var members []byte
	switch v := x.C.CallID; {
	case x.String(v) != nil:
	case v.Ok(): // it is null, or empty
		x.Replace(v.From, v.To, []byte(t.ID))
	default:
		members = appendToolID(members, t)
	}
	switch v := x.C.Status; {
	case x.String(v) != nil:
	case v.Ok():
		x.Replace(v.From, v.To, []byte(`"`+t.status()+`"`))
	default:
		members = appendStatus(members, t)
	}
	if w.hasStatusLine() && (!x.C.StatusLine.Ok() || x.C.StatusLine.IsString(x.F.Data)) {
		members = appendStatusLine(members, t)
	}
	if t.Card {
		members = appendCard(members, t, false)
	}
	if w.Form == contract.ProgressUnnamed {
		x.DropName()
	}
	w.addChunkMembers(x)
	x.Append(members)
	w.Object(x)
}
