package chat

import (
	"bytes"
	"cmp"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// ending is how the stream ends (contract section 3).
type ending struct {
	notes  *contract.Notes
	sum    *contract.Summary // of the stream: its tokens, and the code of its first failure
	inline bool              // an error finish has no error frame

	manyChoices  bool   // a choice other than the first has come
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
	e.notes.Add(contract.SectionEnd, "an error of upstream's: an error finish will not repeat it")
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

// dropLate drops what comes after [DONE] or an error finish.
func (e *ending) dropLate(out *sse.Writer) {
	if e.failed {
		e.notes.Add(contract.SectionEnd, "after the error finish nothing takes it back: dropped")
	} else {
		e.notes.Add(contract.SectionEnd, "after [DONE]: dropped")
	}
	out.Drop()
}
