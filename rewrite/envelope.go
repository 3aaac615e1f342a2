package rewrite

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// maxEnvelope is the length in bytes up to which an id or a model is taken from
// upstream.
const maxEnvelope = 1 << 10

// envelope is the part that the chunks of a stream have in common: values in
// JSON, one behind the other.
type envelope struct {
	values         []byte     // id, created and model; none before they are needed
	created, model int32      // where these two begin
	known          bool       // it comes from a chunk
	like           bool       // frames like the pattern have it
	tools          *toolFront // nil before a tool event is written
}

// envelope returns the envelope of the stream. Where no chunk has said what it
// is, it is that of the stream's parameters.
func (s *Stream) envelope() *envelope {
	if s.env.values == nil {
		id, _ := json.Marshal(s.p.id()) // a string cannot fail
		s.env.set(id, strconv.AppendInt(nil, s.p.created, 10), []byte(`"hermes-agent"`))
	}
	return &s.env
}

// id returns the id of a completion that upstream has given none.
func (p *params) id() string {
	if p.newID == nil {
		return ""
	}
	return p.newID()
}

// id returns the completion's id. All three are shared, and valid until update.
func (e *envelope) id() []byte         { return e.values[:e.created] }
func (e *envelope) createdAt() []byte  { return e.values[e.created:e.model] }
func (e *envelope) modelsName() []byte { return e.values[e.model:] }

func (e *envelope) set(id, created, model []byte) {
	values := make([]byte, 0, len(id)+len(created)+len(model))
	e.values = append(append(append(values, id...), created...), model...)
	e.created = int32(len(id))
	e.model = int32(len(id) + len(created))
	e.changed()
}

func (e *envelope) changed() {
	if e.tools != nil {
		e.tools.fresh = false
	}
}

// updateEnvelope takes the values of the chunk s.c over.
func (s *Stream) updateEnvelope() {
	c, data := &s.c, s.f.Data
	if s.hasEnvelope() {
		s.env.like = s.env.like || s.known
		return
	}
	fits := func(v jsonspan.Span) bool { return v.To-v.From <= maxEnvelope }
	hasID := c.id.IsString(data) && c.id.To-c.id.From > 2 && fits(c.id)
	hasCreated := c.created.Ok() && jsonspan.IsDigit(data[c.created.From]) && fits(c.created)
	hasModel := c.model.IsString(data) && c.model.To-c.model.From > 2 && fits(c.model)
	e := &s.env
	if !hasID || !hasCreated || !hasModel {
		e = s.envelope()
	}
	id, created, model := e.id(), e.createdAt(), e.modelsName()
	if hasID {
		id = c.id.Of(data)
	}
	if hasCreated {
		created = c.created.Of(data)
	}
	if hasModel {
		model = c.model.Of(data)
	}
	e.known, e.like = true, s.known && hasID && hasCreated && hasModel
	if len(id) == len(e.id()) && len(created) == len(e.createdAt()) && len(model) == len(e.modelsName()) {
		copy(e.id(), id) // some gateways give each chunk a time of its own
		copy(e.createdAt(), created)
		copy(e.modelsName(), model)
		e.changed()
		return
	}
	s.endBefore(len(id) + len(created) + len(model) - len(e.values))
	e.set(id, created, model)
}

// hasEnvelope tells whether the chunk s.c has the values of the envelope.
func (s *Stream) hasEnvelope() bool {
	return s.known && s.env.like || s.env.same(&s.c, s.f.Data)
}

// same tells whether a chunk has the values that e has.
func (e *envelope) same(c *chunk, data []byte) bool {
	return e.known && bytes.Equal(e.id(), c.id.Of(data)) &&
		bytes.Equal(e.createdAt(), c.created.Of(data)) && bytes.Equal(e.modelsName(), c.model.Of(data))
}

// appendHead appends the first four members, and the name of the fifth.
func (e *envelope) appendHead(dst []byte) []byte {
	dst = append(dst, `"id":`...)
	dst = append(dst, e.id()...)
	dst = append(dst, `,"object":"chat.completion.chunk","created":`...)
	dst = append(dst, e.createdAt()...)
	dst = append(dst, `,"model":`...)
	dst = append(dst, e.modelsName()...)
	return append(dst, `,"choices":`...)
}

// appendEmpty appends the five members of a chunk that says nothing.
func (e *envelope) appendEmpty(dst []byte) []byte {
	return append(e.appendHead(dst), `[{"index":0,"delta":{},"finish_reason":null}]`...)
}
