package encode

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Envelope has the values that the chunks of a stream have in common, as JSON. The zero
// value has none.
type Envelope struct {
	ID, Created, Model string
	FromChunk          bool // the values come from a chunk
}

// Len returns how many bytes the values have.
func (e *Envelope) Len() int { return len(e.ID) + len(e.Created) + len(e.Model) }

// Same reports whether the chunk x has the values of e, and e those of a chunk.
func (e *Envelope) Same(x *chunk.Object) bool {
	c := &x.C
	return e.FromChunk && string(x.Value(c.ID)) == e.ID && string(x.Value(c.Created)) == e.Created && string(x.Value(c.Model)) == e.Model
}

// EnvelopeOf returns the envelope of the stream with the values of the chunk x.
func (w *Writer) EnvelopeOf(x *chunk.Object) Envelope {
	id, created, model := x.Values()
	e := w.Env
	if id == nil || created == nil || model == nil {
		e = *w.envelope()
	}
	set := func(dst *string, value []byte) {
		if value != nil {
			*dst = string(value)
		}
	}
	set(&e.ID, id)
	set(&e.Created, created)
	set(&e.Model, model)
	e.FromChunk = true
	return e
}

// head returns the first four members of a chunk, and the name of the fifth, choices.
func (e *Envelope) head() string {
	return `"id":` + e.ID + `,"object":"chat.completion.chunk","created":` + e.Created + `,"model":` + e.Model + `,"choices":`
}

// empty returns the five members of a chunk that says nothing.
func (e *Envelope) empty() string { return e.head() + `[{"index":0,"delta":{},"finish_reason":null}]` }

// emptySize is the number of bytes of empty, without the values.
var emptySize = len(new(Envelope).empty())

// fill adds the members of the envelope that the chunk x lacks. Hermes 0.13 sends a chunk
// of nothing but choices if its writer fails (contract section 3).
func (e *Envelope) fill(x *chunk.Object) {
	add := func(v jsonspan.Span, has []byte, name, value string) {
		at := x.C.All.From + 1
		switch {
		case has != nil:
		case v.Ok(): // it is null, or empty
			x.ReplaceValue(v, value)
		default:
			x.Replace(at, at, []byte(`"`+name+`":`+value+`,`))
		}
	}
	c := &x.C
	add(c.ID, x.String(c.ID), "id", e.ID)
	add(c.Object, x.String(c.Object), "object", `"chat.completion.chunk"`)
	add(c.Created, chunk.NumberAt(x.F.Data, c.Created), "created", e.Created)
	add(c.Model, x.String(c.Model), "model", e.Model)
}
