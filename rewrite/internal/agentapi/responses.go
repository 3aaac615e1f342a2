package agentapi

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// responses is what is remembered of a stream of /v1/responses.
type responses struct {
	id, created, model []byte // of the response, as values in JSON
	object             []byte // the response, while it is not too large
	next               int64  // the sequence number behind those that have come
	counted            bool   // upstream numbers its events
	named              bool   // upstream's events have an event line
}

// MaxResponse is the length in bytes up to which the response that upstream has
// begun with is remembered. It repeats the request's instructions and tools.
const MaxResponse = 64 << 10

// responsePrefix is what the types of all events of a response begin with.
const responsePrefix = "response."

// responseEvent returns the type of the frame's event, nil when it is none of a
// response: its type agrees with its name, and it has the response or a number.
func (m *members) responseEvent(f *sse.Frame) []byte {
	if !m.typ.IsString(f.Data) {
		return nil
	}
	name := m.typ.Inner().Of(f.Data)
	switch {
	case !bytes.HasPrefix(name, []byte(responsePrefix)),
		chunk.IsNamed(f) && !bytes.Equal(name, f.Event),
		!m.response.IsObject(f.Data) && !m.numbered(f.Data):
		return nil
	}
	return name
}

// numbered reports whether the event has a sequence number.
func (m *members) numbered(data []byte) bool {
	return m.sequence.Ok() && jsonspan.IsDigit(data[m.sequence.From])
}

// note remembers what an event says.
func (r *responses) record(f *sse.Frame, m *members) {
	r.named = chunk.IsNamed(f)
	r.count(f.Data, m)
	if !m.response.IsObject(f.Data) {
		return
	}
	object := m.response.Of(f.Data)
	whole := jsonspan.Span{From: 0, To: len(object)}
	if v := jsonspan.MemberOf(object, whole, "id"); v.IsString(object) && v.To-v.From > 2 {
		remember(&r.id, v.Of(object))
	}
	if v := jsonspan.MemberOf(object, whole, "created_at"); v.Ok() && jsonspan.IsDigit(object[v.From]) {
		remember(&r.created, v.Of(object))
	}
	if v := jsonspan.MemberOf(object, whole, "model"); v.IsString(object) && v.To-v.From > 2 {
		remember(&r.model, v.Of(object))
	}
	if !bytes.Equal(r.object, object) && len(object) <= MaxResponse && jsonspan.Valid(object) {
		r.object = append(r.object[:0], object...)
	}
}

// count remembers the number of an event.
func (r *responses) count(data []byte, m *members) {
	if !m.numbered(data) {
		return
	}
	if n := jsonspan.SmallInt(m.sequence.Of(data)); n >= 0 {
		r.next, r.counted = max(r.next, n+1), true
	}
}

// appendFailed appends response.failed, in the form that the API's reference
// gives it: response, with status and error, and the next sequence number.
func (r *responses) appendFailed(dst, message []byte, own *identity) []byte {
	if r.named {
		dst = append(dst, "event: response.failed\n"...)
	}
	dst = append(dst, `data: {"type":"response.failed","response":`...)
	dst = append(dst, r.failed(message, own)...)
	if r.counted {
		dst = append(dst, `,"sequence_number":`...)
		dst = strconv.AppendInt(dst, r.next, 10)
	}
	return append(dst, "}\n\n"...)
}

// failed returns the response as it is when it has failed: upstream's with its
// status and error, or the least that clients expect.
func (r *responses) failed(message []byte, own *identity) []byte {
	object := r.object
	if object == nil {
		object = r.least(own)
	}
	object = withMember(redact.Value(object), "status", `"failed"`)
	// The API's error has these two members, and this code for what is not the
	// client's fault. Strict clients know no other codes.
	object = withMember(object, "error", `{"code":"server_error","message":`+string(message)+`}`)
	return jsonspan.OneLine(object)
}

// least returns a response of which upstream has shown at most the beginning.
func (r *responses) least(own *identity) []byte {
	id := r.id
	if id == nil {
		id = jsonspan.Quote("resp_" + strings.TrimPrefix(own.id(), "chatcmpl-"))
	}
	created := r.created
	if created == nil {
		created = strconv.AppendInt(nil, own.created, 10)
	}
	model := r.model
	if model == nil {
		model = []byte(`"hermes-agent"`)
	}
	var b bytes.Buffer
	b.WriteString(`{"id":`)
	b.Write(id)
	b.WriteString(`,"object":"response","status":"failed","created_at":`)
	b.Write(created)
	b.WriteString(`,"model":`)
	b.Write(model)
	b.WriteString(`,"output":[]}`)
	return b.Bytes()
}

// withMember returns a copy of the object with the value of one member replaced
// or, where there is none, added behind the last. All else keeps its bytes.
func withMember(object []byte, name, value string) []byte {
	v := jsonspan.MemberOf(object, jsonspan.Span{From: 0, To: len(object)}, name)
	if !v.Ok() {
		at := len(object) - 1
		v = jsonspan.Span{From: at, To: at}
		member := `"` + name + `":` + value
		if object[jsonspan.SkipSpace(object, 1)] != '}' {
			member = "," + member
		}
		value = member
	}
	out := make([]byte, 0, len(object)+len(value))
	out = append(out, object[:v.From]...)
	out = append(out, value...)
	return append(out, object[v.To:]...)
}
