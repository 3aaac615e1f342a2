package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// verdict returns the verdict on x, a finish chunk (contract section 3, "False stop"): the
// code of the failure, "" if the agent ended well; why, for the notes, "" if there is nothing to
// say; and whether only the usage of 0/0/0 speaks against the agent. If textFollows is true, text
// is yet to be read, which most likely is an answer.
func (s *Stream) verdict(x *chunk.Object, textFollows bool) (code, why string, zeroUsage bool) {
	a, usage := &s.answer, x.C.Tokens
	switch reason := x.FinishReason(); {
	case reason == "error":
		return contract.CodeAgentError, "", false
	case reason != "stop":
		return "", "", false
	case s.end.errorSent != nil: // upstream has said that it failed
		return contract.CodeCrashed, "stop after an error of upstream's: becomes error", false
	case s.end.manyChoices:
		return "", "", false // Hermes sends one choice, so that this is another server's answer
	}
	hasText := a.hasText || textFollows
	silent := !hasText && !a.hasReasoning && !a.droppedReasoning && !a.hasOther
	noReply := a.noReply && !a.hasOther && !textFollows
	onTool := a.onTool && !textFollows
	housekeeping := usage.Counts && hasText && !a.working
	switch {
	case usage.Zero && (silent || onTool):
		return contract.CodeCrashed, "a false stop: no answer, usage 0/0/0", false
	case usage.Reported && (silent || noReply || onTool && !housekeeping && !a.answered):
		if s.o.EmptyAnswer == contract.EmptyAnswerPass {
			return "", "no answer, and empty_answer says that this is none of ours: passes", false
		}
		return contract.CodeEmpty, "a false stop: no answer", false
	case !usage.Zero:
		return "", "", false
	case s.o.ZeroUsage == contract.ZeroUsageError,
		s.o.AutoZeroUsage() && s.upstream.missesUsage(s.w.Model()):
		return contract.CodeCrashed, "a false stop: usage 0/0/0 where usage is reported, or zero_usage says so", true
	}
	return "", "text with usage 0/0/0, which may be a crash: passes", true
}

// tellDropped writes the reasoning that was dropped and that no tag has closed, as content: it may be
// the answer (contract section 4).
func (s *Stream) tellDropped() {
	text := s.prose.TakeDropped()
	if len(text) == 0 {
		return
	}
	s.notes.Add(contract.SectionReasoning, "dropped reasoning that no tag has closed may be the answer: leaves as content")
	s.tools.infer()
	s.w.Delta(new(chunk.Object), false, &prose.Kept{Text: text})
	s.answer.saysText()
}

// saysSilence reports whether the text of a hermes.status, the inside of a JSON string,
// says that the model has returned nothing after all retries. Text that then comes is
// Hermes' own (contract section 3, rule 2).
func saysSilence(inner []byte) bool {
	text := jsonspan.AppendText(nil, inner)
	return bytes.Contains(text, []byte("no content after all retries")) || bytes.Contains(text, []byte("no visible response after all retries"))
}

// finishChunk writes the chunk x, which has a finish reason. Its content has already been read and
// edited; rest is what is left of it.
func (s *Stream) finishChunk(x *chunk.Object, rest *prose.Kept) {
	if x.HasError() || x.C.Hermes.IsSet(x.F.Data) {
		s.upstream.setReportsFailures(true)
	}
	if s.Finished { // some providers finish twice
		s.w.Object(x)
		return
	}
	reason := x.FinishReason()
	if reason == "stop" {
		s.tellDropped()
	}
	code, why, zeroUsage := s.verdict(x, false)
	if code == contract.CodeEmpty && s.answer.mayBeUnclosed(s.prose.Unclosed()) {
		s.notes.Add(contract.SectionReasoning, "the answer may be in reasoning that no tag has closed: no empty answer")
		s.w.Delta(new(chunk.Object), false, &prose.Kept{}) // a second sidecar sees no tag; this tells it
		s.answer.answered = true
		code, why, zeroUsage = s.verdict(x, false)
	}
	s.Finished, s.Sum.FinishReason = s.end.allEnded(), reason
	if why != "" {
		s.notes.Add(contract.SectionEnd, why)
	}
	if zeroUsage {
		s.Sum.ZeroUsagePassed = code == ""
		s.Sum.UsageReported = code != "" && s.o.ZeroUsage != contract.ZeroUsageError
		if s.o.AutoZeroUsage() {
			s.upstream.missed(s.w.Model())
		}
	}
	s.tools.finish(code != "")
	if code == "" {
		s.w.Object(x)
		return
	}
	reports := new(chunk.Object)
	if reason == "error" {
		s.notes.Add(contract.SectionEnd, "upstream says that the agent failed: an error finish, without secrets")
		reports = x
	}
	s.w.FailedFinish(x, s.fail(code, reports), rest)
}

// finishUnread records that a frame that is not examined has the finish reason, unless that is empty:
// then the stream needs no error finish. All choices that have begun end with it.
func (s *Stream) finishUnread(reason string) {
	if reason == "" || s.Finished {
		return
	}
	s.notes.Add(contract.SectionHarm, "a finish reason in a frame that is not examined: the stream has finished")
	failed := reason == "error"
	s.tools.finish(failed)
	s.end.ended |= s.end.begun
	s.Finished, s.Sum.FinishReason = true, reason
	if failed {
		s.end.fail(contract.CodeAgentError)
	}
}

// finishError writes the error finish of a stream that upstream has not finished, but not
// its [DONE].
func (s *Stream) finishError(code string) {
	if s.end.errorSent != nil {
		code = contract.CodeAgentError
	}
	s.tools.finish(true)
	s.notes.Add(contract.SectionEnd, "error finish, code ", code)
	s.Finished = true
	s.w.ErrorFinish(s.fail(code, new(chunk.Object)), s.end.begun&^s.end.ended, s.end.usage)
}

// fail returns the failure of a stream that ends with an error finish; x is as for ending.failure.
func (s *Stream) fail(code string, x *chunk.Object) *encode.Failure {
	text := contract.Message(code)
	if code == contract.CodeShutdown && s.tools.started == 0 && s.Sum.Unexamined == 0 {
		text = contract.ShutdownBeforeTools
	}
	f := s.end.failure(code, text, x)
	f.Partial = s.answer.hasText || s.answer.hasReasoning
	s.Sum.FinishReason = "error"
	return f
}

// doneFrame handles x, [DONE].
func (s *Stream) doneFrame(x *chunk.Object) {
	if s.Done {
		s.end.dropLate(s.Out)
		return
	}
	s.decideHeld()
	if !s.Finished {
		s.finishError(contract.CodeIncomplete)
	}
	s.Done = true
	if string(x.F.Data) == encode.DoneData {
		s.w.Object(x)
		return
	}
	s.notes.Add(contract.SectionEnd, "[DONE] with other white space: strict clients know one spelling")
	s.Out.Drop()
	s.w.Done()
}
