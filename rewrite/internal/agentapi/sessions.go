package agentapi

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// session is what is remembered of a stream of /api/sessions/{id}/chat/stream.
type session struct {
	id, run  []byte // the session's and the run's, as JSON strings
	ts       []byte // that of the last event, a JSON number; nil when none had one
	last     int64  // the number of the last event
	hasError bool   // an error event has come

	open  []sessionTool // the tools that have started and not ended, in order
	bytes int           // their names and messages
}

// sessionTool is a tool by its name, which is all that its end will say of it, and the
// message that it belongs to: JSON strings, the latter may be nil.
type sessionTool struct{ name, message []byte }

// sessionEvent returns the name of the frame's event, nil when it is none of a session.
func sessionEvent(f *sse.Frame) (kind, []byte) {
	if !chunk.IsNamed(f) {
		return kindUnknown, nil
	}
	return kindSession, f.Event
}

// note remembers what an event says.
func (e *session) record(f *sse.Frame, m *members) {
	if m.sessionID.IsString(f.Data) {
		remember(&e.id, m.sessionID.Of(f.Data))
	}
	if m.runID.IsString(f.Data) {
		remember(&e.run, m.runID.Of(f.Data))
	}
	if m.ts.Ok() && jsonspan.IsDigit(f.Data[m.ts.From]) {
		remember(&e.ts, m.ts.Of(f.Data))
	}
	if n := jsonspan.SmallInt(m.seq.Of(f.Data)); n >= 0 {
		e.last = n
	}
	e.recordEvent(f.Event, jsonspan.StringAt(f.Data, m.toolName), jsonspan.StringAt(f.Data, m.messageID))
}

// noteLarge remembers what the beginning of an event says that passed unexamined. Its
// number, which stands at the end, is taken to be the next.
func (e *session) recordLarge(l *largeFrame) {
	e.last++
	e.recordEvent(l.name, l.tool, l.message)
}

// tell notes what an event of the name says of a tool, or of a failure.
func (e *session) recordEvent(event, tool, message []byte) {
	switch string(event) {
	case "tool.started":
		e.start(tool, message)
	case "tool.completed", "tool.failed":
		e.end(tool)
	case "error":
		e.hasError = true
	}
}

// start notes that a tool has started. Beyond the bounds of a chat's open tools the
// one that started first is forgotten.
func (e *session) start(name, message []byte) {
	size := len(name) + len(message)
	if name == nil || size > contract.MaxOpenBytes || !jsonspan.Valid(name) || message != nil && !jsonspan.Valid(message) {
		return
	}
	for len(e.open) >= contract.MaxOpenTools || e.bytes+size > contract.MaxOpenBytes {
		e.forget(0)
	}
	both := slices.Concat(name, message)
	t := sessionTool{name: both[:len(name):len(name)]}
	if message != nil {
		t.message = both[len(name):]
	}
	e.open = append(e.open, t)
	e.bytes += size
}

// end notes that a tool with the name has ended: of several the first.
func (e *session) end(name []byte) {
	i := slices.IndexFunc(e.open, func(t sessionTool) bool { return bytes.Equal(t.name, name) })
	if i >= 0 {
		e.forget(i)
	}
}

func (e *session) forget(i int) {
	e.bytes -= len(e.open[i].name) + len(e.open[i].message)
	e.open = slices.Delete(e.open, i, i+1)
}

// appendFailed appends what a stream lacks that has been cut, as Hermes writes it: the
// ends of open tools, an error unless one has come, and done.
func (e *session) appendFailed(dst, message []byte, created int64) []byte {
	for _, t := range e.open {
		dst = append(dst, "event: tool.completed\ndata: {"...)
		if t.message != nil {
			dst = append(append(append(dst, `"message_id": `...), t.message...), ", "...)
		}
		dst = append(append(dst, `"tool_name": `...), t.name...)
		dst = e.appendTail(append(dst, `, "preview": null, "args": null, `...), created)
	}
	if !e.hasError {
		dst = append(dst, "event: error\ndata: {\"message\": "...)
		dst = e.appendTail(append(append(dst, message...), ", "...), created)
	}
	e.open = nil
	return e.appendTail(append(dst, "event: done\ndata: {"...), created)
}

// appendTail appends the members that all events end with, and the end of the frame.
// What upstream has not said is left out, but for the time.
func (e *session) appendTail(dst []byte, created int64) []byte {
	if len(e.id) > 0 {
		dst = append(append(append(dst, `"session_id": `...), e.id...), ", "...)
	}
	if len(e.run) > 0 {
		dst = append(append(append(dst, `"run_id": `...), e.run...), ", "...)
	}
	e.last++
	dst = append(strconv.AppendInt(append(dst, `"seq": `...), e.last, 10), `, "ts": `...)
	if len(e.ts) > 0 {
		dst = append(dst, e.ts...)
	} else {
		dst = strconv.AppendInt(dst, created, 10)
	}
	return append(dst, "}\n\n"...)
}
