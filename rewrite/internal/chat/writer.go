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

	// What the stream was given; it does not change.
	o       *contract.Options
	newID   func() string // may be nil
	created int64
	onTool  func(contract.ToolEvent) // may be nil
	notes   *contract.Notes          // nil if nobody wants the stream explained
	form    contract.Progress

	now  time.Time      // the time of the last Begin
	env  chunk.Envelope // see envelope
	head *toolHead      // see toolHead; nil before the first tool event
}

// envelope returns the envelope of the stream. It is that of the stream's parameters
// until a chunk has come.
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

// object writes the frame x with its edits, behind frames of our own.
func (w *writer) object(x *chunk.Object) {
	w.Out.BeginOwn()
	w.forward(x)
}

// forward writes the frame x with its edits.
func (w *writer) forward(x *chunk.Object) { w.Out.Frame(&x.F, &x.Edits) }

// delta writes a chunk of our own with what k keeps of the content of the chunk x, as
// content or as reasoning. The first one has the role of x, too.
func (w *writer) delta(x *chunk.Object, reasoning bool, k *prose.Kept) {
	role := x.Value(x.C.Role)
	x.C.Role.To = x.C.Role.From
	e := w.envelope()
	w.Out.BeginOwn()
	w.Out.Bytes = e.AppendDelta(w.Out.Bytes, role, x.C.Repeat.Ok(), reasoning, k, x.F.Data)
}

// reasoning writes a chunk of our own with the reasoning text, the inside of a JSON
// string.
func (w *writer) reasoning(text []byte) {
	e := w.envelope()
	w.Out.BeginOwn()
	w.Out.Bytes = e.AppendDelta(w.Out.Bytes, nil, false, true, &prose.Kept{Front: text}, nil)
}

// done is the data of the frame that ends a stream.
const done = "[DONE]"

// writeDone writes that frame.
func (w *writer) writeDone() {
	w.Out.BeginOwn()
	w.Out.Bytes = append(w.Out.Bytes, "data: "+done+"\n\n"...)
}

// error writes a frame whose data is the error object.
func (w *writer) error(object []byte) {
	w.Out.BeginOwn()
	w.Out.Bytes = append(append(append(w.Out.Bytes, "data: "...), object...), "\n\n"...)
}
