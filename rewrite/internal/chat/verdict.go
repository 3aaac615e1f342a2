package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// usage records what upstream has shown of its reports in the usage memory.
type usage struct {
	memory   contract.UsageMemory // nil for none
	age      upstreamAge
	reported bool // the memory has been told that the model reports usage
}

// upstreamAge is what upstream has shown of whether it reports its failures.
type upstreamAge uint8

const (
	ageUnknown upstreamAge = iota
	ageReports
	ageTooOld
)

// setReportsFailures records that upstream reports its failures itself, or that it is too
// old to. The third rule of the false stop depends on that. The memory is told once.
func (u *usage) setReportsFailures(does bool) {
	age := ageTooOld
	if does {
		age = ageReports
	}
	if u.memory == nil || u.age == age {
		return
	}
	u.age = age
	u.memory.ReportsFailures(does)
}

// model returns the name of the stream's model.
func (w *writer) model() string { return jsonspan.Unquote(string(w.envelope().Model())) }

// falseStop returns the code of the failure that the finish chunk c hides by saying stop,
// or "" if the agent ended well (contract section 3, "False stop").
func (e *ending) falseStop(w *writer, l *tools, t *text, c *chunk.Chunk) (code string) {
	if e.manyChoices {
		return "" // Hermes sends one choice, so that this is another server's answer
	}
	u := &c.Tokens
	silent := !t.hasText && !t.hasReasoning && !t.droppedReasoning && !t.hasOther
	onTool := l.count > 0 && !l.textSince
	housekeeping := u.Counts && t.hasText && l.housekeeping
	switch {
	case u.Zero && (silent || onTool):
		w.notes.Add(contract.SectionEnd, "a false stop: no answer, usage 0/0/0")
		return contract.CodeCrashed
	case u.Reported && (silent || t.noReply && !t.hasOther || onTool && !housekeeping):
		if w.o.EmptyAnswer == contract.EmptyAnswerPass {
			w.notes.Add(contract.SectionEnd, "no answer, and empty_answer says that this is none of ours: passes")
			return ""
		}
		w.notes.Add(contract.SectionEnd, "a false stop: no answer")
		return contract.CodeEmpty
	case !u.Zero:
		return ""
	case e.zeroUsageIsCrash(w):
		w.notes.Add(contract.SectionEnd, "a false stop: usage 0/0/0 where usage is reported, or zero_usage says so")
		return contract.CodeCrashed
	}
	w.notes.Add(contract.SectionEnd, "text with usage 0/0/0, which may be a crash: passes")
	e.zeroUsagePassed = true
	return ""
}

// tellsSilence reports whether the text of a hermes.status, the inside of a JSON string, says
// that the model has returned nothing after all retries. What then comes as text is Hermes'
// own (contract section 3, rule 2).
func tellsSilence(inner []byte) bool {
	text := jsonspan.AppendText(nil, inner)
	return bytes.Contains(text, []byte("no content after all retries")) || bytes.Contains(text, []byte("no visible response after all retries"))
}

// saysNoReply reports whether what k keeps of the text in data is what Hermes says in place
// of an answer: "⚠️ No reply: …" in the operator's language, or "(empty)".
func saysNoReply(k *prose.Kept, data []byte) bool {
	inner := k.AppendTo(nil, data)
	r, _ := jsonspan.NextRune(inner, 0)
	return r == '⚠' || jsonspan.Spells(inner, "(empty)")
}

// zeroUsageIsCrash reports whether text with usage 0/0/0 is a false stop by its third
// rule.
func (e *ending) zeroUsageIsCrash(w *writer) bool {
	switch w.o.ZeroUsage {
	case contract.ZeroUsageError:
		return true
	case contract.ZeroUsagePass:
		return false
	}
	e.usageReported = w.usage.memory != nil && w.usage.memory.Reported(w.model())
	return e.usageReported
}

// willFail reports whether the finish chunk in k means that the agent failed, before its
// text has been read.
func (e *ending) willFail(w *writer, l *tools, t *text, k *Work) bool {
	c := &k.Object.C
	reason := k.Object.FinishReason()
	switch {
	case e.finished:
		return false
	case reason != "stop":
		return reason == "error"
	case e.errorSent != nil:
		return true
	case c.Text, t.prose.Waits(&k.reading): // what is held is most likely an answer
		return !e.manyChoices && c.Tokens.Zero && e.zeroUsageIsCrash(w)
	}
	return e.falseStop(w, l, t, c) != ""
}
