package rewrite

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// kind is what a stream is that is not one of chat completions.
type kind uint8

const (
	// kindUnknown is a stream that passes as it is.
	kindUnknown kind = iota
	// kindResponses is one of /v1/responses.
	kindResponses
	// kindRuns is one of /v1/runs/{id}/events.
	kindRuns
	// kindSession is one of /api/sessions/{id}/chat/stream.
	kindSession
)

// other is what is known of a stream that is not one of chat completions. It
// passes byte for byte; what is remembered is for the event that it gets when
// it is cut before its own last one (contract section 6).
type other struct {
	kind    kind
	run     bool   // the request's path is that of a run's events
	looksAt bool   // the request's path says that errors are to be looked at
	ended   bool   // the event that ends it has left, upstream's or ours
	failed  bool   // it was ours
	doubt   bool   // the last frame passed unexamined, and may have been that event
	message []byte // the message, a JSON string, of an error event of upstream's

	responses responses
	runs      runs
	session   session
	large     largeFrame
}

// members are those of a frame's data that tell of the other streams, by
// position. Of members that stand there twice the last counts.
type members struct {
	typ, event         jsonspan.Span
	sequence, response jsonspan.Span
	runID, timestamp   jsonspan.Span
	err, message       jsonspan.Span

	sessionID, seq, ts  jsonspan.Span // of a session's event
	messageID, toolName jsonspan.Span

	twins bool // an error may stand in it that is not err
}

// parse finds the members of the object in data. It returns false if data is no object,
// or one that is cut or malformed: it finds the members in front of that even then.
func (m *members) parse(data []byte) bool {
	*m = members{}
	r := jsonspan.Reader{Data: data, Pos: jsonspan.SkipSpace(data, 0)}
	if !r.At('{') {
		return false
	}
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			return r.Closed()
		}
		if value := r.Skip(); value.Ok() {
			m.twins = m.twins || bytes.IndexByte(name.Of(data), '\\') >= 0
			m.take(string(name.Of(data)), value)
		}
	}
}

func (m *members) take(name string, value jsonspan.Span) {
	switch name {
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
		m.twins = m.twins || m.err.Ok()
		m.err = value
	case "hermes":
		m.twins = true
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
	}
}

// kindOf returns the kind of stream that the frame belongs to for certain, and
// the name of its event. Streams of runs are known by their path: what they send
// is too common.
func (s *Stream) kindOf(m *members, f *sse.Frame) (kind, []byte) {
	if s.other.kind == kindSession {
		return sessionEvent(f)
	}
	if name := m.responseEvent(f); name != nil {
		return kindResponses, name
	}
	if !s.other.run {
		return kindUnknown, nil
	}
	if name := m.runEvent(f); name != nil {
		return kindRuns, name
	}
	return kindUnknown, nil
}

// Guarded tells whether the end of the stream is seen to: it is one of chat
// completions, or of another kind that is known. A stream that is not guarded
// leaves as it came.
func (s *Stream) Guarded() bool { return s.active || s.other.kind != kindUnknown }

// looksAtErrors tells whether secrets are taken out of the errors of a stream of
// another kind.
func (s *Stream) looksAtErrors() bool { return s.Guarded() || s.other.looksAt }

// otherOpen tells whether the stream is of another kind that is known, and has
// not had the event that ends it.
func (s *Stream) otherOpen() bool {
	return !s.active && s.other.kind != kindUnknown && !s.other.ended
}

// otherCut tells whether the stream is one of those and has been cut, now that
// upstream has ended for the cause.
func (s *Stream) otherCut(cause Cause) bool {
	return s.otherOpen() && !(s.other.doubt && cause == CauseEOF)
}

// otherGoesOn notes that a frame has begun, in tail, behind one that passed
// unexamined: that was not the last event.
func (s *Stream) otherGoesOn(tail []byte) {
	if !s.active && len(tail) > 0 && tail[0] != ':' && tail[0] != '\n' && tail[0] != '\r' {
		s.other.doubt = false
	}
}

// otherComes tells whether the frame s.f, which lacks its blank line, belongs to
// a stream of another kind whose end has not come.
func (s *Stream) otherComes() bool {
	o := s.other
	if o.kind != kindUnknown || !s.m.parse(s.f.Data) {
		return s.otherOpen()
	}
	k, _ := s.kindOf(&s.m, &s.f)
	return k != kindUnknown
}

// otherFrame handles the frame s.f of a stream that is not one of chat
// completions.
func (s *Stream) otherFrame() {
	o := s.other
	switch {
	case o.failed:
		s.framing.Drop() // nothing that upstream sends takes an error back
		return
	case !s.f.HasData:
	case isDone(s.f.Data):
		if s.otherOpen() && !o.doubt {
			s.failOther(CodeIncomplete)
		}
	case s.m.parse(s.f.Data):
		if !o.ended {
			s.otherEvent()
		}
		s.redactOther()
	case s.looksAtErrors():
		if o.kind == kindSession && !o.ended {
			s.otherEnds(s.f.Event)
		}
		if tellsState(s.f.Event) {
			s.redactData()
		}
	}
	s.forward()
}

