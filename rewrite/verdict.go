package rewrite

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// falseStop returns the code of the error that the finish chunk s.c, which says
// stop, stands for, "" when the agent has ended well (contract section 3, "False
// stop").
func (s *Stream) falseStop() (code string) {
	if s.manyChoices {
		return "" // Hermes sends one
	}
	u := &s.c.tokens
	silent := !s.said.text && !s.said.reasoning && !s.said.dropped && !s.said.other
	onTool := s.tools.count > 0 && !s.said.sinceTool
	housekeeping := u.counts && s.said.text && s.said.housekeeping
	switch {
	case u.zero && (silent || onTool):
		s.note(contract.SectionEnd, "a false stop: no answer, usage 0/0/0")
		return CodeCrashed
	case u.reported && (silent || onTool && !housekeeping):
		if s.o.EmptyAnswer == EmptyAnswerPass {
			s.note(contract.SectionEnd, "no answer, and empty_answer says that this is none of ours: passes")
			return ""
		}
		s.note(contract.SectionEnd, "a false stop: no answer")
		return CodeEmpty
	case !u.zero:
		return ""
	case s.zeroUsageIsCrash():
		s.note(contract.SectionEnd, "a false stop: usage 0/0/0 where usage is reported, or zero_usage says so")
		return CodeCrashed
	}
	s.note(contract.SectionEnd, "text with usage 0/0/0, which may be a crash: passes")
	s.sum.ZeroUsagePassed = true
	return ""
}

// willFail reports whether the finish chunk s.c, whose text has not been read, is that
// of an agent that failed.
func (s *Stream) willFail() bool {
	reason := finishReason(s.c.finish.Inner().Of(s.f.Data))
	switch {
	case s.finished:
		return false
	case reason != "stop":
		return reason == "error"
	case s.errorSent != nil:
		return true
	case s.c.text, s.line.Active(), s.tags.pending(): // what is held is an answer, most likely
		return !s.manyChoices && s.c.tokens.zero && s.zeroUsageIsCrash()
	}
	return s.falseStop() != ""
}

// isHousekeeping reports whether the tool with the name, a JSON string, is one that
// Hermes may call behind its answer: it then takes the text before for the answer
// (contract section 3, rule 2).
func isHousekeeping(name string) bool {
	switch name {
	case `"memory"`, `"todo"`, `"todo_list"`, `"skill_manage"`, `"session_search"`:
		return true
	}
	return false
}

// reportsFailures records what upstream has shown of its age, for the third rule:
// that it reports its failures itself, or that it is too old to. It asks the memory
// once.
func (s *Stream) reportsFailures(does bool) {
	shown := upstreamOld
	if does {
		shown = upstreamReports
	}
	if s.p.usage == nil || s.said.upstream == shown {
		return
	}
	s.said.upstream = shown
	s.p.usage.ReportsFailures(does)
}

// upstreamAge is what upstream has shown of whether it reports its failures.
type upstreamAge uint8

const (
	upstreamUnknown upstreamAge = iota
	upstreamReports
	upstreamOld
)

// zeroUsageIsCrash decides the third rule of the false stop.
func (s *Stream) zeroUsageIsCrash() bool {
	switch s.o.ZeroUsage {
	case ZeroUsageError:
		return true
	case ZeroUsagePass:
		return false
	}
	s.sum.UsageReported = s.p.usage != nil && s.p.usage.Reported(unquote(s.envelope().modelsName()))
	return s.sum.UsageReported
}

// noteUsage remembers the usage of a chunk, for an error finish, and that this
// model reports it. The chunk is well formed.
func (s *Stream) noteUsage() {
	u, tokens := s.c.usage, &s.c.tokens
	if !u.IsObject(s.f.Data) {
		return
	}
	if !(s.c.finish.Ok() && s.allEnded()) && u.To-u.From <= maxUsage {
		s.usage = append(s.usage[:0], jsonspan.OneLine(u.Of(s.f.Data))...)
	}
	s.sum.InputTokens, s.sum.OutputTokens = tokens.input, tokens.output
	if tokens.counts && !s.reported && s.p.usage != nil {
		s.reported = true
		s.p.usage.Report(unquote(s.envelope().modelsName()))
	}
}

// maxUsage is the length in bytes up to which upstream's usage is kept for an
// error finish.
const maxUsage = 4 << 10
