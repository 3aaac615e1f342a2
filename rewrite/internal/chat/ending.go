package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

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

// evidence returns what the stream has shown, with the usage of its finish chunk.
func (s *Stream) evidence(u chunk.Usage) evidence {
	t, l := &s.text, &s.tools
	return evidence{
		usage: u, manyChoices: s.end.manyChoices,
		text: t.hasText, reasoning: t.hasReasoning || t.droppedReasoning, other: t.hasOther, noReply: t.noReply,
		onTool: l.count > 0 && !l.textSince, housekeeping: l.housekeeping,
		mayBeEmpty:  s.o.EmptyAnswer == contract.EmptyAnswerPass,
		usageMissed: u.Zero && s.zeroUsageIsCrash(),
	}
}

// zeroUsageIsCrash reports whether text with usage 0/0/0 is a false stop by its third rule.
func (s *Stream) zeroUsageIsCrash() bool {
	switch s.o.ZeroUsage {
	case contract.ZeroUsageError:
		return true
	case contract.ZeroUsagePass:
		return false
	}
	return s.usage.memory != nil && s.usage.memory.Reported(s.w.Model())
}

// willFail reports whether the finish chunk in s.x means that the agent failed, before its
// text has been read.
func (s *Stream) willFail() bool {
	c := &s.x.C
	reason := s.x.FinishReason()
	switch {
	case s.end.finished:
		return false
	case reason != "stop":
		return reason == "error"
	case s.end.errorSent != nil:
		return true
	case c.Text, s.text.prose.Waits(): // the held text is most likely an answer
		return !s.end.manyChoices && c.Tokens.Zero && s.zeroUsageIsCrash()
	}
	e := s.evidence(c.Tokens)
	return e.verdict().code != ""
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

// recordError records that the error in s.x leaves, unless the stream has finished.
func (s *Stream) recordError() {
	if s.end.finished {
		return
	}
	s.notes.Add(contract.SectionEnd, "an error of upstream's: an error finish will not repeat it")
	s.end.fail(s.x.ErrorCode())
	s.end.keepError(s.reason(&s.x))
}

// doneFrame handles [DONE].
func (s *Stream) doneFrame() {
	if s.end.done {
		s.dropLate()
		return
	}
	s.decideHeld()
	if !s.end.finished {
		s.finishError(contract.CodeIncomplete)
	}
	s.end.done = true
	if string(s.x.F.Data) == encode.DoneData {
		s.w.Forward(&s.x)
		return
	}
	s.notes.Add(contract.SectionEnd, "[DONE] with other white space: strict clients know one spelling")
	s.Out.Drop()
	s.w.Done()
}

// dropLate drops what comes after [DONE] or an error finish.
func (s *Stream) dropLate() {
	if s.end.failed {
		s.notes.Add(contract.SectionEnd, "after the error finish nothing takes it back: dropped")
	} else {
		s.notes.Add(contract.SectionEnd, "after [DONE]: dropped")
	}
	s.Out.Drop()
}
