package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// evidence is what a stream has shown when a finish chunk says stop.
type evidence struct {
	usage        chunk.Usage // of the finish chunk
	manyChoices  bool        // a choice other than the first has come
	text         bool        // a non-space character of content has left
	reasoning    bool        // one of reasoning has left or was dropped
	other        bool        // tool calls, a refusal and the like have left
	noReply      bool        // the only text is Hermes' own word for silence
	onTool       bool        // the last tool started after the last text
	housekeeping bool        // so did others, all of them housekeeping
	mayBeEmpty   bool        // the option empty_answer says that no answer is one
	usageMissed  bool        // text with usage 0/0/0 is a crash
}

// verdict says how an agent whose finish chunk says stop has ended.
type verdict struct {
	code      string // of the failure, "" if the agent ended well
	why       string // for the notes, "" if there is nothing to say
	zeroUsage bool   // only the usage of 0/0/0 speaks against the agent
}

// verdict returns the verdict of contract section 3, "False stop".
func (e *evidence) verdict() verdict {
	if e.manyChoices {
		return verdict{} // Hermes sends one choice, so that this is another server's answer
	}
	silent := !e.text && !e.reasoning && !e.other
	housekeeping := e.usage.Counts && e.text && e.housekeeping
	switch {
	case e.usage.Zero && (silent || e.onTool):
		return verdict{contract.CodeCrashed, "a false stop: no answer, usage 0/0/0", false}
	case e.usage.Reported && (silent || e.noReply && !e.other || e.onTool && !housekeeping):
		if e.mayBeEmpty {
			return verdict{"", "no answer, and empty_answer says that this is none of ours: passes", false}
		}
		return verdict{contract.CodeEmpty, "a false stop: no answer", false}
	case !e.usage.Zero:
		return verdict{}
	case e.usageMissed:
		return verdict{contract.CodeCrashed, "a false stop: usage 0/0/0 where usage is reported, or zero_usage says so", true}
	}
	return verdict{"", "text with usage 0/0/0, which may be a crash: passes", true}
}

// saysSilence reports whether the text of a hermes.status, the inside of a JSON string,
// says that the model has returned nothing after all retries. Text that then comes is
// Hermes' own (contract section 3, rule 2).
func saysSilence(inner []byte) bool {
	text := jsonspan.AppendText(nil, inner)
	return bytes.Contains(text, []byte("no content after all retries")) || bytes.Contains(text, []byte("no visible response after all retries"))
}

// saysNoReply reports whether the text that k keeps is one that Hermes sends in
// place of an answer: "⚠️ No reply: …" in the operator's language, or "(empty)".
func saysNoReply(k *prose.Kept) bool {
	inner := k.Bytes()
	r, _ := jsonspan.NextRune(inner, 0)
	return r == '⚠' || jsonspan.Spells(inner, "(empty)")
}

// usage records in the usage memory what upstream has shown of its reports.
type usage struct {
	memory        contract.UsageMemory // nil for none
	reported      bool                 // the memory knows that the model reports usage
	told, reports bool                 // it knows whether upstream reports its failures, and that it does
}

// setReportsFailures records, once, that upstream reports its failures itself, or that it
// is too old to. The third rule of the false stop depends on that.
func (u *usage) setReportsFailures(does bool) {
	if u.memory != nil && (!u.told || u.reports != does) {
		u.told, u.reports = true, does
		u.memory.ReportsFailures(does)
	}
}

// report records that the model has reported usage.
func (u *usage) report(model string) {
	if u.memory != nil && !u.reported {
		u.reported = true
		u.memory.Report(model)
	}
}
