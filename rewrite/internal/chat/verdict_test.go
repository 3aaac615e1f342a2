package chat

import (
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

func TestVerdicts(t *testing.T) {
	none := chunk.Usage{}
	zero := chunk.Usage{Reported: true, Zero: true}
	some := chunk.Usage{Reported: true, Counts: true}
	for name, c := range map[string]struct {
		e    evidence
		want string
	}{
		"an answer":                            {evidence{usage: some, text: true}, ""},
		"an answer of another server":          {evidence{usage: none}, ""},
		"nothing, usage 0/0/0":                 {evidence{usage: zero}, contract.CodeCrashed},
		"nothing, usage 0/0/0, may be empty":   {evidence{usage: zero, mayBeEmpty: true}, contract.CodeCrashed},
		"nothing, usage":                       {evidence{usage: some}, contract.CodeEmpty},
		"nothing, usage, may be empty":         {evidence{usage: some, mayBeEmpty: true}, ""},
		"nothing in several choices":           {evidence{usage: zero, manyChoices: true}, ""},
		"reasoning":                            {evidence{usage: some, reasoning: true}, ""},
		"a tool call":                          {evidence{usage: zero, other: true}, ""},
		"on a tool":                            {evidence{usage: some, text: true, onTool: true}, contract.CodeEmpty},
		"on a tool, usage 0/0/0":               {evidence{usage: zero, text: true, onTool: true}, contract.CodeCrashed},
		"on housekeeping":                      {evidence{usage: some, text: true, onTool: true, housekeeping: true}, ""},
		"on housekeeping without text":         {evidence{usage: some, onTool: true, housekeeping: true}, contract.CodeEmpty},
		"on housekeeping, usage 0/0/0":         {evidence{usage: zero, text: true, onTool: true, housekeeping: true}, contract.CodeCrashed},
		"Hermes' own word":                     {evidence{usage: some, text: true, noReply: true}, contract.CodeEmpty},
		"Hermes' own word after a tool call":   {evidence{usage: some, text: true, noReply: true, other: true}, ""},
		"text, usage 0/0/0":                    {evidence{usage: zero, text: true}, ""},
		"text, usage 0/0/0 where it is missed": {evidence{usage: zero, text: true, usageMissed: true}, contract.CodeCrashed},
		"text, usage where it is missed":       {evidence{usage: some, text: true, usageMissed: true}, ""},
	} {
		v := c.e.verdict()
		if v.code != c.want || v.zeroUsage != (c.e.usage.Zero && (c.e.text || c.e.other) && !c.e.onTool) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
}
