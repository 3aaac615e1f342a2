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

// EndSize returns how many bytes it takes at most to complete the tool if the envelope becomes
// longer by that many bytes.
func (w *Writer) EndSize(t *Tool, longer int) int {
	n := len(t.Name) + len(t.Emoji) + len(t.Label) + len(t.ID) + longer
	if t.Card {
		n += cardSize + 4*len(t.ID) + 5*min(len(t.Label), MaxCardLabel)
	}
	if w.Form == contract.ProgressOff {
		return n
	}
	n += len(w.eventHead()) + ownSize
	if w.Envelops() {
		n += emptySize + w.envelope().Len()
	}
	if w.Envelops() && t.Card {
		n += longer + emptySize + w.Env.Len()
	}
	return n
}

// StartSize returns how many bytes the event of a tool takes at most, without the fields of
// the tool.
func (w *Writer) StartSize() int {
	n := w.EndSize(&Tool{Card: w.HasCards()}, 0)
	if w.HasCards() {
		n += 2 * MaxCardLabel
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

// toolEvent writes the event of t as one of our own: upstream's five fields for a start, three
// for an end.
func (w *Writer) toolEvent(t *Transition) {
	if w.Form == contract.ProgressOff {
		return
	}
	w.own(w.eventHead())
	if w.Envelops() {
		w.own(w.envelope().empty(), ",")
	}
	w.own(`"tool":`, t.Name)
	if t.Emoji != "" && !t.Completed {
		w.own(`,"emoji":`, t.Emoji)
	}
	if t.Label != "" && !t.Completed {
		w.own(`,"label":`, t.Label)
	}
	w.own(`,"toolCallId":`, t.ID, `,"status":"`, t.status(), `"`)
	if t.Interrupted && w.Envelops() {
		w.own(`,"interrupted":true`)
	}
	if w.hasStatusLine() {
		w.own(string(t.statusLine()))
	}
	if t.Card && w.Envelops() {
		w.own(t.card())
	}
	if w.Form == contract.ProgressComment {
		w.own("}")
		w.Out.EndComment()
		return
	}
	w.own("}\n\n")
}

// statusLine returns Open WebUI's status member. The parts of the description are insides of
// JSON strings.
func statusLine(done bool, description ...string) []byte {
	b := []byte(`,"event":{"type":"status","data":{"description":"`)
	for _, part := range description {
		b = append(b, part...)
	}
	return append(strconv.AppendBool(append(b, `","done":`...), done), `}}`...)
}

// statusLine returns the status member of the event of t.
func (t *Transition) statusLine() []byte {
	emoji, label, space := jsonspan.Inside(t.Emoji), jsonspan.Inside(t.Label), ""
	switch {
	case emoji == "" && label == "":
		label = jsonspan.Inside(t.Name)
	case emoji != "" && label != "":
		space = " "
	}
	return statusLine(t.Completed, emoji, space, label)
}

// editEvent writes upstream's event of t, which is bare, with the members of a chunk, and
// with the id and the status if it lacks them.
func (w *Writer) editEvent(t *Transition) {
	x := t.Event
	x.RenameMembers(t.Card)
	w.addChunkMembers(x)
	set := func(v jsonspan.Span, name, value string) {
		if x.String(v) == nil { // it is absent, null or empty
			x.Set(v, name, []byte(value))
		}
	}
	set(x.C.CallID, "toolCallId", t.ID)
	set(x.C.Status, "status", `"`+t.status()+`"`)
	if w.hasStatusLine() && (!x.C.StatusLine.Ok() || x.C.StatusLine.IsString(x.F.Data)) {
		x.Append(t.statusLine())
	}
	x.Append([]byte(t.card()))
	if w.Form == contract.ProgressUnnamed {
		x.DropName()
	}
	w.Object(x)
}
