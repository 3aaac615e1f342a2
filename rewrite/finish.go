package rewrite

import (
	"bytes"
	"math/bits"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// appendHermes appends the hermes block of an error finish.
func (s *Stream) appendHermes(dst, message []byte) []byte {
	dst = append(dst, `{"completed":false,"partial":`...)
	dst = strconv.AppendBool(dst, s.said.text || s.said.reasoning)
	dst = append(dst, `,"failed":true,"error":`...)
	dst = append(dst, message...)
	return append(dst, `,"error_code":"`+CodeAgentError+`"}`...)
}

// fail notes that the stream does not end well.
func (s *Stream) fail(code string) {
	s.failed = true
	if s.sum.Code == "" {
		s.sum.Code = code
	}
}

// writeErrorFinish writes the finish of a stream that upstream has not
// finished, but for [DONE].
func (s *Stream) writeErrorFinish(code string) {
	message := s.errorSent
	if message == nil {
		message = s.quotedMessage(code)
	} else {
		code = CodeAgentError
	}
	if s.explains() {
		s.notef(contract.SectionEnd, "error finish, code %s", code)
	}
	s.fail(code)
	s.finished = true
	s.sum.FinishReason = "error"
	inline := s.o.ErrorFinish == ErrorFinishInline
	if !inline {
		s.writeError(s.errorObject(message, code))
	}
	s.writeLF()
	s.out = append(s.out, "data: {"...)
	s.out = s.appendChoices(s.envelope().appendHead(s.out))
	if len(s.usage) > 0 {
		s.out = append(s.out, `,"usage":`...)
		s.out = append(s.out, s.usage...)
	}
	if inline && s.errorSent == nil {
		s.out = append(s.out, `,"error":`...)
		s.out = contract.AppendErrorValue(s.out, message, code)
	}
	s.out = append(s.out, `,"hermes":`...)
	s.out = append(s.appendHermes(s.out, message), "}\n\n"...)
}

// appendChoices appends the choices of an error finish: all that have begun and not
// finished, so that nobody waits for one, and the first where none has begun.
func (s *Stream) appendChoices(dst []byte) []byte {
	open := s.begun &^ s.ended
	if open == 0 {
		open = 1
	}
	before := byte('[')
	for ; open != 0; open &= open - 1 {
		dst = append(append(dst, before), `{"index":`...)
		dst = strconv.AppendInt(dst, int64(bits.TrailingZeros64(open)), 10)
		dst = append(dst, `,"delta":{},"finish_reason":"error"}`...)
		before = ','
	}
	return append(dst, ']')
}

// quotedMessage returns the message of the code as a JSON string. It stays valid
// until the next frame, as does what the two functions below return.
func (s *Stream) quotedMessage(code string) []byte {
	message := Message(code)
	if code == CodeShutdown && s.tools.count == 0 && s.sum.Unexamined == 0 {
		message = contract.ShutdownBeforeTools
	}
	return s.added(jsonspan.AppendQuoted(s.room, message))
}

// errorObject returns the object of an error frame.
func (s *Stream) errorObject(message []byte, code string) []byte {
	return s.added(contract.AppendErrorObject(s.room, message, code))
}

// hermes returns the hermes block of an error finish.
func (s *Stream) hermes(message []byte) []byte {
	return s.added(s.appendHermes(s.room, message))
}

// finishFrame handles a chunk with a finish reason. Its content has been read;
// edits of it stand.
func (s *Stream) finishFrame() {
	c, data := &s.c, s.f.Data
	reason := finishReason(c.finish.Inner().Of(data))
	if c.err.IsSet(data) || c.hermes.IsSet(data) {
		s.reportsFailures(true)
	}
	if s.finished {
		s.redactError()
		s.writeEdited() // some providers say it twice
		return
	}
	s.finished = s.allEnded()
	s.sum.FinishReason = reason
	failure := ""
	switch {
	case reason != "stop":
	case s.errorSent != nil: // it has said that it failed
		s.note(contract.SectionEnd, "stop behind an error of upstream's: becomes error")
		failure = CodeCrashed
	default:
		failure = s.falseStop()
	}
	s.completeAll(failure != "" || reason == "error")
	switch {
	case failure != "":
		if s.sum.UsageReported { // it was asked, and that decided
			s.p.usage.Missed(unquote(s.envelope().modelsName()))
		}
		s.fail(failure)
		s.crash(failure)
	case reason == "error":
		s.upstreamError()
	default:
		s.redactError()
	}
	s.writeEdited()
}

// finishReason returns a finish reason, the inside of a JSON string, as a string, of
// which most say the same.
func finishReason(b []byte) string {
	switch string(b) {
	case "stop":
		return "stop"
	case "error":
		return "error"
	case "length":
		return "length"
	}
	return string(jsonspan.AppendText(nil, b))
}

// crash turns the finish chunk of an agent that failed and says stop into an
// error finish with the code.
func (s *Stream) crash(code string) {
	s.sum.FinishReason = "error"
	s.moveText()
	message := s.errorSent
	if message == nil {
		message = s.quotedMessage(code)
	}
	s.fillEnvelope()
	s.eachStop(func(at jsonspan.Span) { s.edits.Replace(&s.f, at.From, at.To, s.literal(`"error"`)) })
	if s.o.ErrorFinish == ErrorFinishInline && s.errorSent == nil {
		s.setMember(s.c.err, "error", s.added(contract.AppendErrorValue(s.room, message, code)))
	} else {
		s.writeError(s.errorObject(message, code))
		s.removeMember(s.c.err)
	}
	s.setMember(s.c.hermes, "hermes", s.hermes(message))
	s.redactTwins()
}

// eachStop calls each with every finish reason of the chunk s.c that is stop.
func (s *Stream) eachStop(each func(jsonspan.Span)) {
	data := s.f.Data
	if s.c.count == 1 { // as of almost all
		each(s.c.finish)
		return
	}
	for choice := range jsonspan.Elements(data, s.c.choices) {
		if reason := jsonspan.MemberOf(data, choice, "finish_reason"); reason.IsString(data) && jsonspan.Spells(reason.Inner().Of(data), "stop") {
			each(reason)
		}
	}
}

// fillEnvelope gives the finish chunk s.c those members of the stream's chunks that it
// lacks: the writer of Hermes 0.13 sends a chunk of nothing but choices when it fails
// (contract section 3).
func (s *Stream) fillEnvelope() {
	c, data, e := &s.c, s.f.Data, s.envelope()
	at := c.open + 1
	for _, m := range [...]struct {
		is    jsonspan.Span
		there bool
		name  string
		value []byte
	}{
		{c.id, jsonspan.StringAt(data, c.id) != nil, `"id":`, e.id()},
		{c.object, jsonspan.StringAt(data, c.object) != nil, `"object":`, []byte(`"chat.completion.chunk"`)},
		{c.created, c.created.Ok() && jsonspan.IsDigit(data[c.created.From]), `"created":`, e.createdAt()},
		{c.model, jsonspan.StringAt(data, c.model) != nil, `"model":`, e.modelsName()},
	} {
		switch {
		case m.there:
		case m.is.Ok(): // it is null, or empty
			s.edits.Replace(&s.f, m.is.From, m.is.To, m.value)
		default:
			s.edits.Replace(&s.f, at, at, s.added(append(append(append(s.room, m.name...), m.value...), ',')))
		}
	}
}

// writeError writes the frame of an error, unless there has been one.
func (s *Stream) writeError(object []byte) {
	if s.errorSent != nil {
		return
	}
	s.writeLF()
	s.out = append(s.out, "data: "...)
	s.out = append(s.out, object...)
	s.out = append(s.out, "\n\n"...)
}

// moveText writes the text of the finish chunk s.c in a chunk of its own, and
// takes it out of that chunk, when an error comes between the two: clients stop
// reading there. It comes before all edits but those of the text.
func (s *Stream) moveText() {
	if s.o.ErrorFinish == ErrorFinishInline || s.errorSent != nil || s.rest.left() == 0 {
		return
	}
	s.writeDelta(false, s.rest)
	in := s.c.content.Inner()
	s.edits.Reset()
	s.keepNothing(in)
}

// upstreamError splits the finish chunk of an agent that says why it failed:
// the error in a frame of its own, the rest without it.
func (s *Stream) upstreamError() {
	s.note(contract.SectionEnd, "upstream says that the agent failed: an error finish, without secrets")
	s.fail(CodeAgentError)
	s.moveText()
	s.redactOf(s.c.hermes)
	s.redactTwins()
	if s.o.ErrorFinish == ErrorFinishInline {
		s.redactOf(s.c.err)
		return
	}
	data, message := s.f.Data, s.reason()
	s.fillEnvelope()
	if s.c.err.IsSet(data) {
		s.writeError(s.upstreamErrorObject(message))
	} else {
		s.writeError(s.errorObject(message, CodeAgentError))
	}
	s.removeMember(s.c.err)
	if !s.c.hermes.IsSet(data) {
		s.setMember(s.c.hermes, "hermes", s.hermes(message))
	}
}

// reason returns the message, a JSON string, of the error in s.c.
func (s *Stream) reason() []byte {
	data := s.f.Data
	for _, v := range [...]jsonspan.Span{s.c.fault.message, s.c.err, s.c.fault.hermes} {
		if m := jsonspan.StringAt(data, v); m != nil {
			return s.redact(m)
		}
	}
	if s.errorSent != nil {
		return s.errorSent
	}
	return s.quotedMessage(CodeAgentError)
}

// upstreamErrorObject returns upstream's error with the members that clients
// expect and it lacks.
func (s *Stream) upstreamErrorObject(message []byte) []byte {
	data, e := s.f.Data, s.c.err
	if !e.IsObject(data) {
		return s.errorObject(message, CodeAgentError)
	}
	from := len(s.room)
	s.room = append(s.room, `{"error":`...)
	f := &s.c.fault
	if v := f.message; v.Ok() && jsonspan.StringAt(data, v) == nil {
		s.room = append(append(s.room, s.redact(data[e.From:v.From])...), message...)
		s.room = append(s.room, s.redact(data[v.To:e.To-1])...)
	} else {
		s.room = append(s.room, s.redact(data[e.From:e.To-1])...)
	}
	object := jsonspan.OneLine(s.room[from:])
	for _, m := range [...]struct {
		is          jsonspan.Span
		name, value string
	}{
		{f.message, "message", ""}, {f.typ, "type", `"` + ErrorType + `"`}, {f.param, "param", "null"}, {f.code, "code", `"` + CodeAgentError + `"`},
	} {
		if m.is.Ok() {
			continue
		}
		if !bytes.HasSuffix(bytes.TrimRight(object, " \t\r"), []byte("{")) {
			object = append(object, ',')
		}
		object = append(append(append(object, '"'), m.name...), `":`...)
		if object = append(object, m.value...); m.value == "" {
			object = append(object, message...)
		}
	}
	s.room = append(append(s.room[:from], object...), "}}"...)
	return s.room[from:]
}

// errorCode returns the code of the error in s.c where it is one of ours, which
// another sidecar has sent.
func (s *Stream) errorCode() string {
	code := string(jsonspan.Inside(jsonspan.StringAt(s.f.Data, s.c.fault.code)))
	switch code {
	case CodeAborted, CodeIncomplete, CodeTimeout, CodeCrashed, CodeShutdown:
		return code
	}
	return CodeAgentError
}

// errorFrame handles an error of upstream's that is no chunk.
func (s *Stream) errorFrame() {
	s.settle()
	s.completeAll(!s.finished)
	s.redactAll()
	if !s.finished {
		s.noteError()
	}
	s.writeEdited()
}

// noteError remembers that the error in s.c is sent to the client.
func (s *Stream) noteError() {
	s.note(contract.SectionEnd, "an error of upstream's: an error finish will not repeat it")
	s.fail(s.errorCode())
	s.errorSent = bytes.Clone(jsonspan.Truncate(s.reason(), maxMessage))
}
