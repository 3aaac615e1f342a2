package agentapi

import (
	"bytes"
	"fmt"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// runs is what a stream of /v1/runs/{id}/events has said.
type runs struct {
	id        []byte // the id of the run, a JSON string
	timestamp []byte // the timestamp of the last event, a JSON number; empty if it had none
}

// runEvents are the beginnings of the names of a run's events. Other servers send run_id
// and event, too, but with names such as on_chain_start or RunContent.
var runEvents = [...]string{"run.", "message.", "tool.", "reasoning.", "approval.", "subagent."}

// runEvent returns the name of the frame's event, or nil if the event is not one of a run.
func (m *members) runEvent(f *sse.Frame) []byte {
	if chunk.IsNamed(f) || !m.runID.IsString(f.Data) || !m.event.IsString(f.Data) {
		return nil
	}
	name := m.event.Inner().Of(f.Data)
	for _, family := range runEvents {
		if bytes.HasPrefix(name, []byte(family)) {
			return name
		}
	}
	return nil
}

// record remembers what an event says.
func (r *runs) record(f *sse.Frame, m *members) {
	remember(&r.id, m.runID.Of(f.Data))
	timestamp := chunk.NumberAt(f.Data, m.timestamp)
	if timestamp == nil {
		r.timestamp = r.timestamp[:0]
	}
	remember(&r.timestamp, timestamp)
}

// appendFailed appends what a stream that was cut lacks, as Hermes writes it: the ends of
// open tools, and run.failed. How long a tool would have run is not known.
func (r *runs) appendFailed(dst, message []byte, tools *openTools, n *numbers) []byte {
	const least = len("id: 123456789\n" + `data: {"event": "tool.completed", "run_id": , "timestamp": , "tool": , "duration": 0.0, "error": true, "seq": 123456789}` + "\n\n")
	for _, t := range tools.take(least + len(r.id) + len(r.timestamp)) {
		dst = fmt.Appendf(r.appendHead(dst, "tool.completed", n), `, "tool": %s, "duration": 0.0, "error": true`, t.key)
		dst = append(n.appendSeq(dst, `, "seq": `), "}\n\n"...)
	}
	failed := fmt.Appendf(r.appendHead(nil, "run.failed", n), `, "error": %s`, message)
	return append(append(dst, redact.Value(n.appendSeq(failed, `, "seq": `))...), "}\n\n"...)
}

// appendHead appends the beginning of an event with the name, and the members that all
// events begin with.
func (r *runs) appendHead(dst []byte, name string, n *numbers) []byte {
	id := r.id
	if len(id) == 0 { // it is too long to remember
		id = []byte(`""`)
	}
	dst = fmt.Appendf(n.appendID(dst), `data: {"event": "%s", "run_id": %s`, name, id)
	if len(r.timestamp) > 0 {
		dst = fmt.Appendf(dst, `, "timestamp": %s`, r.timestamp)
	}
	return dst
}
