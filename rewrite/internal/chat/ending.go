package chat

import (
	"bytes"
	"cmp"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// verdict returns the verdict on the current frame, a finish chunk (contract section 3, "False stop"): the
// code of the failure, "" if the agent ended well; why, for the notes, "" if there is nothing to
// say; and whether only the usage of 0/0/0 speaks against the agent. If textFollows is true, text
// is yet to be read, which most likely is an answer.
func (s *Stream) verdict(textFollows bool) (code, why string, zeroUsage bool) {
	t, l, usage := &s.text, &s.tools, s.Object().C.Tokens
	switch reason := s.Object().FinishReason(); {
	case reason == "error":
		return contract.CodeAgentError, "", false
	case reason != "stop":
		return "", "", false
	case s.end.errorSent != nil: // upstream has said that it failed
		return contract.CodeCrashed, "stop after an error of upstream's: becomes error", false
	case s.end.manyChoices:
		return "", "", false // Hermes sends one choice, so that this is another server's answer
	}
	hasText := t.hasText || textFollows
	silent := !hasText && !t.hasReasoning && !t.droppedReasoning && !t.hasOther
	noReply := t.noReply && !t.hasOther && !textFollows
	onTool := l.onTool && !textFollows
	housekeeping := usage.Counts && hasText && !l.working
	switch {
	case usage.Zero && (silent || onTool):
		return contract.CodeCrashed, "a false stop: no answer, usage 0/0/0", false
	case usage.Reported && (silent || noReply || onTool && !housekeeping && !t.answered):
		if s.o.EmptyAnswer == contract.EmptyAnswerPass {
			return "", "no answer, and empty_answer says that this is none of ours: passes", false
		}
		return contract.CodeEmpty, "a false stop: no answer", false
	case !usage.Zero:
		return "", "", false
	case s.o.ZeroUsage == contract.ZeroUsageError,
		s.o.AutoZeroUsage() && s.memory != nil && s.memory.Reported(s.w.Model()):
		return contract.CodeCrashed, "a false stop: usage 0/0/0 where usage is reported, or zero_usage says so", true
	}
	return "", "text with usage 0/0/0, which may be a crash: passes", true
}

// tellDropped writes the reasoning that was dropped and that no tag has closed, as content: it may be
// the answer (contract section 4).
func (s *Stream) tellDropped() {
	text := s.text.prose.TakeDropped()
	if len(text) == 0 {
		return
	}
	s.notes.Add(contract.SectionReasoning, "dropped reasoning that no tag has closed may be the answer: leaves as content")
	s.apply(s.tools.inferEnds())
	s.w.Delta(new(chunk.Object), false, &prose.Kept{Text: text})
	s.text.hasText, s.tools.onTool = true, false
}

// saidUnclosed reports whether there are words after the last tool in reasoning that no tag has
// closed, or before it if every tool since then is housekeeping (contract section 4).
func (s *Stream) saidUnclosed() bool {
	return s.tools.onTool && (s.text.prose.Unclosed() || s.text.hasUnclosed && !s.tools.working)
}

// saysSilence reports whether the text of a hermes.status, the inside of a JSON string,
// says that the model has returned nothing after all retries. Text that then comes is
// Hermes' own (contract section 3, rule 2).
func saysSilence(inner []byte) bool {
	text := jsonspan.AppendText(nil, inner)
	return bytes.Contains(text, []byte("no content after all retries")) || bytes.Contains(text, []byte("no visible response after all retries"))
}

// finishChunk writes the current chunk, which has a finish reason. Its content has already
// been read and edited.
func (s *Stream) finishChunk() {
	x, e := s.Object(), &s.end
	if x.HasError() || x.C.Hermes.IsSet(x.F.Data) {
		s.setReportsFailures(true)
	}
	if s.Finished { // some providers finish twice
		s.w.Object(x)
		return
	}
	reason := x.FinishReason()
	if reason == "stop" {
		s.tellDropped()
	}
	code, why, zeroUsage := s.verdict(false)
	if code == contract.CodeEmpty && s.saidUnclosed() {
		s.notes.Add(contract.SectionReasoning, "the answer may be in reasoning that no tag has closed: no empty answer")
		s.w.Delta(new(chunk.Object), false, &prose.Kept{}) // a second sidecar sees no tag; this tells it
		s.text.answered = true
		code, why, zeroUsage = s.verdict(false)
	}
	s.Finished, s.Sum.FinishReason = e.allEnded(), reason
	if why != "" {
		s.notes.Add(contract.SectionEnd, why)
	}
	if zeroUsage {
		s.Sum.ZeroUsagePassed = code == ""
		s.Sum.UsageReported = code != "" && s.o.ZeroUsage != contract.ZeroUsageError
		if s.memory != nil && s.o.AutoZeroUsage() {
			s.memory.Missed(s.w.Model())
		}
	}
	s.endTools(code != "")
	if code == "" {
		s.w.Object(x)
		return
	}
	reports := new(chunk.Object)
	if reason == "error" {
		s.notes.Add(contract.SectionEnd, "upstream says that the agent failed: an error finish, without secrets")
		reports = x
	}
	s.w.FailedFinish(x, s.fail(code, reports), &s.rest)
}

// finishUnread records that a frame that is not examined has the finish reason, unless that is empty:
// then the stream needs no error finish. All choices that have begun end with it.
func (s *Stream) finishUnread(reason string) {
	if reason == "" || s.Finished {
		return
	}
	s.notes.Add(contract.SectionHarm, "a finish reason in a frame that is not examined: the stream has finished")
	failed := reason == "error"
	s.endTools(failed)
	s.end.ended |= s.end.begun
	s.Finished, s.Sum.FinishReason = true, reason
	if failed {
		s.recordFailure(contract.CodeAgentError)
	}
}

// finishError writes the error finish of a stream that upstream has not finished, but not
// its [DONE].
func (s *Stream) finishError(code string) {
	e := &s.end
	if e.errorSent != nil {
		code = contract.CodeAgentError
	}
	s.endTools(true)
	s.notes.Add(contract.SectionEnd, "error finish, code ", code)
	s.Finished = true
	s.w.ErrorFinish(s.fail(code, new(chunk.Object)), e.begun&^e.ended, e.usage)
}

// fail records that the stream ends with an error finish, and returns its failure. x is a finish
// chunk that reports the failure itself, or empty.
func (s *Stream) fail(code string, x *chunk.Object) *encode.Failure {
	s.recordFailure(code)
	s.Sum.FinishReason = "error"
	f := &encode.Failure{
		Code: code, Message: s.message(x, code), Reported: x.C.Finish.Ok(), Sent: s.end.errorSent != nil,
		Partial: s.text.hasText || s.text.hasReasoning,
	}
	if !f.Sent && s.o.ErrorFinish != contract.ErrorFinishInline {
		s.end.errorSent = bytes.Clone(jsonspan.Truncate(f.Message, contract.MaxMessage)) // other choices may be open
	}
	return f
}

// recordFailure records that the stream does not end well. The first code counts.
func (s *Stream) recordFailure(code string) {
	s.end.failed, s.Sum.Code = true, cmp.Or(s.Sum.Code, code)
}

// recordError records that the error in x leaves, unless the stream has finished.
func (s *Stream) recordError(x *chunk.Object) {
	if s.Finished {
		return
	}
	s.notes.Add(contract.SectionEnd, "an error of upstream's: an error finish will not repeat it")
	s.recordFailure(x.ErrorCode())
	s.end.errorSent = bytes.Clone(jsonspan.Truncate(s.message(x, contract.CodeAgentError), contract.MaxMessage))
}

// message returns the message of a failure, a JSON string: that of the error in x, if it
// has one, of the error that has left, or of the code.
func (s *Stream) message(x *chunk.Object, code string) []byte {
	switch m := x.ErrorMessage(); {
	case m != nil:
		return m
	case s.end.errorSent != nil:
		return s.end.errorSent
	case code == contract.CodeShutdown && s.Sum.Tools == 0 && s.Sum.Unexamined == 0:
		return jsonspan.Quote(contract.ShutdownBeforeTools)
	}
	return jsonspan.Quote(contract.Message(code))
}

// doneFrame handles [DONE].
func (s *Stream) doneFrame() {
	if s.Done {
		s.dropLate()
		return
	}
	s.decideHeld()
	if !s.Finished {
		s.finishError(contract.CodeIncomplete)
	}
	s.Done = true
	if string(s.Object().F.Data) == encode.DoneData {
		s.w.Object(s.Object())
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
