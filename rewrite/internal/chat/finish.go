package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
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

// recordFailure records that the stream does not end well. The first code counts.
func (e *ending) recordFailure(code string) {
	e.failed = true
	if e.code == "" {
		e.code = code
	}
}

// allEnded reports whether all choices that have begun have finished.
func (e *ending) allEnded() bool { return e.begun&^e.ended == 0 }

// update records which choices the chunk x begins and ends, and its usage. If that counts
// a token, it reports it to the usage memory.
func (e *ending) update(w *writer, x *chunk.Object) {
	c, tokens := &x.C, &x.C.Tokens
	e.manyChoices = e.manyChoices || c.ManyChoices
	e.begun |= c.Begun
	e.ended |= c.Ended
	if !c.Usage.IsObject(x.F.Data) {
		return
	}
	if !(c.Finish.Ok() && e.allEnded()) && c.Usage.To-c.Usage.From <= MaxUsage {
		e.usage = append(e.usage[:0], jsonspan.OneLine(x.Value(c.Usage))...)
	}
	e.input, e.output = tokens.Input, tokens.Output
	if u := &w.usage; tokens.Counts && !u.reported && u.memory != nil {
		u.reported = true
		u.memory.Report(w.model())
	}
}

// message returns the message of the code as a JSON string in the room of x.
func (e *ending) message(l *tools, t *text, x *chunk.Object, code string) []byte {
	message := contract.Message(code)
	if code == contract.CodeShutdown && l.count == 0 && t.unexamined == 0 {
		message = contract.ShutdownBeforeTools
	}
	return x.Commit(jsonspan.AppendQuoted(x.Room(), message))
}

// writeError writes an error frame with the message, unless one has left.
func (e *ending) writeError(w *writer, x *chunk.Object, message []byte, code string) {
	if e.errorSent == nil {
		w.error(x.Commit(contract.AppendErrorObject(x.Room(), message, code)))
	}
}

// finishError writes the error finish of a stream that upstream has not finished, but not
// its [DONE]. It only uses the room of x.
func (e *ending) finishError(w *writer, l *tools, t *text, x *chunk.Object, code string) {
	l.completeAll(w, true)
	message := e.errorSent
	if message == nil {
		message = e.message(l, t, x, code)
	} else {
		code = contract.CodeAgentError
	}
	if w.notes != nil {
		w.notes.Add(contract.SectionEnd, "error finish, code "+code)
	}
	e.recordFailure(code)
	e.finished, e.finishReason = true, "error"
	inline := w.o.ErrorFinish == contract.ErrorFinishInline
	if !inline {
		e.writeError(w, x, message, code)
	}
	env := w.envelope()
	w.Out.BeginOwn()
	dst := env.AppendHead(append(w.Out.Bytes, "data: {"...))
	dst = chunk.AppendErrorChoices(dst, e.begun&^e.ended)
	if len(e.usage) > 0 {
		dst = append(append(dst, `,"usage":`...), e.usage...)
	}
	if inline && e.errorSent == nil {
		dst = contract.AppendErrorValue(append(dst, `,"error":`...), message, code)
	}
	dst = chunk.AppendHermes(append(dst, `,"hermes":`...), message, t.hasText || t.hasReasoning)
	w.Out.Bytes = append(dst, "}\n\n"...)
}

// finish edits a chunk with a finish reason, which then leaves. The content has already
// been read and edited.
func (e *ending) finish(w *writer, l *tools, t *text, x *chunk.Object) {
	reason := x.FinishReason()
	if x.HasError() || x.C.Hermes.IsSet(x.F.Data) {
		w.usage.setReportsFailures(true)
	}
	if e.finished { // some providers finish twice
		x.RedactError()
		return
	}
	e.finished = e.allEnded()
	e.finishReason = reason
	failure := ""
	switch {
	case reason != "stop":
	case e.errorSent != nil: // upstream has said that it failed
		w.notes.Add(contract.SectionEnd, "stop behind an error of upstream's: becomes error")
		failure = contract.CodeCrashed
	default:
		failure = e.falseStop(w, l, t, &x.C)
	}
	l.completeAll(w, failure != "" || reason == "error")
	switch {
	case failure != "":
		if e.usageReported { // that decided
			w.usage.memory.Missed(w.model())
		}
		e.recordFailure(failure)
		e.crash(w, l, t, x, failure)
	case reason == "error":
		e.reportedFailure(w, l, t, x)
	default:
		x.RedactError()
	}
}

