package agentapi

import (
	"bytes"
	"fmt"
	"slices"
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
	nextIndex          int64  // the index after those of its items
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
		!m.response.IsObject(f.Data) && chunk.NumberAt(f.Data, m.sequence) == nil:
		return nil
	}
	return name
}

// record remembers what an event says.
func (r *responses) record(f *sse.Frame, m *members) {
	r.named = chunk.IsNamed(f)
	if !m.response.IsObject(f.Data) {
		return
	}
	object := m.response.Of(f.Data)
	member := func(name string) jsonspan.Span { return jsonspan.MemberOf(f.Data, m.response, name) }
	remember(&r.id, jsonspan.StringAt(f.Data, member("id")))
	remember(&r.created, chunk.NumberAt(f.Data, member("created_at")))
	remember(&r.model, jsonspan.StringAt(f.Data, member("model")))
	if !bytes.Equal(r.object, object) && len(object) <= MaxResponse && jsonspan.Valid(object) {
		r.object = append(r.object[:0], object...)
	}
}

// appendFailed appends what a stream that was cut lacks: the ends of open tools, as Hermes
// writes them, and response.failed in the form of the API's reference: the response with
// status and error. The response is upstream's, or the least that clients expect, for
// which newID, which may be nil, and created stand in.
//
// A tool gets an output, because clients run a call that has none themselves.
func (r *responses) appendFailed(dst, message []byte, tools *openTools, n *numbers, newID func() string, created int64) []byte {
	for _, t := range tools.take(leastOfTool) {
		if !t.done {
			dst = r.appendItem(dst, "done", t.index, withMember(t.data, "status", `"incomplete"`), n)
		}
		output := fmt.Appendf(nil, `{"type":"function_call_output","id":"fco_%s,"call_id":%s,"output":[{"type":"input_text","text":"Error: interrupted"}],"status":"incomplete"}`, t.key[1:], t.key)
		index := strconv.AppendInt(nil, r.nextIndex, 10)
		dst = r.appendItem(dst, "added", index, output, n)
		dst = r.appendItem(dst, "done", index, output, n)
		r.nextIndex++
	}
	object := r.object
	if object == nil {
		object = r.least(newID, created)
	}
	object = withMember(redact.Value(object), "status", `"failed"`)
	// An error of the API has these two members. Strict clients accept no other code for
	// what is not the client's fault.
	object = withMember(object, "error", `{"code":"server_error","message":`+string(message)+`}`)
	failed := append(r.appendHead(nil, "response.failed", n), `,"response":`...)
	failed = n.appendSeq(append(failed, jsonspan.OneLine(object)...), `,"sequence_number":`)
	return append(append(dst, redact.Value(failed)...), "}\n\n"...)
}

// leastOfTool is the number of bytes that the three events of a tool's end take at least.
const leastOfTool = 800

// appendItem appends an event that says that an item has been added or is done.
func (r *responses) appendItem(dst []byte, what string, index, item []byte, n *numbers) []byte {
	dst = r.appendHead(dst, "response.output_item."+what, n)
	dst = fmt.Appendf(dst, `,"output_index":%s,"item":%s`, index, jsonspan.OneLine(item))
	return append(n.appendSeq(dst, `,"sequence_number":`), "}\n\n"...)
}

// appendHead appends the beginning of an event with the name.
func (r *responses) appendHead(dst []byte, name string, n *numbers) []byte {
	dst = n.appendID(dst)
	if r.named {
		dst = fmt.Appendf(dst, "event: %s\n", name)
	}
	return fmt.Appendf(dst, `data: {"type":"%s"`, name)
}

// least returns a response without output, with the values that upstream has sent.
func (r *responses) least(newID func() string, at int64) []byte {
	id, created, model := r.id, r.created, r.model
	if id == nil {
		own := ""
		if newID != nil {
			own = strings.TrimPrefix(newID(), "chatcmpl-")
		}
		id = jsonspan.Quote("resp_" + own)
	}
	if created == nil {
		created = strconv.AppendInt(nil, at, 10)
	}
	if model == nil {
		model = []byte(`"hermes-agent"`)
	}
	return fmt.Appendf(nil, `{"id":%s,"object":"response","status":"failed","created_at":%s,"model":%s,"output":[]}`, id, created, model)
}

// withMember returns a copy of the object in which the member with the name has the
// value. A member that is not there is added after the last. All other bytes stay.
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
	return slices.Concat(object[:v.From], []byte(value), object[v.To:])
}