// otherEvent learns from the frame s.f, whose members are s.m.
func (s *Stream) otherEvent() {
	o := s.other
	k, name := s.kindOf(&s.m, &s.f)
	if o.kind == kindUnknown {
		o.kind = k
	}
	switch {
	case o.kind == kindUnknown:
		return
	case k == kindUnknown:
		o.noteError(&s.f, &s.m)
	case k == o.kind:
		o.doubt = false
		switch k {
		case kindResponses:
			o.responses.note(&s.f, &s.m)
		case kindRuns:
			o.runs.note(&s.f, &s.m)
		case kindSession:
			o.session.note(&s.f, &s.m)
		}
		s.otherEnds(name)
	}
}

// otherEnds notes the event that ends a stream, if name is that of one.
func (s *Stream) otherEnds(name []byte) {
	if s.other.kind == kindSession {
		s.sessionEnds(name)
		return
	}
	switch string(name) {
	case "response.failed", "run.failed", "run.interrupted":
		s.sum.Code = CodeAgentError
	case "response.completed", "response.incomplete", "response.cancelled", "response.canceled", "response.done",
		"run.completed", "run.cancelled", "run.canceled":
	default:
		return
	}
	s.other.ended = true
	s.other.responses.object = nil
}

// noteError remembers the message of an error event: what ends the stream in
// upstream's stead says the same.
func (o *other) noteError(f *sse.Frame, m *members) {
	data := f.Data
	named := isNamed(f)
	isError := m.typ.Is(data, `"error"`) || string(f.Event) == "error"
	if !isError && (named || m.typ.Ok() || !m.err.IsSet(data)) {
		return
	}
	if o.kind == kindResponses {
		o.responses.count(f.Data, m)
	}
	for _, v := range []jsonspan.Span{jsonspan.MemberOf(data, m.err, "message"), m.err, m.message} {
		if text := jsonspan.StringAt(data, v); text != nil && len(text) <= maxMessage && jsonspan.Valid(text) {
			o.message = bytes.Clone(redact.Value(text))
			return
		}
	}
}

// maxMessage is the length in bytes up to which the message of an error event is
// remembered.
const maxMessage = 4 << 10

// isNamed tells whether a frame has a name of its own.
func isNamed(f *sse.Frame) bool { return len(f.Event) > 0 && string(f.Event) != "message" }

// finishOther ends a stream of another kind. The last frame has got added bytes
// at its end: a stream that upstream has ended as it is, complete, does not
// keep them.
func (s *Stream) finishOther(cause Cause, added int) {
	o := s.other
	switch {
	case s.otherCut(cause):
		s.failOther(cause.Code())
	case o.ended && !o.failed && cause == CauseEOF:
		s.out = s.out[:len(s.out)-added]
	}
}

// failOther writes the event that says that the stream has failed.
func (s *Stream) failOther(code string) {
	o := s.other
	message := jsonspan.Quote(Message(code))
	if o.message != nil {
		message, code = o.message, CodeAgentError
	}
	if o.session.failed { // it has said why
		code = CodeAgentError
	}
	s.writeLF()
	from := len(s.out)
	switch o.kind {
	case kindResponses:
		s.out = o.responses.appendFailed(s.out, message, &s.p)
	case kindRuns:
		s.out = o.runs.appendFailed(s.out, message)
	case kindSession:
		s.out = o.session.appendFailed(s.out, message, s.p.created)
	}
	s.out = append(s.out[:from], redactFailed(s.out[from:])...)
	s.note(contract.SectionOther, "cut before its last event: gets one that says so")
	s.sum.Code = code
	o.ended, o.failed, o.responses.object = true, true, nil
}

// redactFailed returns the events in b, of which those that say that something has
// failed have no secrets: what they repeat of upstream's is looked at as upstream's
// own would be.
func redactFailed(b []byte) []byte {
	if !redact.MayHold(b) {
		return b
	}
	var out []byte
	for event := range bytes.SplitAfterSeq(b, []byte("\n\n")) {
		if !bytes.HasPrefix(event, []byte("event: tool.")) && !bytes.HasPrefix(event, []byte("event: done")) {
			event = redact.Value(event)
		}
		out = append(out, event...)
	}
	return out
}

// otherID returns the id of the response or of the run, and the model.
func (s *Stream) otherID() (id, model string) {
	o := s.other
	switch o.kind {
	case kindRuns:
		return unquote(o.runs.id), ""
	case kindSession:
		return unquote(o.session.run), ""
	}
	return unquote(o.responses.id), unquote(o.responses.model)
}

// remember keeps the JSON value v where it is well formed and not too long. It
// allocates only when v differs from what is kept.
func remember(dst *[]byte, v []byte) {
	if len(v) == 0 || len(v) > maxEnvelope || bytes.Equal(*dst, v) || !jsonspan.Valid(v) {
		return
	}
	*dst = append((*dst)[:0], v...)
}
