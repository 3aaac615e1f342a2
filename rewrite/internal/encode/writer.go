package encode

import (
	"encoding/json"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Writer writes the frames of one stream.
type Writer struct {
	Out   *sse.Writer
	Form  contract.Progress // of tool events
	Notes *contract.Notes   // nil unless the stream is explained
	Env   Envelope          // empty until the first chunk, or the first frame of our own

	o       *contract.Options
	newID   func() string // may be nil
	created int64
}

// NewWriter returns the Writer of a stream with the parameters p.
func NewWriter(out *sse.Writer, o *contract.Options, p *contract.Params, notes *contract.Notes) Writer {
	return Writer{Out: out, Form: p.Progress, Notes: notes, o: o, newID: p.ID, created: p.Created}
}

// envelope returns the envelope of the stream. It is that of the stream's parameters
// until a chunk has come.
func (w *Writer) envelope() *Envelope {
	if w.Env.ID == "" {
		id := ""
		if w.newID != nil {
			id = w.newID()
		}
		quoted, _ := json.Marshal(id) // a string cannot fail
		w.Env = Envelope{ID: string(quoted), Created: strconv.FormatInt(w.created, 10), Model: `"hermes-agent"`}
	}
	return &w.Env
}

// Model returns the name of the stream's model.
func (w *Writer) Model() string { return jsonspan.Unquote(w.envelope().Model) }

// Forward writes the frame x with its edits.
func (w *Writer) Forward(x *chunk.Object) { w.Out.Frame(&x.F, &x.Edits) }

// Object writes the frame x with its edits, after frames of our own.
func (w *Writer) Object(x *chunk.Object) {
	w.Out.BeginOwn()
	w.Forward(x)
}

// Delta writes a chunk of our own with what k keeps of the content of the chunk x, as
// content or as reasoning. The first one has the role of x, too. If x repeats its content
// in the choice's member text, so does the chunk.
func (w *Writer) Delta(x *chunk.Object, reasoning bool, k *prose.Kept) {
	role, data := x.Value(x.C.Role), x.F.Data
	x.C.Role.To = x.C.Role.From
	dst := w.beginDelta()
	if x.C.Repeat.Ok() && !reasoning {
		dst = append(k.AppendTo(append(dst, `"text":"`...), data), `",`...)
	}
	dst = append(dst, `"delta":{`...)
	if len(role) > 0 {
		dst = append(append(append(dst, `"role":`...), role...), ',')
	}
	if reasoning {
		dst = append(dst, `"reasoning_content":"`...)
	} else {
		dst = append(dst, `"content":"`...)
	}
	w.endDelta(k.AppendTo(dst, data))
}

// Reasoning writes a chunk of our own with the reasoning text, the inside of a JSON
// string.
func (w *Writer) Reasoning(text []byte) {
	w.endDelta(append(append(w.beginDelta(), `"delta":{"reasoning_content":"`...), text...))
}

func (w *Writer) beginDelta() []byte {
	e := w.envelope()
	w.Out.BeginOwn()
	return append(e.appendHead(append(w.Out.Bytes, "data: {"...)), `[{"index":0,`...)
}

func (w *Writer) endDelta(dst []byte) {
	w.Out.Bytes = append(dst, "\"},\"finish_reason\":null}]}\n\n"...)
}

// DeltaSize is the number of bytes that a Delta takes at most without its text.
func (w *Writer) DeltaSize() int { return w.envelope().Len() + ownSize }

// ownSize is the number of bytes that a chunk of our own takes at most without the values
// of the envelope, and a tool event without its head and the fields of the tool.
const ownSize = 192

// Keepalive writes a chunk that says nothing, or a comment while no chunk has come
// (contract section 3).
func (w *Writer) Keepalive() {
	w.Out.WriteMark()
	w.Out.BeginOwn()
	if w.o.KeepaliveForm == contract.KeepaliveComment || !w.Env.FromChunk {
		w.Out.Bytes = append(w.Out.Bytes, ": keepalive"...)
		w.Out.EndComment()
		return
	}
	w.Out.Bytes = append(w.Env.appendEmpty(append(w.Out.Bytes, "data: {"...)), "}\n\n"...)
}

// DoneData is the data of the frame that ends a stream.
const DoneData = "[DONE]"

// Done writes that frame.
func (w *Writer) Done() {
	w.Out.BeginOwn()
	w.Out.Bytes = append(w.Out.Bytes, "data: "+DoneData+"\n\n"...)
}
