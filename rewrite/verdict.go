package rewrite

// UsageMemory remembers which models of an upstream have reported usage, and
// whether the upstream reports its failures itself. With it, an answer whose usage
// is 0/0/0 can be told from one of a provider that never reports any (contract
// section 3, third rule of "false stop").
type UsageMemory interface {
	// Reported reports whether an answer of the model that has no usage is one of
	// an agent that failed: the model has reported usage, and upstream is not
	// known to report its failures.
	Reported(model string) bool
	// Report records that an answer of the model has reported usage.
	Report(model string)
	// Missed records that an answer of the model with text and without usage has
	// been taken for a crash, because Reported said so. After three in a row the
	// model is forgotten, until Report.
	Missed(model string)
	// ReportsFailures records whether upstream reports its failures itself: true
	// once it has shown that it does, false once it has shown that it is too old.
	ReportsFailures(does bool)
}

// falseStop tells whether the finish chunk s.c, which says stop, is the end of
// an agent that crashed (contract section 3).
func (s *Stream) falseStop() bool {
	if s.manyChoices {
		return false // Hermes sends one
	}
	endsOnTool := s.tools.count > 0 && !s.said.sinceTool
	if endsOnTool && !s.said.ids && !s.said.imitation {
		return s.crashed("a false stop: it ends on a tool, and this Hermes does not say when one failed")
	}
	switch {
	case !s.c.tokens.zero:
		return false
	case !s.said.text && !s.said.reasoning && !s.said.dropped && !s.said.other:
		return s.crashed("a false stop: no answer, usage 0/0/0")
	case endsOnTool:
		return s.crashed("a false stop: it ends on a tool, usage 0/0/0")
	}
	if s.zeroUsageIsCrash() {
		return s.crashed("a false stop: usage 0/0/0 where usage is reported, or zero_usage says so")
	}
	s.note(sectionEnd, "text with usage 0/0/0, which may be a crash: passes")
	s.sum.ZeroUsagePassed = true
	return false
}

// crashed notes why a stop is false, and is true.
func (s *Stream) crashed(why string) bool {
	s.note(sectionEnd, why)
	return true
}

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
	if !u.isObject(s.f.data) {
		return
	}
	if !(s.c.finish.ok() && s.allEnded()) && u.to-u.from <= maxUsage {
		s.usage = append(s.usage[:0], oneLine(u.of(s.f.data))...)
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
