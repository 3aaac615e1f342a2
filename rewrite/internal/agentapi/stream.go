package agentapi

import (
	"bytes"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// kind is the kind of a stream that is not one of chat completions.
type kind uint8

const (
	kindUnknown   kind = iota // passes as it is
	kindResponses             // /v1/responses
	kindRuns                  // /v1/runs/{id}/events
	kindSession               // /api/sessions/{id}/chat/stream
)

// Stream is a stream that is not, or not yet, one of chat completions.
type Stream struct {
	kind         kind
	errors       bool   // the request's path says that errors are looked at
	ended        bool   // the event that ends it has left, upstream's or ours
	failedByUs   bool   // it was ours
	mayHaveEnded bool   // the last frame passed unexamined, and may have been that event
	code         string // of the error that it ended with

	message []byte        // the message, a JSON string, of an error event of upstream's
	newID   func() string // may be nil
	created int64
	notes   *contract.Notes

	numbers   numbers
	tools     openTools
	responses responses
	runs      runs
	session   session
	large     largeFrame
}

// New returns the Stream of a response that may become one of chat completions.
func New(p *contract.Params, notes *contract.Notes) *Stream {
	s := &Stream{errors: p.Responses, newID: p.ID, created: p.Created, notes: notes}
	if p.RunID != "" {
		s.kind = kindRuns
		remember(&s.runs.id, jsonspan.Quote(p.RunID))
	}
	if p.SessionID != "" {
		s.kind = kindSession
		remember(&s.session.id, jsonspan.Quote(p.SessionID))
		s.session.ts = strconv.AppendInt(nil, p.Created, 10)
		s.numbers.seq, s.numbers.hasSeq = 1, true
	}
	return s
}

// Known reports whether the kind of the stream is known, so that it gets the end that it
// lacks.
func (s *Stream) Known() bool { return s.kind != kindUnknown }

// Ended reports whether the event that ends the stream has left.
func (s *Stream) Ended() bool { return s.ended }

// Open reports whether the kind of the stream is known and the event that ends it has
// not left.
func (s *Stream) Open() bool { return s.Known() && !s.ended }

// Cut reports whether the stream was cut if upstream has ended for the cause.
func (s *Stream) Cut(cause contract.Cause) bool {
	return s.Open() && !(s.mayHaveEnded && cause == contract.CauseEOF)
}

// Summary returns the id of the response, of the run or of the session's run, the model,
// and the code of the error that the stream ended with. Each may be empty.
func (s *Stream) Summary() (id, model, code string) {
	quoted := s.responses.id
	switch s.kind {
	case kindRuns:
		quoted = s.runs.id
	case kindSession:
		quoted = s.session.run
	}
	return jsonspan.Unquote(string(quoted)), jsonspan.Unquote(string(s.responses.model)), s.code
}

// Begins records that upstream has ended within a frame whose bytes are tail, unless tail
// is only a comment or blank. Then a frame that passed unexamined before was not the last
// event.
func (s *Stream) Begins(tail []byte) {
	if len(tail) > 0 && tail[0] != ':' && tail[0] != '\n' && tail[0] != '\r' {
		s.mayHaveEnded = false
	}
}

// Comes reports whether the frame f, which lacks only its blank line, is an event of the
// stream before its end.
func (s *Stream) Comes(f *sse.Frame) bool {
	var m members
	if s.Known() || !m.parse(f.Data) {
		return s.Open()
	}
	k, _ := s.kindOf(&m, f)
	return k != kindUnknown
}

// Frame handles the frame f, and writes it to out with the edits that it adds to edits.
func (s *Stream) Frame(out *sse.Writer, f *sse.Frame, edits *sse.Splice) {
	var m members
	switch {
	case s.failedByUs:
		out.Drop() // nothing may follow the failure that we have written
		return
	case !f.HasData:
	case chunk.IsDone(f.Data):
		if s.Open() && !s.mayHaveEnded {
			s.writeFailed(out, contract.CodeIncomplete)
		}
	case m.parse(f.Data):
		if !s.ended {
			s.failCompleted(f, edits, &m)
			s.event(f, &m)
		}
		if s.Known() || s.errors {
			s.redact(f, edits, &m)
		}
	case s.Known() || s.errors:
		if s.kind == kindSession && !s.ended {
			s.ends(f.Event)
		}
		if chunk.TellsState(f.Event) {
			chunk.RedactText(f, edits, s.notes)
		}
	}
	out.Frame(f, edits)
}

// failCompleted makes response.failed of response.completed in f, with the members m, if its
// only text says that the agent failed (contract section 6).
func (s *Stream) failCompleted(f *sse.Frame, edits *sse.Splice, m *members) {
	const from, to = "response.completed", "response.failed"
	if string(m.responseEvent(f)) != from || !m.response.IsObject(f.Data) {
		return
	}
	t := chunk.ReadTurn(f.Data, m.response)
	if !t.Failed() {
		return
	}
	s.notes.Add(contract.SectionOther, "completed, but its text says that the agent failed: becomes failed")
	if begin, end := f.EventLine(); begin < end {
		begin += bytes.Index(f.Raw[begin:end], []byte(from))
		edits.ReplaceRaw(f, begin, begin+len(from), []byte(to))
	}
	edits.Replace(f, m.typ.From, m.typ.To, []byte(`"`+to+`"`))
	set := func(name string, value []byte) {
		v := jsonspan.MemberOf(f.Data, m.response, name)
		if !v.Ok() { // after the last member: there are status and usage
			v = jsonspan.Span{From: m.response.To - 1, To: m.response.To - 1}
			value = append([]byte(`,"`+name+`":`), value...)
		}
		edits.Replace(f, v.From, v.To, value)
	}
	set("status", []byte(`"failed"`))
	set("error", []byte(`{"code":"`+contract.CodeAgentError+`","message":`+string(chunk.FailureMessage(t.Text))+`}`))
	chunk.Apply(f, edits)
	m.parse(f.Data)
}

// Finish ends the stream after upstream has ended for the cause. added is the number of
// bytes that completed the last frame. If the stream is complete they are taken back, so
// that it leaves as it came.
func (s *Stream) Finish(out *sse.Writer, cause contract.Cause, added int) {
	switch {
	case s.Cut(cause):
		s.writeFailed(out, cause.Code())
	case s.ended && !s.failedByUs && cause == contract.CauseEOF:
		out.Bytes = out.Bytes[:len(out.Bytes)-added]
	}
}

// kindOf returns the kind of stream that the frame certainly belongs to, and the name of
// its event. Only the path says that a stream has the events of a run, because other
// servers send similar ones.
func (s *Stream) kindOf(m *members, f *sse.Frame) (kind, []byte) {
	if s.kind == kindSession {
		if chunk.IsNamed(f) {
			return kindSession, f.Event
		}
		return kindUnknown, nil
	}
	if name := m.responseEvent(f); name != nil {
		return kindResponses, name
	}
	if s.kind == kindRuns {
		if name := m.runEvent(f); name != nil {
			return kindRuns, name
		}
	}
	return kindUnknown, nil
}

// event learns from the frame f with the members m.
func (s *Stream) event(f *sse.Frame, m *members) {
	k, name := s.kindOf(m, f)
	if s.kind == kindUnknown {
		s.kind = k
	}
	switch {
	case s.kind == kindUnknown:
		return
	case k == kindUnknown:
		s.recordError(f, m)
	case k == s.kind:
		s.mayHaveEnded = false
		switch k {
		case kindResponses:
			s.numbers.count(f, m.sequence.Of(f.Data))
			s.responses.record(f, m)
		case kindRuns:
			s.numbers.count(f, m.seq.Of(f.Data))
			s.runs.record(f, m)
		case kindSession:
			s.numbers.count(f, m.seq.Of(f.Data))
			s.session.record(f, m)
		}
		s.tool(name, m.toolOf(k, f.Data))
		s.ends(name)
	}
}

// tool remembers what the event with the name says of the tool t. The call of a response
// has ended once there is an output: clients run one that has none themselves.
func (s *Stream) tool(name []byte, t openTool) {
	s.responses.nextIndex = max(s.responses.nextIndex, jsonspan.SmallInt(t.index)+1)
	switch string(name) {
	case "tool.completed", "tool.failed":
		s.tools.end(t.key)
	case "tool.started":
		s.tools.start(t)
	case "response.output_item.added", "response.output_item.done":
		switch i := s.tools.find(t.key); {
		case t.done:
			s.tools.end(t.key)
		case i >= 0:
			s.tools.open[i].done = string(name) == "response.output_item.done"
		case t.data != nil && t.index != nil && string(name) == "response.output_item.added":
			s.tools.start(t)
		}
	}
}

// ends records that the stream has ended, if the event with the name ends it.
func (s *Stream) ends(name []byte) {
	if s.kind == kindSession {
		switch string(name) {
		case "error", "run.failed":
			s.code = contract.CodeAgentError
		case "done":
			s.ended, s.tools = true, openTools{}
		}
		return
	}
	switch string(name) {
	case "response.failed", "run.failed", "run.interrupted":
		s.code = contract.CodeAgentError
	case "response.completed", "response.incomplete", "response.cancelled", "response.canceled", "response.done",
		"run.completed", "run.cancelled", "run.canceled":
	default:
		return
	}
	s.ended, s.responses.object, s.tools = true, nil, openTools{}
}

// writeFailed writes the event that says that the stream has failed.
func (s *Stream) writeFailed(out *sse.Writer, code string) {
	message := jsonspan.Quote(contract.Message(code))
	if s.message != nil {
		message, code = s.message, contract.CodeAgentError
	}
	if s.session.hasError { // upstream has said why
		code = contract.CodeAgentError
	}
	out.BeginOwn()
	switch s.kind {
	case kindResponses:
		out.Bytes = s.responses.appendFailed(out.Bytes, message, &s.tools, &s.numbers, s.newID, s.created)
	case kindRuns:
		out.Bytes = s.runs.appendFailed(out.Bytes, message, &s.tools, &s.numbers)
	case kindSession:
		out.Bytes = s.session.appendFailed(out.Bytes, message, &s.tools, &s.numbers)
	}
	s.notes.Add(contract.SectionOther, "cut before its last event: gets one that says so")
	s.code = code
	s.ended, s.failedByUs, s.responses.object = true, true, nil
}

// recordError remembers the message of an error event, which writeFailed repeats.
func (s *Stream) recordError(f *sse.Frame, m *members) {
	data := f.Data
	isError := m.typ.Is(data, `"error"`) || string(f.Event) == "error"
	if !isError && (chunk.IsNamed(f) || m.typ.Ok() || !m.err.IsSet(data)) {
		return
	}
	if s.kind == kindResponses {
		s.numbers.count(f, m.sequence.Of(data))
	}
	for _, v := range []jsonspan.Span{jsonspan.MemberOf(data, m.err, "message"), m.err, m.message} {
		if text := jsonspan.StringAt(data, v); text != nil && len(text) <= contract.MaxMessage && jsonspan.Valid(text) {
			s.message = bytes.Clone(redact.Value(text))
			return
		}
	}
}

// redact adds the edits that take secrets out of what the frame f with the members m says
// of a failure or of the agent's state.
func (s *Stream) redact(f *sse.Frame, edits *sse.Splice, m *members) {
	data := f.Data
	says := func(v jsonspan.Span) bool { return v.IsString(data) && chunk.TellsState(v.Inner().Of(data)) }
	all := chunk.TellsState(f.Event) || says(m.typ) || says(m.event)
	if s.kind == kindSession && chunk.IsNamed(f) {
		all = string(f.Event) == "error" || string(f.Event) == "hermes.status"
	}
	if all {
		chunk.Redact(f, edits, s.notes, func(each func(jsonspan.Span)) { chunk.EachSecret(data, object(data), each) })
		return
	}
	if m.err.Ok() || m.moreErrors || m.response.Ok() {
		chunk.Redact(f, edits, s.notes, func(each func(jsonspan.Span)) {
			chunk.EachError(data, func(v jsonspan.Span) { chunk.EachSecret(data, v, each) })
		})
	}
	if !redact.MaySay(f.Data) || s.kind == kindSession && string(f.Event) != "assistant.completed" {
		return
	}
	chunk.Apply(f, edits)
	m.parse(f.Data)
	said := object(f.Data)
	if s.kind == kindSession {
		said = m.content
	}
	chunk.Redact(f, edits, s.notes, func(each func(jsonspan.Span)) { chunk.EachSaid(f.Data, said, false, each) })
}

// object returns where the object in data is.
func object(data []byte) jsonspan.Span {
	return jsonspan.Span{From: jsonspan.SkipSpace(data, 0), To: len(data)}
}

// remember sets *dst to a copy of the JSON value v if that is well formed and not too
// long. It allocates only if v differs from *dst.
func remember(dst *[]byte, v []byte) {
	if len(v) == 0 || len(v) > chunk.MaxEnvelope || bytes.Equal(*dst, v) || !jsonspan.Valid(v) {
		return
	}
	*dst = append((*dst)[:0], v...)
}
