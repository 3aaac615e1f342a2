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
		switch string(name.Of(data)) {
		case "type":
			m.typ = value
		case "event":
			m.event = value
		case "sequence_number":
			m.sequence = value
		case "response":
			m.response = value
		case "run_id":
			m.runID = value
		case "timestamp":
			m.timestamp = value
		case "error":
			m.moreErrors = m.moreErrors || m.err.Ok()
			m.err = value
		case "hermes":
			m.moreErrors = true
		case "message":
			m.message = value
		case "session_id":
			m.sessionID = value
		case "seq":
			m.seq = value
		case "ts":
			m.ts = value
		case "message_id":
			m.messageID = value
		case "tool_name":
			m.toolName = value
		case "content":
			m.content = value
		case "tool":
			m.tool = value
		case "output_index":
			m.outputIndex = value
		case "item":
			m.item = value
		}
	}
	return r.Closed()
}
