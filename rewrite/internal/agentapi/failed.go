package agentapi

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// said is what a stream has said, as far as the events repeat it that say that it has failed:
// values as JSON.
type said struct {
	ownID    []byte // the id of the response, of the run or of the session
	run      []byte // the id of a session's run
	at       []byte // a number: the time of the last event or, before that, when a session's stream was created
	message  []byte // of an error event, a string
	hasError bool   // an error event has come in a session

	began, model []byte // of the response: when it was created, and its model
	response     []byte // all of it, unless it is too large
	nextIndex    int64  // the index after those of its items
	named        bool   // upstream's last event had an event line
}

// MaxResponse is the length in bytes up to which a response is remembered. It repeats the
// instructions and the tools of the request.
const MaxResponse = 64 << 10

// record remembers what an event of a stream of the kind says.
func (d *said) record(k kind, e event) {
	switch k {
	case kindResponses:
		d.named = chunk.IsNamed(e.Frame)
		remember(&d.ownID, e.text("response", "id"))
		remember(&d.began, e.number("response", "created_at"))
		remember(&d.model, e.text("response", "model"))
		response := e.at("response")
		if object := response.Of(e.Data); response.IsObject(e.Data) && len(object) <= MaxResponse && jsonspan.Valid(object) {
			d.response = append(d.response[:0], object...)
		}
	case kindRuns:
		remember(&d.ownID, e.at("run_id").Of(e.Data))
		if e.number("timestamp") == nil {
			d.at = d.at[:0]
		}
		remember(&d.at, e.number("timestamp"))
	case kindSession:
		for _, v := range []struct {
			dst  *[]byte
			name string
		}{{&d.ownID, "session_id"}, {&d.run, "run_id"}} {
			if id := e.at(v.name); id.IsString(e.Data) {
				remember(v.dst, id.Of(e.Data))
			}
		}
		remember(&d.at, e.number("ts"))
		d.hasError = d.hasError || string(e.Event) == "error"
	}
}

// remember sets *dst to a copy of the JSON value v if that is well formed and not too
// long. It allocates only if v differs from *dst.
func remember(dst *[]byte, v []byte) {
	if len(v) == 0 || len(v) > chunk.MaxEnvelope || bytes.Equal(*dst, v) || !jsonspan.Valid(v) {
		return
	}
	*dst = append((*dst)[:0], v...)
}

// writeFailed writes what a stream that was cut lacks, as Hermes writes it: the ends of open
// tools, and the event that says that the stream has failed.
func (s *Stream) writeFailed(out *sse.Writer, code string) {
	message := jsonspan.Quote(contract.Message(code))
	if s.message != nil {
		message, code = s.message, contract.CodeAgentError
	}
	if s.hasError { // upstream has said why
		code = contract.CodeAgentError
	}
	out.BeginOwn()
	switch s.kind {
	case kindResponses:
		out.Bytes = s.appendFailedResponse(out.Bytes, message)
	case kindRuns:
		out.Bytes = s.appendFailedRun(out.Bytes, message)
	case kindSession:
		out.Bytes = s.appendFailedSession(out.Bytes, message)
	}
	s.notes.Add(contract.SectionOther, "cut before its last event: gets one that says so")
	s.code = code
	s.ended, s.failedByUs, s.response, s.tools = true, true, nil, nil
}

// appendFailedResponse appends the ends of open tools and response.failed in the form of the
// API's reference: the response with status and error. The response is upstream's, or the least
// that clients expect. A tool gets an output, because clients run a call that has none
// themselves.
func (s *Stream) appendFailedResponse(dst, message []byte) []byte {
	const least = 800 // what the three events of a tool's end take
	s.tools.bound(least)
	for _, t := range s.tools {
		if !t.done {
			dst = s.appendItem(dst, "done", string(t.index), withMember(t.data, "status", `"incomplete"`))
		}
		output := fmt.Appendf(nil, `{"type":"function_call_output","id":"fco_%s,"call_id":%s,`+
			`"output":[{"type":"input_text","text":"Error: interrupted"}],"status":"incomplete"}`, t.key[1:], t.key)
		index := strconv.FormatInt(s.nextIndex, 10)
		dst = s.appendItem(dst, "added", index, output)
		dst = s.appendItem(dst, "done", index, output)
		s.nextIndex++
	}
	response := s.response
	if response == nil {
		response = s.leastResponse()
	}
	// Strict clients accept no other code for a failure that is not the client's fault.
	response = failedResponse(redact.Value(response), "server_error", message)
	failed := append(s.appendResponseHead(nil, "response.failed"), `,"response":`...)
	failed = s.seq.appendTo(append(failed, jsonspan.OneLine(response)...), `,"sequence_number":%d`)
	return append(append(dst, redact.Value(failed)...), "}\n\n"...)
}

// appendItem appends an event that says that an item has been added or is done.
func (s *Stream) appendItem(dst []byte, what, index string, item []byte) []byte {
	dst = s.appendResponseHead(dst, "response.output_item."+what)
	dst = fmt.Appendf(dst, `,"output_index":%s,"item":%s`, index, jsonspan.OneLine(item))
	return append(s.seq.appendTo(dst, `,"sequence_number":%d`), "}\n\n"...)
}

