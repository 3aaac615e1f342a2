package chunk

import "bytes"

// MaxEnvelope is the length in bytes up to which a value of upstream's is taken into an
// envelope.
const MaxEnvelope = 1 << 10

// Envelope is what the chunks of a stream have in common: id, created and model, as
// JSON. The zero value has none of them. What its methods return is valid until the
// next Set, but for Names.
type Envelope struct {
	values         []byte // one behind the other
	created, model int32  // where these two begin
	fromChunk      bool   // the values come from a chunk
}

// IsSet reports whether there are values.
func (e *Envelope) IsSet() bool { return len(e.values) > 0 }

// FromChunk reports whether the values come from a chunk.
func (e *Envelope) FromChunk() bool { return e.fromChunk }

// Len returns how many bytes the values have.
func (e *Envelope) Len() int { return len(e.values) }

// ID returns the id, a JSON string.
func (e *Envelope) ID() []byte { return e.values[:e.created] }

// Created returns the time, a JSON number in Unix seconds.
func (e *Envelope) Created() []byte { return e.values[e.created:e.model] }

// Model returns the name of the model, a JSON string.
func (e *Envelope) Model() []byte { return e.values[e.model:] }

// Names returns the id and the name of the model, JSON strings, for as long as anybody
// likes.
func (e *Envelope) Names() (id, model string) {
	all := string(e.values)
	return all[:e.created], all[e.model:]
}

// Set sets the values. fromChunk says that they come from a chunk.
func (e *Envelope) Set(id, created, model []byte, fromChunk bool) {
	e.fromChunk = fromChunk
	if e.IsSet() && len(id) == len(e.ID()) && len(created) == len(e.Created()) && len(model) == len(e.Model()) {
		copy(e.ID(), id) // often: some gateways give each chunk a time of its own
		copy(e.Created(), created)
		copy(e.Model(), model)
		return
	}
	values := e.values
	if n := len(id) + len(created) + len(model); e.IsSet() || cap(values) < n { // they may be some of its own
		values = make([]byte, 0, n)
	}
	e.values = append(append(append(values, id...), created...), model...)
	e.created = int32(len(id))
	e.model = int32(len(id) + len(created))
}

// Same reports whether the chunk x has the values of e, and e those of a chunk.
func (e *Envelope) Same(x *Object) bool {
	c := &x.C
	return e.fromChunk && bytes.Equal(e.ID(), x.Value(c.ID)) && bytes.Equal(e.Created(), x.Value(c.Created)) && bytes.Equal(e.Model(), x.Value(c.Model))
}

// AppendHead appends the first four members of a chunk, and the name of the fifth,
// choices.
func (e *Envelope) AppendHead(dst []byte) []byte {
	dst = append(append(dst, `"id":`...), e.ID()...)
	dst = append(append(dst, `,"object":"chat.completion.chunk","created":`...), e.Created()...)
	dst = append(append(dst, `,"model":`...), e.Model()...)
	return append(dst, `,"choices":`...)
}

// AppendEmpty appends the five members of a chunk that says nothing.
func (e *Envelope) AppendEmpty(dst []byte) []byte {
	return append(e.AppendHead(dst), `[{"index":0,"delta":{},"finish_reason":null}]`...)
}
