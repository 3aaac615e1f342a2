package agentapi

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// session is what a stream of /api/sessions/{id}/chat/stream has said.
type session struct {
	id, run  []byte // the ids of the session and of the run, as JSON strings
	ts       []byte // the last ts of an event, a JSON number; before that, when the stream was created
	last     int64  // the number of the last event
	hasError bool   // an error event has come

	open  []sessionTool // the tools that have started and not ended, in order
	bytes int           // the bytes of open
}

// sessionTool is a tool by its name, because the event of its end has no id, and the id
// of the message that it belongs to. Both are JSON strings. The message may be nil.
type sessionTool struct{ name, message []byte }

// record remembers what an event says.
func (e *session) record(f *sse.Frame, m *members) {
	if m.sessionID.IsString(f.Data) {
		remember(&e.id, m.sessionID.Of(f.Data))
	}
	if m.runID.IsString(f.Data) {
		remember(&e.run, m.runID.Of(f.Data))
	}
	remember(&e.ts, chunk.NumberAt(f.Data, m.ts))
	if n := jsonspan.SmallInt(m.seq.Of(f.Data)); n >= 0 {
		e.last = n
	}
	e.recordEvent(f.Event, jsonspan.StringAt(f.Data, m.toolName), jsonspan.StringAt(f.Data, m.messageID))
}

// recordEvent remembers what an event with the name says of a tool, or of a failure.
func (e *session) recordEvent(event, tool, message []byte) {
	switch string(event) {
	case "tool.started":
		e.start(tool, message)
	case "tool.completed", "tool.failed":
		if i := slices.IndexFunc(e.open, func(t sessionTool) bool { return bytes.Equal(t.name, tool) }); i >= 0 {
			e.forget(i)
		}
	case "error":
		e.hasError = true
	}
}

// start remembers that a tool has started. Beyond contract.MaxOpenTools and MaxOpenBytes
// it forgets the tool that started first.
func (e *session) start(name, message []byte) {
	size := len(name) + len(message)
	if name == nil || size > contract.MaxOpenBytes || !jsonspan.Valid(name) || message != nil && !jsonspan.Valid(message) {
		return
	}
	for len(e.open) >= contract.MaxOpenTools || e.bytes+size > contract.MaxOpenBytes {
		e.forget(0)
	}
	e.open = append(e.open, sessionTool{bytes.Clone(name), bytes.Clone(message)})
	e.bytes += size
}

// forget removes the open tool i.
func (e *session) forget(i int) {
	e.bytes -= len(e.open[i].name) + len(e.open[i].message)
	e.open = slices.Delete(e.open, i, i+1)
}

// appendFailed appends what a stream that was cut lacks, as Hermes writes it: the
// ends of open tools, an error unless one has come, and done.
func (e *session) appendFailed(dst, message []byte) []byte {
	for _, t := range e.open {
		dst = append(dst, "event: tool.completed\ndata: {"...)
		if t.message != nil {
			dst = fmt.Appendf(dst, `"message_id": %s, `, t.message)
		}
		dst = e.appendTail(fmt.Appendf(dst, `"tool_name": %s, "preview": null, "args": null, `, t.name))
	}
	if !e.hasError {
		dst = e.appendTail(fmt.Appendf(dst, "event: error\ndata: {\"message\": %s, ", message))
	}
	e.open = nil
	return e.appendTail(append(dst, "event: done\ndata: {"...))
}

// appendTail appends the members that all events end with, and the end of the frame.
// It leaves out ids that upstream has not sent.
func (e *session) appendTail(dst []byte) []byte {
	if len(e.id) > 0 {
		dst = fmt.Appendf(dst, `"session_id": %s, `, e.id)
	}
	if len(e.run) > 0 {
		dst = fmt.Appendf(dst, `"run_id": %s, `, e.run)
	}
	e.last++
	return fmt.Appendf(dst, "\"seq\": %d, \"ts\": %s}\n\n", e.last, e.ts)
}
