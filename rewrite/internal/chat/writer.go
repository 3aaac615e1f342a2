package chat

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// writer is what leaves, and what frames of our own have in common.
type writer struct {
	// Out is what leaves.
	Out   sse.Writer
	usage usage

	o       *contract.Options
	newID   func() string // nil for ""
	created int64
	onTool  func(contract.ToolEvent) // nil for nobody
	notes   *contract.Notes          // nil for nobody
	form    contract.Progress

	now  time.Time // the caller's clock
	env  chunk.Envelope
	head *toolHead // nil before a tool event is written
}

// envelope returns the envelope of the stream. Where no chunk has said what it is, it is
// that of the stream's parameters.
func (w *writer) envelope() *chunk.Envelope {
	if !w.env.IsSet() {
		id := ""
		if w.newID != nil {
			id = w.newID()
		}
		quoted, _ := json.Marshal(id) // a string cannot fail
		w.env.Set(quoted, strconv.AppendInt(nil, w.created, 10), []byte(`"hermes-agent"`), false)
	}
	return &w.env
}

// object writes the frame x with its edits, behind what leaves of our own.
func (w *writer) object(x *chunk.Object) {
	w.Out.BeginOwn()
	w.forward(x)
}

// forward writes the frame x with its edits.
func (w *writer) forward(x *chunk.Object) { w.Out.Frame(&x.F, &x.Edits) }

// delta writes a chunk of our own with what k keeps of the content of the chunk x. The
// chunk's role comes first, and comes again only in the chunk itself.
func (w *writer) delta(x *chunk.Object, reasoning bool, k *prose.Kept) {
	role := x.Value(x.C.Role)
	x.C.Role.To = x.C.Role.From
	e := w.envelope()
	w.Out.BeginOwn()
	w.Out.Bytes = e.AppendDelta(w.Out.Bytes, role, x.C.Repeat.Ok(), reasoning, k, x.F.Data)
}

// thought writes a chunk of our own with reasoning, the inside of a JSON string.
func (w *writer) reasoning(reasoning []byte) {
	e := w.envelope()
	w.Out.BeginOwn()
	w.Out.Bytes = e.AppendDelta(w.Out.Bytes, nil, false, true, &prose.Kept{Front: reasoning}, nil)
}

// error writes a frame with the error object.
func (w *writer) error(object []byte) {
	w.Out.BeginOwn()
	w.Out.Bytes = append(append(append(w.Out.Bytes, "data: "...), object...), "\n\n"...)
}

// keepalive writes a chunk that says nothing, or a comment while none has come (contract
// section 3).
func (w *writer) keepalive() {
	w.Out.BeginOwnFirst()
	if w.o.KeepaliveForm == contract.KeepaliveComment || !w.env.FromChunk() {
		w.Out.Bytes = append(w.Out.Bytes, ": keepalive\n\n"...)
		return
	}
	w.Out.Bytes = append(w.env.AppendEmpty(append(w.Out.Bytes, "data: {"...)), "}\n\n"...)
}
