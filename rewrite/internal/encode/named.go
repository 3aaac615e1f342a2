package encode

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// The events with which the newest Hermes reports its state.
const (
	StatusEvent   = "hermes.status"
	ApprovalEvent = "approval.request"
)

// IsState reports whether the named event x is about upstream's state.
func IsState(x *chunk.Object) bool {
	name := string(x.F.Event)
	return name == StatusEvent || name == ApprovalEvent
}

// NamedEvent writes a named event that is neither a chunk nor a tool event. Strict clients
// break on one without the members of a chunk (contract section 2). wrapped says that it has
// those from another sidecar, and finished that the finish chunk has left.
func (w *Writer) NamedEvent(x *chunk.Object, wrapped, finished bool) {
	if w.Envelops() && !wrapped {
		x.RenameMembers(false)
		w.addChunkMembers(x)
		w.addStatusLine(x)
	}
	w.dropName(x, finished)
	w.Object(x)
}

// addChunkMembers adds the members of a chunk before those of the named event x.
func (w *Writer) addChunkMembers(x *chunk.Object) {
	w.Notes.Add(contract.SectionTools, "a named event: gets the members of a chunk")
	members, at := w.envelope().empty(), x.C.All.From+1
	if jsonspan.SkipSpace(x.F.Data, at) != x.C.All.To-1 {
		members += ","
	}
	x.Replace(at, at, []byte(members))
}

// dropName takes the event: line from an event about upstream's state if the form is
// unnamed. Without it the event is a chunk for clients and for a second sidecar, so one
// that would then say more than nothing keeps it, and so does one after the finish chunk.
func (w *Writer) dropName(x *chunk.Object, finished bool) {
	c := &x.C
	if w.Form != contract.ProgressUnnamed || finished || !IsState(x) ||
		c.Err.Ok() || c.Usage.Ok() || c.Hermes.Ok() || c.Tool.Ok() {
		return
	}
	x.DropName()
}

// addStatusLine adds the member that Open WebUI shows to an event about upstream's state.
// A status is done when it comes, an approval is not.
func (w *Writer) addStatusLine(x *chunk.Object) {
	if !w.o.StatusLine || !IsState(x) || x.C.StatusLine.Ok() && !x.C.StatusLine.IsString(x.F.Data) {
		return
	}
	status := string(x.F.Event) == StatusEvent
	member, before := "command", "Approval needed: "
	if status {
		member, before = "text", ""
	}
	text := x.String(x.Member(member))
	if text == nil {
		return
	}
	x.Append(statusLine(status, before, string(jsonspan.Inside(text))))
}
