package rewrite

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// maxEnvelope is the length in bytes up to which an id or a model is taken from
// upstream.
const maxEnvelope = 1 << 10

// envelope is the part that the chunks of a stream have in common, as values in
// JSON.
type envelope struct {
	id, created, model []byte
	known              bool // it comes from a chunk
}

// newEnvelope returns the one to use before any chunk has come.
func newEnvelope(p *Params) envelope {
	id, _ := json.Marshal(p.ID) // a string cannot fail
	return envelope{
		id:      id,
		created: strconv.AppendInt(nil, p.Created, 10),
		model:   []byte(`"hermes-agent"`),
	}
}

// update takes the values of a chunk over. It allocates only when they differ
// from those it has.
func (e *envelope) update(c *chunk, data []byte) {
	take := func(dst *[]byte, s span, ok bool) {
		if ok && s.to-s.from <= maxEnvelope && !bytes.Equal(*dst, s.of(data)) {
			*dst = append((*dst)[:0], s.of(data)...)
		}
	}
	take(&e.id, c.id, c.id.isString(data) && c.id.to-c.id.from > 2)
	take(&e.created, c.created, c.created.ok() && isDigit(data[c.created.from]))
	take(&e.model, c.model, c.model.isString(data) && c.model.to-c.model.from > 2)
	e.known = true
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// same tells whether a chunk has the values that e has.
func (e *envelope) same(c *chunk, data []byte) bool {
	return e.known && bytes.Equal(e.id, c.id.of(data)) &&
		bytes.Equal(e.created, c.created.of(data)) && bytes.Equal(e.model, c.model.of(data))
}

// appendHead appends the first four members, and the name of the fifth.
func (e *envelope) appendHead(dst []byte) []byte {
	dst = append(dst, `"id":`...)
	dst = append(dst, e.id...)
	dst = append(dst, `,"object":"chat.completion.chunk","created":`...)
	dst = append(dst, e.created...)
	dst = append(dst, `,"model":`...)
	dst = append(dst, e.model...)
	return append(dst, `,"choices":`...)
}

// appendEmpty appends the five members of a chunk that says nothing.
func (e *envelope) appendEmpty(dst []byte) []byte {
	return append(e.appendHead(dst), `[{"index":0,"delta":{},"finish_reason":null}]`...)
}
