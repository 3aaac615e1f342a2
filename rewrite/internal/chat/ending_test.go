package chat

import (
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

func TestVerdicts(t *testing.T) {
	const (
		none = "{}"
		zero = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
		some = `{"total_tokens":1}`
	)
	var (
		defaults   = contract.Options{EmptyAnswer: contract.EmptyAnswerError, ZeroUsage: contract.ZeroUsagePass}
		mayBeEmpty = contract.Options{EmptyAnswer: contract.EmptyAnswerPass, ZeroUsage: contract.ZeroUsagePass}
		missed     = contract.Options{EmptyAnswer: contract.EmptyAnswerError, ZeroUsage: contract.ZeroUsageError}
		answer     = text{hasText: true}
		onTool     = tools{onTool: true, working: true}
		onMemory   = tools{onTool: true}
	)
	for name, c := range map[string]struct {
		s     Stream
		usage string
		want  string
	}{
		"an answer":                            {Stream{text: answer}, some, ""},
		"an answer of another server":          {Stream{}, none, ""},
		"nothing, usage 0/0/0":                 {Stream{}, zero, contract.CodeCrashed},
		"nothing, usage 0/0/0, may be empty":   {Stream{o: &mayBeEmpty}, zero, contract.CodeCrashed},
		"nothing, usage":                       {Stream{}, some, contract.CodeEmpty},
		"nothing, usage, may be empty":         {Stream{o: &mayBeEmpty}, some, ""},
		"nothing in several choices":           {Stream{end: ending{manyChoices: true}}, zero, ""},
		"nothing after an error":               {Stream{text: answer, end: ending{errorSent: []byte("x")}}, some, contract.CodeCrashed},
		"reasoning":                            {Stream{text: text{hasReasoning: true}}, some, ""},
		"reasoning that was dropped":           {Stream{text: text{droppedReasoning: true}}, some, ""},
		"a tool call":                          {Stream{text: text{hasOther: true}}, zero, ""},
		"on a tool":                            {Stream{text: answer, tools: onTool}, some, contract.CodeEmpty},
		"on a tool, usage 0/0/0":               {Stream{text: answer, tools: onTool}, zero, contract.CodeCrashed},
		"text after a tool":                    {Stream{text: answer, tools: tools{working: true}}, some, ""},
		"on housekeeping":                      {Stream{text: answer, tools: onMemory}, some, ""},
		"on housekeeping without text":         {Stream{tools: onMemory}, some, contract.CodeEmpty},
		"on housekeeping, usage 0/0/0":         {Stream{text: answer, tools: onMemory}, zero, contract.CodeCrashed},
		"Hermes' own word":                     {Stream{text: text{hasText: true, noReply: true}}, some, contract.CodeEmpty},
		"Hermes' own word after a tool call":   {Stream{text: text{hasText: true, noReply: true, hasOther: true}}, some, ""},
		"text, usage 0/0/0":                    {Stream{text: answer}, zero, ""},
		"text, usage 0/0/0 where it is missed": {Stream{text: answer, o: &missed}, zero, contract.CodeCrashed},
		"text, usage where it is missed":       {Stream{text: answer, o: &missed}, some, ""},
	} {
		s := &c.s
		if s.o == nil {
			s.o = &defaults
		}
		s.Object().F.Parse([]byte(`data: {"choices":[{"finish_reason":"stop"}],"usage":` + c.usage + "}\n\n"))
		s.Object().C.Parse(s.Object().F.Data)
		code, why, zeroUsage := s.verdict(false)
		if code != c.want || zeroUsage != (c.usage == zero && (s.text.hasText || s.text.hasOther) && !s.tools.onTool) {
			t.Errorf("%s: %q, %s, %t, want %q", name, code, why, zeroUsage, c.want)
		}
	}
}
