package agentapi

import (
	"fmt"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// session is what a stream of /api/sessions/{id}/chat/stream has said.
type session struct {
	id, run  []byte // the ids of the session and of the run, as JSON strings
	ts       []byte // the last ts of an event, a JSON number; before that, when the stream was created
	hasError bool   // an error event has come
}

// record remembers what an event says.
func (e *session) record(f *sse.Frame, m *members) {
	if m.sessionID.IsString(f.Data) {
		remember(&e.id, m.sessionID.Of(f.Data))
	}
	if m.runID.IsString(f.Data) {
		remember(&e.run, m.runID.Of(f.Data))
	}
	remember(&e.ts, chunk.NumberAt(f.Data, m.ts))
	e.hasError = e.hasError || string(f.Event) == "error"
}

// appendFailed appends what a stream that was cut lacks, as Hermes writes it: the
// ends of open tools, an error unless one has come, and done.
func (e *session) appendFailed(dst, message []byte, tools *openTools, n *numbers) []byte {
	const least = len("id: 123456789\nevent: tool.completed\n" + `data: {"message_id": , "tool_name": , "preview": null, "args": null, "session_id": , "run_id": , "seq": 123456789, "ts": }` + "\n\n")
	for _, t := range tools.take(least + len(e.id) + len(e.run) + len(e.ts)) {
		dst = append(n.appendID(dst), "event: tool.completed\ndata: {"...)
		if t.data != nil {
			dst = fmt.Appendf(dst, `"message_id": %s, `, t.data)
		}
		dst = e.appendTail(fmt.Appendf(dst, `"tool_name": %s, "preview": null, "args": null, `, t.key), n)
	}
	if !e.hasError {
		failed := e.appendTail(fmt.Appendf(n.appendID(nil), "event: error\ndata: {\"message\": %s, ", message), n)
		dst = append(dst, redact.Value(failed)...)
	}
	return e.appendTail(append(n.appendID(dst), "event: done\ndata: {"...), n)
}

// appendTail appends the members that all events end with, and the end of the frame.
// It leaves out ids that upstream has not sent.
func (e *session) appendTail(dst []byte, n *numbers) []byte {
	if len(e.id) > 0 {
		dst = fmt.Appendf(dst, `"session_id": %s, `, e.id)
	}
	if len(e.run) > 0 {
		dst = fmt.Appendf(dst, `"run_id": %s, `, e.run)
	}
	return fmt.Appendf(n.appendSeq(dst, `"seq": `), ", \"ts\": %s}\n\n", e.ts)
}
