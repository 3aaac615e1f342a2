package rewrite

import (
	"strings"
	"testing"
)

// Numbers that are too large for what they say are none: nothing wraps around.
func TestNumbersThatAreTooLarge(t *testing.T) {
	// 2^64 is no other way to write 0: the markers of another choice stay.
	in := role() + strings.Replace(text("\n`💻 ls`\n"), `"index": 0`, `"index": 18446744073709551616`, 1) + text("x") + stop()
	same(t, repair(in), in, "bytes")
	usage := func(prompt, completion string) string {
		return `, "usage": {"prompt_tokens": ` + prompt + `, "completion_tokens": ` + completion + `, "total_tokens": 7}`
	}
	for _, c := range []struct {
		prompt, completion string
		input, output      int64
	}{
		{"1", "2", 1, 2}, {"999999999", "0", 999999999, 0}, {"0", "999999999", 0, 999999999}, {"18446744073709551617", "1", 0, 1}, {"1", "18446744073709551617", 1, 0},
		{"-1", "5", 0, 5}, {"5", "-1", 5, 0}, {"1.5", "5", 0, 5}, {`"5"`, "null", 0, 0}, {"5", "1e3", 5, 0}, {"9", "8", 9, 8},
	} {
		sum := repairSummary(role()+text("x")+finishChunk("stop", usage(c.prompt, c.completion))+doneFrame, Options{})
		if sum.InputTokens != c.input || sum.OutputTokens != c.output {
			t.Errorf("%s and %s tokens are %d and %d", c.prompt, c.completion, sum.InputTokens, sum.OutputTokens)
		}
	}
}

// Usage is 0/0/0 only where it says so, three times: a member that is missing, null or
// no number is unknown.
func TestUsageThatIsNotZero(t *testing.T) {
	for usage, crash := range map[string]bool{
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`:                                                             true,
		`{"total_tokens": 0, "completion_tokens": 0, "prompt_tokens": 0, "prompt_tokens_details": {"cached_tokens": 5}, "cost": 0.5}`: true,
		`{"prompt_tokens": 0, "completion_tokens": 0}`:                                                                                false,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": null}`:                                                          false,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 1}`:                                                             false,
		`{"prompt_tokens": 0, "completion_tokens": "0", "total_tokens": 0}`:                                                           false,
		`{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}`:                                                                  false,
		`[0, 0, 0]`: false,
		`null`:      false,
	} {
		in := role() + text("x") + finishChunk("stop", `, "usage": `+usage) + doneFrame
		out, sum := run(in, Options{ZeroUsage: ZeroUsageError}, chatParams, inOne, CauseEOF)
		if crash {
			look(t, out).checkErrorFinish(t, CodeCrashed)
		} else {
			same(t, out, in, "bytes with the usage "+usage)
		}
		if (sum.Code != "") != crash {
			t.Errorf("%s: %+v", usage, sum)
		}
	}
}

// Which models report usage is learnt from any count that is not 0, and from nothing
// else.
func TestUsageThatIsReported(t *testing.T) {
	for usage, reported := range map[string]bool{
		`{"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 0}`:             true,
		`{"prompt_tokens": 0, "completion_tokens": 9, "total_tokens": 0}`:             true,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 12345678901}`:   true,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`:             false,
		`{"prompt_tokens": "5", "completion_tokens": null, "total_tokens": -5}`:       false,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "other": 5}`: false,
		`{}`: false, `5`: false, `null`: false,
	} {
		m := memory{}
		p := chatParams
		p.Usage = m
		run(role()+text("x")+finishChunk("stop", `, "usage": `+usage)+doneFrame, Options{}, p, inOne, CauseEOF)
		if m["hermes-agent"] != reported || len(m) > 1 {
			t.Errorf("%s: reported %v", usage, m)
		}
	}
}

// Members are read in any choice whose index is 0, and nothing of a choice whose index
// is something else.
func TestIndexOfAChoice(t *testing.T) {
	for index, first := range map[string]bool{"0": true, "1": false, "-1": false, "null": false, `"0"`: false, "0.0": false, "10": false} {
		in := role() + strings.Replace(text("\n`💻 ls`\n"), `"index": 0`, `"index": `+index, 1)
		v := look(t, repair(in+text("x")+stop()))
		if started := len(v.starts()) == 1; started != first {
			t.Errorf("index %s: %+v", index, v.starts())
		}
	}
	// Without an index it is the only one.
	if v := look(t, repair(role()+strings.Replace(text("\n`💻 ls`\n"), `"index": 0, `, "", 1)+text("x")+stop())); len(v.starts()) != 1 {
		t.Errorf("no index: %+v", v.starts())
	}
}

// What is known of the usage stands in an error finish, whenever it came (contract
// section 3).
func TestUsageOfAnErrorFinish(t *testing.T) {
	const usage = `{"prompt_tokens":7,"completion_tokens":8,"total_tokens":15}`
	alone := `data: {` + envelopeOfTests + `, "choices": [], "usage": ` + usage + "}\n\n"
	with := strings.Replace(text("a"), `}]}`, `}], "usage": `+usage+`}`, 1)
	for name, in := range map[string]string{"before all else": alone, "before the text": role() + alone + text("a"), "with the text": role() + with, "behind it": role() + text("a") + alone, "null later": role() + alone + strings.Replace(text("a"), `}]}`, `}], "usage": null}`, 1)} {
		v := look(t, repair(in))
		v.checkErrorFinish(t, CodeIncomplete)
		if string(v.finish.Usage) != usage {
			t.Errorf("%s: the error finish has the usage %s", name, v.finish.Usage)
		}
	}
	if v := look(t, repair(role()+text("a"))); v.finish.Usage != nil {
		t.Errorf("a usage of nobody's: %s", v.finish.Usage)
	}
}