// crash turns a finish chunk that says stop although the agent failed into an error
// finish with the code.
func (e *ending) crash(w *writer, l *tools, t *text, x *chunk.Object, code string) {
	e.finishReason = "error"
	e.moveContent(w, x)
	message := e.errorSent
	if message == nil {
		message = e.message(l, t, x, code)
	}
	x.Fill(w.envelope())
	x.EachStop(func(at jsonspan.Span) { x.Replace(at.From, at.To, x.Literal(`"error"`)) })
	if w.o.ErrorFinish == contract.ErrorFinishInline && e.errorSent == nil {
		x.Set(x.C.Err, "error", x.Commit(contract.AppendErrorValue(x.Room(), message, code)))
	} else {
		e.writeError(w, x, message, code)
		x.Remove(x.C.Err)
	}
	e.setHermes(t, x, message)
	x.RedactMoreErrors()
}

// setHermes sets the hermes block of the finish chunk x to ours.
func (e *ending) setHermes(t *text, x *chunk.Object, message []byte) {
	x.Set(x.C.Hermes, "hermes", x.Commit(chunk.AppendHermes(x.Room(), message, t.hasText || t.hasReasoning)))
}

// moveContent moves the content of the finish chunk x to a chunk of its own if an error
// frame will leave before x, because clients stop reading there. It must come before all
// edits but those of the content.
func (e *ending) moveContent(w *writer, x *chunk.Object) {
	if w.o.ErrorFinish == contract.ErrorFinishInline || e.errorSent != nil || x.Rest.Len() == 0 {
		return
	}
	w.delta(x, false, &x.Rest)
	x.Edits.Reset()
	x.DropContent()
}

// reportedFailure splits the finish chunk of an agent that says why it failed: the error
// leaves first, in a frame of its own, and then x without it.
func (e *ending) reportedFailure(w *writer, l *tools, t *text, x *chunk.Object) {
	w.notes.Add(contract.SectionEnd, "upstream says that the agent failed: an error finish, without secrets")
	e.recordFailure(contract.CodeAgentError)
	e.moveContent(w, x)
	x.RedactMember(x.C.Hermes)
	x.RedactMoreErrors()
	if w.o.ErrorFinish == contract.ErrorFinishInline {
		x.RedactMember(x.C.Err)
		return
	}
	message := e.reason(l, t, x)
	x.Fill(w.envelope())
	if e.errorSent == nil {
		w.error(x.UpstreamError(message))
		e.errorSent = bytes.Clone(jsonspan.Truncate(message, contract.MaxMessage)) // other choices may be open
	}
	x.Remove(x.C.Err)
	if !x.C.Hermes.IsSet(x.F.Data) {
		e.setHermes(t, x, message)
	}
}

// reason returns the message, a JSON string, of the error in x, of the one that has left,
// or of CodeAgentError.
func (e *ending) reason(l *tools, t *text, x *chunk.Object) []byte {
	if m := x.ErrorMessage(); m != nil {
		return m
	}
	if e.errorSent != nil {
		return e.errorSent
	}
	return e.message(l, t, x, contract.CodeAgentError)
}

// recordError records that the error in x leaves, unless the stream has finished.
func (e *ending) recordError(w *writer, l *tools, t *text, x *chunk.Object) {
	if e.finished {
		return
	}
	w.notes.Add(contract.SectionEnd, "an error of upstream's: an error finish will not repeat it")
	e.recordFailure(x.ErrorCode())
	e.errorSent = bytes.Clone(jsonspan.Truncate(e.reason(l, t, x), contract.MaxMessage))
}
