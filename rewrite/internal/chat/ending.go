package chat

import (
	"bytes"
	"cmp"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// answer is what the stream has said so far, for the verdict on its end (contract section 3).
type answer struct {
	hasText          bool // a non-space character of content has left
	hasUnclosed      bool // a tool has ended reasoning that no tag had closed, whose words may be the answer
	answered         bool // the reasoning before is an answer: another sidecar says so, see finishChunk
	hasReasoning     bool // a non-space character of reasoning has left
	droppedReasoning bool // reasoning with a non-space character was dropped
	hasOther         bool // tool calls, a refusal and the like have left
	gaveUp           bool // upstream has said that the model stays silent; see saysSilence
	noReply          bool // the only text is Hermes' own word for such silence
	onTool           bool // no text has left since the last tool started
	working          bool // a tool since the last text is not housekeeping; see isHousekeeping
}

// saysText records that text has left.
func (a *answer) saysText() { a.hasText, a.onTool = true, false }

// saysOther records that something other than text has left.
func (a *answer) saysOther() { a.hasOther, a.onTool = true, false }

// toolStarts records that a tool with the name, a JSON string, starts. unclosed says that there are
// words before it in reasoning that no tag has closed.
func (a *answer) toolStarts(name string, unclosed bool) {
	if a.answered = false; unclosed {
		a.hasUnclosed, a.onTool = true, false
	}
	a.working = a.onTool && a.working || !isHousekeeping[name]
	a.onTool = true
}

// mayBeUnclosed reports whether there are words after the last tool in reasoning that no tag has
// closed, as unclosed says, or before it if every tool since then is housekeeping (contract section 4).
func (a *answer) mayBeUnclosed(unclosed bool) bool {
	return a.onTool && (unclosed || a.hasUnclosed && !a.working)
}

// isSettled reports whether more text changes nothing.
func (a *answer) isSettled() bool { return a.hasText && !a.onTool && !a.noReply }

// isHousekeeping has the names, JSON strings, of the tools that Hermes may call after its answer.
// The text before such a tool is the answer (contract section 3, rule 2).
var isHousekeeping = map[string]bool{
	`"memory"`: true, `"todo"`: true, `"todo_list"`: true, `"skill_manage"`: true, `"session_search"`: true,
}

// ending is how the stream ends (contract section 3).
type ending struct {
	notes  *contract.Notes
	sum    *contract.Summary // of the stream: its tokens, and the code of its first failure
	inline bool              // an error finish has no error frame

	manyChoices  bool   // there was a choice other than the first
	failed       bool   // an error has left
	begun, ended uint64 // the choices that have begun and those that have finished, as bits
	usage        []byte // upstream's, for an error finish
	errorSent    []byte // the message, a JSON string, of an error frame that has left
}

// MaxUsage is the length in bytes up to which upstream's usage is kept for an error
// finish.
const MaxUsage = 4 << 10

func (e *ending) allEnded() bool { return e.begun&^e.ended == 0 }

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
		e.usage = append(e.usage[:0], jsonspan.Finite(jsonspan.OneLine(x.Value(c.Usage)))...)
	}
	e.sum.InputTokens, e.sum.OutputTokens = c.Tokens.Input, c.Tokens.Output
}

// fail records that the stream does not end well. The first code counts.
func (e *ending) fail(code string) { e.failed, e.sum.Code = true, cmp.Or(e.sum.Code, code) }

// sendError records that the error in x leaves before the stream has finished.
func (e *ending) sendError(x *chunk.Object) {
	e.notes.Add(contract.SectionEnd, "an error from upstream: the error finish does not repeat it")
	e.fail(x.ErrorCode())
	e.errorSent = bytes.Clone(jsonspan.Truncate(e.message(x, contract.Message(contract.CodeAgentError)), contract.MaxMessage))
}

// failure records that the stream ends with an error finish, and returns its failure. x is a finish
// chunk that reports the failure itself, or empty. The text stands for a failure without a message.
func (e *ending) failure(code, text string, x *chunk.Object) *encode.Failure {
	e.fail(code)
	f := &encode.Failure{Code: code, Message: e.message(x, text), Reported: x.C.Finish.Ok(), Sent: e.errorSent != nil}
	if !f.Sent && !e.inline {
		e.errorSent = bytes.Clone(jsonspan.Truncate(f.Message, contract.MaxMessage)) // other choices may be open
	}
	return f
}

// message returns the message of a failure, a JSON string: that of the error in x, if it
// has one, of the error that has left, or the text.
func (e *ending) message(x *chunk.Object, text string) []byte {
	switch m := x.ErrorMessage(); {
	case m != nil:
		return m
	case e.errorSent != nil:
		return e.errorSent
	}
	return jsonspan.Quote(text)
}

// dropLate drops what follows [DONE] or an error finish.
func (e *ending) dropLate(out *sse.Writer) {
	if e.failed {
		e.notes.Add(contract.SectionEnd, "after the error finish: dropped")
	} else {
		e.notes.Add(contract.SectionEnd, "after [DONE]: dropped")
	}
	out.Drop()
}

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
		return contract.CodeCrashed, "stop after an error from upstream: changed to error", false
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
			return "", "no answer, but empty_answer says to pass it: passes", false
		}
		return contract.CodeEmpty, "a false stop: no answer", false
	case !usage.Zero:
		return "", "", false
	case s.o.ZeroUsage == contract.ZeroUsageError,
		s.o.AutoZeroUsage() && s.upstream.memory.Reported(s.w.Model()):
		return contract.CodeCrashed, "a false stop: usage 0/0/0 where usage is reported, or zero_usage says so", true
	}
	return "", "text with usage 0/0/0, which may be a crash: passes", true
}

// tellDropped writes the reasoning that was dropped and that no tag has closed, as content, unless the finish
// chunk x does not end the stream well with it: it may be the answer (contract section 4).
func (s *Stream) tellDropped(x *chunk.Object) {
	if code, _, _ := s.verdict(x, true); code != "" {
		return // a crash can break off reasoning
	}
	text := s.prose.TakeDropped()
	if len(text) == 0 {
		return
	}
	s.notes.Add(contract.SectionReasoning, "dropped reasoning that no tag has closed may be the answer: sent as content")
	s.tools.infer()
	s.memory.sayText(text)
	s.w.Delta(new(chunk.Object), false, &prose.Kept{Text: text})
	s.answer.saysText()
}

// saysSilence reports whether the text of a hermes.status, the inside of a JSON string,
// says that the model has returned nothing after all retries. Text after that is
// Hermes' own (contract section 3, rule 2).
func saysSilence(inner []byte) bool {
	text := jsonspan.AppendText(nil, inner)
	return bytes.Contains(text, []byte("no content after all retries")) || bytes.Contains(text, []byte("no visible response after all retries"))
}

// finishChunk writes the chunk x, which has a finish reason. Its content has already been read and
// edited; rest is the rest of it.
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
		s.tellDropped(x)
	}
	code, why, zeroUsage := s.verdict(x, false)
	if code == contract.CodeEmpty && s.answer.mayBeUnclosed(s.prose.Unclosed()) {
		s.notes.Add(contract.SectionReasoning, "the answer may be in reasoning that no tag has closed: not an empty answer")
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
			s.upstream.memory.Missed(s.w.Model())
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
	s.notes.Add(contract.SectionEnd, "[DONE] with other white space: rewritten, because strict clients accept one spelling")
	s.Out.Drop()
	s.w.Done()
}