// appendResponseHead appends the beginning of an event of a response.
func (s *Stream) appendResponseHead(dst []byte, name string) []byte {
	dst = s.id.appendTo(dst, "id: %d\n")
	if s.named {
		dst = fmt.Appendf(dst, "event: %s\n", name)
	}
	return fmt.Appendf(dst, `data: {"type":"%s"`, name)
}

// leastResponse returns a response without output, with the values that upstream has sent.
func (s *Stream) leastResponse() []byte {
	id, created, model := s.ownID, s.began, s.model
	if id == nil {
		own := ""
		if s.newID != nil {
			own = strings.TrimPrefix(s.newID(), "chatcmpl-")
		}
		id = jsonspan.Quote("resp_" + own)
	}
	if created == nil {
		created = strconv.AppendInt(nil, s.created, 10)
	}
	if model == nil {
		model = []byte(`"hermes-agent"`)
	}
	return fmt.Appendf(nil, `{"id":%s,"object":"response","status":"failed","created_at":%s,"model":%s,"output":[]}`, id, created, model)
}

// failedResponse returns the response as one that has failed. An error of the API has these two
// members.
func failedResponse(response []byte, code string, message []byte) []byte {
	response = withMember(response, "status", `"failed"`)
	return withMember(response, "error", `{"code":"`+code+`","message":`+string(message)+`}`)
}

// withMember returns a copy of the object in which the member with the name has the
// value. A member that is not there is added after the last. All other bytes stay.
func withMember(object []byte, name, value string) []byte {
	v := jsonspan.MemberOf(object, jsonspan.Span{From: 0, To: len(object)}, name)
	if !v.Ok() {
		v = jsonspan.Span{From: len(object) - 1, To: len(object) - 1}
		value = `"` + name + `":` + value
		if object[jsonspan.SkipSpace(object, 1)] != '}' {
			value = "," + value
		}
	}
	return slices.Concat(object[:v.From], []byte(value), object[v.To:])
}

// appendFailedRun appends the ends of open tools, and run.failed. How long a tool would have
// run is not known.
func (s *Stream) appendFailedRun(dst, message []byte) []byte {
	const least = len("id: 123456789\n" + `data: {"event": "tool.completed", "run_id": , "timestamp": , ` +
		`"tool": , "duration": 0.0, "error": true, "seq": 123456789}` + "\n\n")
	s.tools.bound(least + len(s.ownID) + len(s.at))
	for _, t := range s.tools {
		dst = s.appendRun(dst, "tool.completed", `, "tool": %s, "duration": 0.0, "error": true`, t.key)
	}
	return append(dst, redact.Value(s.appendRun(nil, "run.failed", `, "error": %s`, message))...)
}

// appendRun appends an event of a run, with the member in the format.
func (s *Stream) appendRun(dst []byte, name, format string, value []byte) []byte {
	id := s.ownID
	if len(id) == 0 { // it is too long to remember
		id = []byte(`""`)
	}
	dst = fmt.Appendf(s.id.appendTo(dst, "id: %d\n"), `data: {"event": "%s", "run_id": %s`, name, id)
	if len(s.at) > 0 {
		dst = fmt.Appendf(dst, `, "timestamp": %s`, s.at)
	}
	return append(s.seq.appendTo(fmt.Appendf(dst, format, value), `, "seq": %d`), "}\n\n"...)
}

// appendFailedSession appends the ends of open tools, an error unless one has come, and done.
func (s *Stream) appendFailedSession(dst, message []byte) []byte {
	const least = len("id: 123456789\nevent: tool.completed\n" + `data: {"message_id": , "tool_name": , "preview": null, ` +
		`"args": null, "session_id": , "run_id": , "seq": 123456789, "ts": }` + "\n\n")
	s.tools.bound(least + len(s.ownID) + len(s.run) + len(s.at))
	for _, t := range s.tools {
		var of []byte
		if t.data != nil {
			of = fmt.Appendf(nil, `"message_id": %s, `, t.data)
		}
		dst = s.appendSession(dst, "tool.completed", `%s"tool_name": %s, "preview": null, "args": null, `, of, t.key)
	}
	if !s.hasError {
		dst = append(dst, redact.Value(s.appendSession(nil, "error", `"message": %s, `, message))...)
	}
	return s.appendSession(dst, "done", "")
}

// appendSession appends an event of a session, with the members in the format. It leaves out
// ids that upstream has not sent.
func (s *Stream) appendSession(dst []byte, name, format string, values ...any) []byte {
	dst = fmt.Appendf(s.id.appendTo(dst, "id: %d\n"), "event: %s\ndata: {", name)
	dst = fmt.Appendf(dst, format, values...)
	if len(s.ownID) > 0 {
		dst = fmt.Appendf(dst, `"session_id": %s, `, s.ownID)
	}
	if len(s.run) > 0 {
		dst = fmt.Appendf(dst, `"run_id": %s, `, s.run)
	}
	return fmt.Appendf(s.seq.appendTo(dst, `"seq": %d`), ", \"ts\": %s}\n\n", s.at)
}
