package agentapi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// writeFailed writes what a stream that was cut lacks, as Hermes writes it: the ends of open
// tools, and the event that says that the stream has failed.
func (s *Follower) writeFailed(out *sse.Writer, code string) {
	if s.message != "" || s.code != "" { // upstream has said that it failed
		code = contract.CodeAgentError
	}
	message := cmp.Or(s.message, string(jsonspan.Quote(contract.Message(code))))
	out.BeginOwn()
	out.Bytes = s.appendToolEnds(out.Bytes)
	switch s.kind {
	case kindResponses:
		response := s.response
		if response == nil {
			response = s.leastResponse()
		}
		// Strict clients accept no other code for a failure that is not the client's fault.
		response = failedResponse(redact.Value(response), "server_error", message)
		out.Bytes = s.appendFailure(out.Bytes, "response.failed", `,"response":`+string(jsonspan.Finite(jsonspan.OneLine(response))))
	case kindRuns:
		out.Bytes = s.appendFailure(out.Bytes, "run.failed", `, "error": `+message)
	case kindSession:
		if !s.hasError {
			out.Bytes = s.appendFailure(out.Bytes, "error", `"message": `+message+`, `)
		}
		out.Bytes = s.appendEvent(out.Bytes, "done", "")
	}
	s.notes.Add(contract.SectionOther, "cut before its last event: one that says so is added")
	s.code = code
	s.failedByUs = true
	s.end()
}

// appendFailure appends the event that says why the stream has failed, without secrets.
func (s *Follower) appendFailure(dst []byte, name, members string) []byte {
	return append(dst, redact.Value(s.appendEvent(nil, name, members))...)
}

// appendEvent appends an event of ours in the form of the stream. It leaves out what upstream has
// not sent. The members are those of the event alone, with the commas that the form needs.
func (s *Follower) appendEvent(dst []byte, name, members string) []byte {
	optional := func(format, value string) {
		if value != "" {
			dst = fmt.Appendf(dst, format, value)
		}
	}
	number := func(format string, next *int64) {
		if *next > 0 {
			dst = fmt.Appendf(dst, format, *next)
			*next++
		}
	}
	number("id: %d\n", &s.id)
	if s.kind == kindSession || s.kind == kindResponses && s.named {
		dst = fmt.Appendf(dst, "event: %s\n", name)
	}
	switch s.kind {
	case kindResponses:
		dst = fmt.Appendf(dst, `data: {"type":"%s"%s`, name, members)
		number(`,"sequence_number":%d`, &s.seq)
	case kindRuns:
		dst = fmt.Appendf(dst, `data: {"event": "%s", "run_id": %s`, name, cmp.Or(s.ownID, `""`)) // too long to remember
		optional(`, "timestamp": %s`, s.at)
		dst = append(dst, members...)
		number(`, "seq": %d`, &s.seq)
	case kindSession:
		dst = fmt.Appendf(dst, `data: {%s`, members)
		optional(`"session_id": %s, `, s.ownID)
		optional(`"run_id": %s, `, s.run)
		number(`"seq": %d`, &s.seq)
		optional(`, "ts": %s`, s.at)
	}
	return append(dst, "}\n\n"...)
}

// appendToolEnds appends the ends of open tools. It leaves out those of the tools that started
// first until the rest takes at most contract.MaxOpenBytes (contract section 7).
func (s *Follower) appendToolEnds(dst []byte) []byte {
	try, repeats, total := *s, 1, 0
	if s.kind == kindResponses {
		repeats = 4 // of the key
	}
	least := len(try.appendToolEnd(nil, openTool{key: `""`, data: `{}`, index: `123456789`}))
	size := func(t openTool) int { return least + repeats*len(t.key) + len(t.data) } // at most
	for _, t := range s.tools {
		total += size(t)
	}
	for ; total > contract.MaxOpenBytes; s.tools = s.tools[1:] {
		total -= size(s.tools[0])
	}
	for _, t := range s.tools {
		dst = s.appendToolEnd(dst, t)
	}
	return dst
}

// appendToolEnd appends the end of the tool t. The duration of a tool of a run is not known, and
// is 0. A call of a response gets an output, because clients run a call that has none themselves.
func (s *Follower) appendToolEnd(dst []byte, t openTool) []byte {
	switch s.kind {
	case kindRuns:
		return s.appendEvent(dst, "tool.completed", `, "tool": `+t.key+`, "duration": 0.0, "error": true`)
	case kindSession:
		members := `"tool_name": ` + t.key + `, "preview": null, "args": null, `
		if t.data != "" {
			members = `"message_id": ` + t.data + `, ` + members
		}
		return s.appendEvent(dst, "tool.completed", members)
	}
	item := func(name, index, item string) {
		dst = s.appendEvent(dst, name, `,"output_index":`+index+`,"item":`+item)
	}
	if !t.done {
		item(itemDone, t.index, string(jsonspan.Finite(jsonspan.OneLine(withMember([]byte(t.data), "status", `"incomplete"`)))))
	}
	output := `{"type":"function_call_output","id":"fco_` + t.key[1:] + `,"call_id":` + t.key +
		`,"output":[{"type":"input_text","text":"Error: interrupted"}],"status":"incomplete"}`
	index := strconv.FormatInt(s.nextIndex, 10)
	item(itemAdded, index, output)
	item(itemDone, index, output)
	s.nextIndex++
	return dst
}

// leastResponse returns a response without output, with the values that upstream has sent.
func (s *Follower) leastResponse() []byte {
	if s.ownID == "" {
		own := ""
		if s.newID != nil {
			own = strings.TrimPrefix(s.newID(), "chatcmpl-")
		}
		s.ownID = string(jsonspan.Quote("resp_" + own))
	}
	return fmt.Appendf(nil, `{"id":%s,"object":"response","status":"failed","created_at":%s,"model":%s,"output":[]}`,
		s.ownID, cmp.Or(s.began, strconv.FormatInt(s.created, 10)), cmp.Or(s.model, `"hermes-agent"`))
}

// failedResponse returns the response as one that has failed. An error of the API has these two
// members.
func failedResponse(response []byte, code, message string) []byte {
	response = withMember(response, "status", `"failed"`)
	return withMember(response, "error", `{"code":"`+code+`","message":`+message+`}`)
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
