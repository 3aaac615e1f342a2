package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxUsage is the length in bytes up to which upstream's usage is kept for an error
// finish.
const MaxUsage = 4 << 10

// ending is how the stream ends (contract section 3). After finished nothing may start a
// tool; after done nothing leaves but a chunk of usage.
type ending struct {
	manyChoices     bool   // a choice other than the first has come
	finished        bool   // the finish chunks of all choices have left
	failed          bool   // an error has left
	done            bool   // [DONE] has left
	usageReported   bool   // the model was known to report usage when the finish chunk came
	zeroUsagePassed bool   // text with usage 0/0/0 has passed
	begun, ended    uint64 // the choices that have begun and those that have finished, as bits
	usage           []byte // upstream's, for an error finish
	errorSent       []byte // the message, a JSON string, of an error frame that has left

	finishReason  string // the one that was sent
	code          string // the code of the error that the stream ended with
	input, output int64  // tokens, as upstream reported last
}

// fail records that the stream does not end well. The first code counts.
func (e *ending) fail(code string) {
	e.failed = true
	if e.code == "" {
		e.code = code
	}
}

// finish records a finish chunk with the reason.
func (e *ending) finish(reason string) {
	e.finished, e.finishReason = e.allEnded(), reason
}

// allEnded reports whether all choices that have begun have finished.
func (e *ending) allEnded() bool { return e.begun&^e.ended == 0 }

// keepError keeps the message of an error that leaves.
func (e *ending) keepError(message []byte) {
	e.errorSent = bytes.Clone(jsonspan.Truncate(message, contract.MaxMessage))
}

// update records which choices the chunk x begins and ends, and its usage.
func (e *ending) update(x *chunk.Object) {
	c := &x.C
	e.manyChoices = e.manyChoices || c.ManyChoices
	e.begun |= c.Begun
	e.ended |= c.Ended
	if !c.Usage.IsObject(x.F.Data) {
		return
	}
	if !(c.Finish.Ok() && e.allEnded()) && c.Usage.To-c.Usage.From <= MaxUsage {
		e.usage = append(e.usage[:0], jsonspan.OneLine(x.Value(c.Usage))...)
	}
	e.input, e.output = c.Tokens.Input, c.Tokens.Output
}

// message returns the message of the code, a JSON string.
func (s *Stream) message(code string) []byte {
	message := contract.Message(code)
	if code == contract.CodeShutdown && s.tools.count == 0 && s.text.unexamined == 0 {
		message = contract.ShutdownBeforeTools
	}
	return jsonspan.Quote(message)
}

// reason returns the message, a JSON string, of the error in x, of the one that has left,
// or of CodeAgentError.
func (s *Stream) reason(x *chunk.Object) []byte {
	if m := x.ErrorMessage(); m != nil {
		return m
	}
	if s.end.errorSent != nil {
		return s.end.errorSent
	}
	return s.message(contract.CodeAgentError)
}

// failure returns the failure with the code and its message, or that of the error that has
// left.
func (s *Stream) failure(code string) *encode.Failure {
	f := &encode.Failure{Code: code, Message: s.message(code), Partial: s.text.hasText || s.text.hasReasoning}
	if s.end.errorSent != nil {
		f.Message, f.Sent = s.end.errorSent, true
	}
	return f
}

// finishError writes the error finish of a stream that upstream has not finished, but not
// its [DONE].
func (s *Stream) finishError(code string) {
	s.apply(s.tools.endAll(true))
	e := &s.end
	if e.errorSent != nil {
		code = contract.CodeAgentError
	}
	s.notes.Add(contract.SectionEnd, "error finish, code "+code)
	e.fail(code)
	e.finished, e.finishReason = true, "error"
	s.w.ErrorFinish(s.failure(code), e.begun&^e.ended, e.usage)
}

// finishChunk writes the chunk s.x, which has a finish reason. Its content has already
// been read and edited.
func (s *Stream) finishChunk() {
	x, e := &s.x, &s.end
	if x.HasError() || x.C.Hermes.IsSet(x.F.Data) {
		s.usage.setReportsFailures(true)
	}
	if e.finished { // some providers finish twice
		s.w.Object(x)
		return
	}
	reason, code := x.FinishReason(), ""
	e.finish(reason)
	switch {
	case reason == "error":
		code = contract.CodeAgentError
	case reason == "stop" && e.errorSent != nil: // upstream has said that it failed
		s.notes.Add(contract.SectionEnd, "stop after an error of upstream's: becomes error")
		code = contract.CodeCrashed
	case reason == "stop":
		code = s.judge()
	}
	s.apply(s.tools.endAll(code != ""))
	if code == "" {
		s.w.Object(x)
		return
	}
	e.fail(code)
	e.finishReason = "error"
	f := s.failure(code)
	if f.Reported = reason == "error"; f.Reported {
		s.notes.Add(contract.SectionEnd, "upstream says that the agent failed: an error finish, without secrets")
		f.Message = s.reason(x)
		if !f.Sent && s.o.ErrorFinish != contract.ErrorFinishInline {
			e.keepError(f.Message) // other choices may be open
		}
	}
	s.w.FailedFinish(x, f, &s.rest)
}

// judge returns the code of the failure that the finish chunk s.x hides by saying stop, or
// "" if the agent ended well.
func (s *Stream) judge() string {
	evidence := s.evidence(s.x.C.Tokens)
	v := evidence.verdict()
	if v.why != "" {
		s.notes.Add(contract.SectionEnd, v.why)
	}
	if v.zeroUsage {
		s.end.zeroUsagePassed = v.code == ""
		if s.end.usageReported = evidence.usageMissed && s.o.ZeroUsage != contract.ZeroUsageError; s.end.usageReported {
			s.usage.memory.Missed(s.w.Model())
		}
	}
	return v.code
}

// recordError records that the error in s.x leaves, unless the stream has finished.
func (s *Stream) recordError() {
	if s.end.finished {
		return
	}
	s.notes.Add(contract.SectionEnd, "an error of upstream's: an error finish will not repeat it")
	s.end.fail(s.x.ErrorCode())
	s.end.keepError(s.reason(&s.x))
}
