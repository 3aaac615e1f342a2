package encode

import (
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
		w.Env = Envelope{ID: string(jsonspan.Quote(id)), Created: strconv.FormatInt(w.created, 10), Model: `"hermes-agent"`}
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

// own writes a frame of our own, or a part of one.
func (w *Writer) own(parts ...string) {
	w.Out.BeginOwn()
	for _, part := range parts {
		w.Out.Bytes = append(w.Out.Bytes, part...)
	}
}

// Delta writes a chunk of our own with what k keeps of the content of the chunk x, as
// content or as reasoning. The first one has the role of x, too. If x repeats its content
// in the choice's member text, so does the chunk.
func (w *Writer) Delta(x *chunk.Object, reasoning bool, k *prose.Kept) {
	text := string(k.AppendTo(nil, x.F.Data))
	repeat, role, member := "", "", "content"
	if x.C.Role.Ok() {
		role = `"role":` + string(x.Value(x.C.Role)) + `,`
		x.C.Role = jsonspan.Span{}
	}
	if reasoning {
		member = "reasoning_content"
	} else if x.C.Repeat.Ok() {
		repeat = `"text":"` + text + `",`
	}
	w.delta(repeat, role, member, text)
}

// Reasoning writes a chunk of our own with the reasoning text, the inside of a JSON
// string.
func (w *Writer) Reasoning(text []byte) { w.delta("", "", "reasoning_content", string(text)) }

func (w *Writer) delta(repeat, role, member, text string) {
	w.own("data: {", w.envelope().head(), `[{"index":0,`, repeat, `"delta":{`, role, `"`, member, `":"`, text,
		"\"},\"finish_reason\":null}]}\n\n")
}

// DeltaSize is the number of bytes that a Delta takes at most without its text.
func (w *Writer) DeltaSize() int { return w.envelope().Len() + ownSize }

// ownSize is the number of bytes that a chunk of our own takes at most without the values
// of the envelope, and a tool event without its head, its envelope and the fields of the tool.
const ownSize = 200

// Keepalive writes a chunk that says nothing, or a comment while no chunk has come
// (contract section 3).
func (w *Writer) Keepalive() {
	w.Out.WriteMark()
	if w.o.KeepaliveForm == contract.KeepaliveComment || !w.Env.FromChunk {
		w.own(": keepalive")
		w.Out.EndComment()
		return
	}
	w.own("data: {", w.Env.empty(), "}\n\n")
}

// DoneData is the data of the frame that ends a stream.
const DoneData = "[DONE]"

// Done writes that frame.
func (w *Writer) Done() { w.own("data: " + DoneData + "\n\n") }
