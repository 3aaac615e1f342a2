package agentapi

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// members are the members of a frame's data that the other streams have, by position. If
// a member is there twice, the last one counts.
type members struct {
	typ, event         jsonspan.Span
	sequence, response jsonspan.Span
	runID, timestamp   jsonspan.Span
	err, message       jsonspan.Span

	sessionID, seq, ts  jsonspan.Span // in events of a session
	messageID, toolName jsonspan.Span
	content             jsonspan.Span

	tool              jsonspan.Span // in events of a run
	outputIndex, item jsonspan.Span // in events of a response

	moreErrors bool // there may be an error that is not err
}

// parse finds the members of the object in data. It returns false if data is not an
// object, or if the object does not end. It finds the first members even then.
func (m *members) parse(data []byte) bool {
	*m = members{}
	known := [...]struct {
		name string
		at   *jsonspan.Span
	}{
		{"type", &m.typ}, {"event", &m.event}, {"sequence_number", &m.sequence}, {"response", &m.response}, {"run_id", &m.runID}, {"timestamp", &m.timestamp},
		{"error", &m.err}, {"message", &m.message}, {"session_id", &m.sessionID}, {"seq", &m.seq}, {"ts", &m.ts}, {"message_id", &m.messageID},
		{"tool_name", &m.toolName}, {"content", &m.content}, {"tool", &m.tool}, {"output_index", &m.outputIndex}, {"item", &m.item},
	}
	r := jsonspan.Reader{Data: data, Pos: jsonspan.SkipSpace(data, 0)}
	if !r.At('{') {
		return false
	}
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		from := r.Pos
		value := r.Skip()
		if !value.Ok() && string(name.Of(data)) == "item" { // the beginning of a large one
			value = jsonspan.Span{From: from, To: len(data)}
		}
		if !value.Ok() {
			continue
		}
		m.moreErrors = m.moreErrors || bytes.IndexByte(name.Of(data), '\\') >= 0
		key := string(name.Of(data))
		m.moreErrors = m.moreErrors || key == "hermes" || key == "error" && m.err.Ok()
		for _, k := range known {
			if k.name == key {
				*k.at = value
			}
		}
	}
	return r.Closed()
}
