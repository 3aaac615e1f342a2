// Package encode writes what leaves a chat stream: upstream's frames with their edits, and
// the sidecar's own, in the form that the client asked for. It decides nothing about a
// stream: its callers hand it values that say what has happened.
//
//	writer.go  Writer: frames, their envelope, and chunks of the sidecar's own
//	event.go   Transition: a tool starts or ends, in every form; other named events
//	card.go    tool events as cards
//	details.go the members that say what a tool was given and what it returned
//	approval.go  Ask: requests for approval; the ends of an answer that is split
//	finish.go  Failure: error frames and error finishes
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
	Out  *sse.Writer
	Form contract.Progress // of tool events
	Env  Envelope          // empty until the first chunk, or the first frame of our own

	HasChunk bool // there was a chunk, or one for a second sidecar has left

	o *contract.Options
	p *contract.Params
}

// Envelope has the values that the chunks of a stream have in common, as JSON.
type Envelope struct {
	ID, Created, Model string
	FromChunk          bool // the values are from a chunk
}

func (e *Envelope) len() int { return len(e.ID) + len(e.Created) + len(e.Model) }

// members returns the parts of the five members of a chunk with the choices.
func (e *Envelope) members(choices string) []string {
	return []string{`"id":`, e.ID, `,"object":"chat.completion.chunk","created":`, e.Created, `,"model":`, e.Model, `,"choices":`, choices}
}

// nothing are the choices of a chunk that says nothing.
const nothing = `[{"index":0,"delta":{},"finish_reason":null}]`

// NewWriter returns the Writer of a stream with the parameters p.
func NewWriter(out *sse.Writer, o *contract.Options, p *contract.Params) Writer {
	return Writer{Out: out, Form: p.Progress, o: o, p: p}
}

// envelope returns the envelope of the stream. It is that of the stream's parameters
// until there is a chunk.
func (w *Writer) envelope() *Envelope {
	if w.Env.ID == "" {
		id := ""
		if w.p.ID != nil {
			id = w.p.ID()
		}
		w.Env = Envelope{ID: string(jsonspan.Quote(id)), Created: strconv.FormatInt(w.p.Created, 10), Model: `"hermes-agent"`}
	}
	return &w.Env
}

// EnvelopeOf returns the envelope of the stream with the values of the chunk x.
func (w *Writer) EnvelopeOf(x *chunk.Object) Envelope {
	value := func(old string, v []byte) string {
		if v == nil || len(v) > chunk.MaxEnvelope || string(v) == old { // as in almost every chunk
			return old
		}
		return string(v)
	}
	of := func(e *Envelope) Envelope {
		c := &x.C
		return Envelope{value(e.ID, x.String(c.ID)), value(e.Created, chunk.NumberAt(x.F.Data, c.Created)), value(e.Model, x.String(c.Model)), true}
	}
	if e := of(&w.Env); e.ID != "" && e.Created != "" && e.Model != "" {
		return e
	}
	return of(w.envelope())
}

// Model returns the name of the stream's model.
func (w *Writer) Model() string { return jsonspan.Unquote(w.envelope().Model) }

// Object writes the frame x with its edits.
func (w *Writer) Object(x *chunk.Object) {
	w.Out.BeginOwn() // parts of it may have left
	w.Out.Frame(&x.F, &x.Edits)
}

// own writes a frame of our own, or a part of one.
func (w *Writer) own(parts ...string) {
	w.Out.BeginOwn()
	for _, part := range parts {
		w.Out.Bytes = append(w.Out.Bytes, part...)
	}
}

// chunk writes a chunk of our own: the parts of its choices, and of the members after them.
func (w *Writer) chunk(parts ...string) {
	w.own("data: {")
	w.own(w.envelope().members("")...)
	w.own(parts...)
	w.own("}\n\n")
}

// Delta writes a chunk of our own with what k keeps of the content of the chunk x, as
// content or as reasoning. The first one also has the role of x. If x repeats its content
// in the choice's member text, so does the chunk.
func (w *Writer) Delta(x *chunk.Object, reasoning bool, k *prose.Kept) {
	text := string(k.Bytes())
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
	w.chunk(`[{"index":0,`, repeat, `"delta":{`, role, `"`, member, `":"`, text, `"},"finish_reason":null}]`)
}

// DeltaSize returns how many bytes a Delta takes at most without its text.
func (w *Writer) DeltaSize() int { return w.envelope().len() + 200 }

// Keepalive writes a chunk that says nothing, or a comment before the first chunk
// (contract section 3).
func (w *Writer) Keepalive() {
	if w.o.KeepaliveForm == contract.KeepaliveComment || !w.HasChunk && !w.Env.FromChunk {
		w.own(": keepalive")
		w.Out.EndComment()
		return
	}
	w.KeepaliveChunk()
}

// KeepaliveChunk writes a chunk that says nothing.
func (w *Writer) KeepaliveChunk() { w.chunk(nothing) }

// DoneData is the data of the frame that ends a stream.
const DoneData = "[DONE]"

// Done writes the frame with DoneData.
func (w *Writer) Done() { w.own("data: " + DoneData + "\n\n") }
