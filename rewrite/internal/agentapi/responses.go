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

// responses is what a stream of /v1/responses has said.
type responses struct {
	id, created, model []byte // values of the response, as JSON
	object             []byte // the response, unless it is too large
	next               int64  // the next sequence number
	counted            bool   // upstream numbers its events
	named              bool   // upstream's last event had an event line
}

// MaxResponse is the length in bytes up to which a response is remembered. It repeats the
// instructions and the tools of the request.
const MaxResponse = 64 << 10

// responsePrefix begins the type of every event of a response.
const responsePrefix = "response."

// responseEvent returns the type of the frame's event, or nil if the event is not one of
// a response. In such an event the type agrees with the name, if there is one, and there
// is a response or a sequence number.
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

// record remembers what an event says.
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

// count remembers the sequence number of an event.
func (r *responses) count(data []byte, m *members) {
	if !m.numbered(data) {
		return
	}
	if n := jsonspan.SmallInt(m.sequence.Of(data)); n >= 0 {
		r.next, r.counted = max(r.next, n+1), true
	}
}

// appendFailed appends response.failed in the form of the API's reference: the response
// with status and error, and the next sequence number.
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

// failed returns the failed response: upstream's with another status and an error, or the
// least that clients expect.
func (r *responses) failed(message []byte, own *identity) []byte {
	object := r.object
	if object == nil {
		object = r.least(own)
	}
	object = withMember(redact.Value(object), "status", `"failed"`)
	// An error of the API has these two members. Strict clients accept no other code for
	// what is not the client's fault.
	object = withMember(object, "error", `{"code":"server_error","message":`+string(message)+`}`)
	return jsonspan.OneLine(object)
}

// least returns a response without output, with the values that upstream has sent.
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

// withMember returns a copy of the object in which the member with the name has the
// value. A member that is not there is added behind the last. All other bytes stay.
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
