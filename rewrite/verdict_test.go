package rewrite

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestStopWithoutTextAndZeroUsageIsACrash(t *testing.T) {
	for _, in := range []string{
		"",
		role(),
		role() + text(""),
		role() + text(" \n "),
		role() + reasoning(" "),
		role() + g1("_thinking", "💭", "hm"),
	} {
		for _, z := range ZeroUsageValues() {
			out, sum := run(in+finishChunk("stop", zeroUsage)+doneFrame, Options{ZeroUsage: z}, chat, whole, CauseEOF)
			look(t, out).checkErrorFinish(t, "agent_crashed")
			if sum.Code != "agent_crashed" || sum.FinishReason != "error" {
				t.Errorf("%+v", sum)
			}
			if !strings.HasSuffix(out, strings.TrimSuffix(finishChunk("error", zeroUsage), "}\n\n")+`,"hermes":`+hermesOf(out)+"}\n\n"+doneFrame) {
				t.Errorf("the finish chunk's other bytes have changed:\n%s", out)
			}
		}
	}
}

func hermesOf(out string) string {
	_, h, _ := strings.Cut(out, `"hermes":`)
	h, _, _ = strings.Cut(h, "}}\n\n")
	return h + "}"
}

func TestStopWithoutTextButWithUsagePasses(t *testing.T) {
	for _, usage := range []string{realUsage, "", `, "usage": null`, `, "usage": {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}`, `, "usage": {}`} {
		in := role() + finishChunk("stop", usage) + doneFrame
		same(t, repair(in), in, usage+": bytes")
	}
}

func TestOtherReasonsWithZeroUsagePass(t *testing.T) {
	for _, reason := range []string{"length", "tool_calls", "content_filter"} {
		in := role() + finishChunk(reason, zeroUsage) + doneFrame
		same(t, repairWith(in, Options{ZeroUsage: ZeroUsageError}), in, reason+": bytes")
	}
}

func TestStopOnAToolIsACrashOnG0AndG1WhateverTheUsage(t *testing.T) {
	for _, start := range []string{markerChunk("💻", "ls"), g1("terminal", "💻", "ls")} {
		for _, usage := range []string{realUsage, zeroUsage, ""} {
			for _, before := range []string{"", text("Running.")} {
				for _, z := range ZeroUsageValues() {
					in := role() + before + start + finishChunk("stop", usage) + doneFrame
					v := look(t, repairWith(in, Options{ZeroUsage: z}))
					v.checkLifecycle(t)
					v.checkErrorFinish(t, "agent_crashed")
				}
			}
		}
	}
}

func TestStopOnAToolWithWhiteSpaceBehindIsACrash(t *testing.T) {
	look(t, repair(role()+text("a")+markerChunk("💻", "ls")+text("\n\n")+stop())).checkErrorFinish(t, "agent_crashed")
}

func TestStopOnAToolWithTextBehindPasses(t *testing.T) {
	for _, start := range []string{markerChunk("💻", "ls"), g1("terminal", "💻", "ls"), g2Start("terminal", "💻", "ls", "call_1") + g2End("terminal", "call_1")} {
		out := repair(role() + start + text("\n\nDone.") + stop())
		if !strings.HasSuffix(out, text("\n\nDone.")+stop()) {
			t.Errorf("%s", out)
		}
	}
}

func TestStopOnAToolOfG2IsACrashWithZeroUsageOnly(t *testing.T) {
	tool := g2Start("terminal", "💻", "ls", "call_1") + g2End("terminal", "call_1")
	for _, before := range []string{"", text("Running.")} {
		for _, z := range ZeroUsageValues() {
			look(t, repairWith(role()+before+tool+finishChunk("stop", zeroUsage)+doneFrame, Options{ZeroUsage: z})).checkErrorFinish(t, "agent_crashed")
			for _, usage := range []string{realUsage, ""} {
				in := role() + before + tool + finishChunk("stop", usage) + doneFrame
				same(t, repairWith(in, Options{ZeroUsage: z, Progress: ProgressBare}), in, "bytes")
			}
		}
	}
}

func TestZeroUsageWithTextPassesUntilTheModelHasReportedUsage(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", zeroUsage) + doneFrame
	p := chat
	m := memory{}
	p.Usage = m
	out, sum := run(in, Options{}, p, whole, CauseEOF)
	same(t, out, in, "bytes")
	if !sum.ZeroUsagePassed || sum.Code != "" {
		t.Errorf("%+v, want a warning", sum)
	}
	if len(m) != 0 {
		t.Errorf("0/0/0 was remembered as usage: %v", m)
	}
	_, sum = run(role()+text("x")+stop(), Options{}, p, whole, CauseEOF)
	if !m["hermes-agent"] || sum.ZeroUsagePassed {
		t.Errorf("memory %v, %+v", m, sum)
	}
	out, _ = run(in, Options{}, p, whole, CauseEOF)
	look(t, out).checkErrorFinish(t, "agent_crashed")
	// Another model knows nothing of it.
	other := strings.ReplaceAll(in, "hermes-agent", "another")
	out, _ = run(other, Options{}, p, whole, CauseEOF)
	same(t, out, other, "bytes of another model")
}

func TestUsageIsRememberedFromAnyChunk(t *testing.T) {
	for _, in := range []string{
		role() + text("x") + finishChunk("length", realUsage),
		role() + text("x") + finishChunk("stop", "") + `data: {` + envelopeOfTests + `, "choices": []` + realUsage + "}\n\n",
	} {
		p := chat
		m := memory{}
		p.Usage = m
		run(in+doneFrame, Options{}, p, whole, CauseEOF)
		if !m["hermes-agent"] {
			t.Errorf("nothing was remembered of %s", in)
		}
	}
}

func TestZeroUsageErrorAndPassNeedNoMemory(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", zeroUsage) + doneFrame
	look(t, repairWith(in, Options{ZeroUsage: ZeroUsageError})).checkErrorFinish(t, "agent_crashed")
	p := chat
	p.Usage = memory{"hermes-agent": true}
	out, sum := run(in, Options{ZeroUsage: ZeroUsagePass}, p, whole, CauseEOF)
	same(t, out, in, "bytes")
	if !sum.ZeroUsagePassed {
		t.Errorf("%+v, want a warning", sum)
	}
	same(t, repair(in), in, "bytes without a memory")
}

func TestZeroUsageWithReasoningOnlyIsOfTheThirdRule(t *testing.T) {
	in := role() + reasoning("hm") + finishChunk("stop", zeroUsage) + doneFrame
	same(t, repair(in), in, "bytes")
}

func TestStopWithRealUsagePasses(t *testing.T) {
	in := role() + text("x") + stop()
	p := chat
	p.Usage = memory{"hermes-agent": true}
	for _, z := range ZeroUsageValues() {
		out, _ := run(in, Options{ZeroUsage: z}, p, whole, CauseEOF)
		same(t, out, in, "bytes")
	}
}

func TestCrashInlineTakesOneChunk(t *testing.T) {
	v := look(t, repairWith(role()+finishChunk("stop", zeroUsage)+doneFrame, Options{ErrorFinish: ErrorFinishInline}))
	var e wireError
	if err := json.Unmarshal(v.finish.Error, &e); err != nil || e.code() != "agent_crashed" || v.finishes[0] != "error" || len(v.errors) != 0 {
		t.Errorf("error %s, finish %q", v.finish.Error, v.finishes)
	}
}

func TestNothingTakesAnErrorBack(t *testing.T) {
	crash := role() + finishChunk("stop", zeroUsage)
	look(t, repair(crash+text("late")+finishChunk("stop", realUsage)+doneFrame)).checkErrorFinish(t, "agent_crashed")
	look(t, repair(role()+doneFrame+text("late")+stop())).checkErrorFinish(t, "upstream_incomplete")
}

func TestFalseStopBehindAnUnexaminedFrame(t *testing.T) {
	in := role() + text(strings.Repeat("a", 2000)) + finishChunk("stop", zeroUsage) + doneFrame
	same(t, repairWith(in, Options{MaxFrame: 1000}), in, "bytes")
	in = role() + markerChunk("💻", "ls") + text(strings.Repeat("a", 2000)) + stop()
	if v := look(t, repairWith(in, Options{MaxFrame: 1000})); v.finishes[0] != "stop" {
		t.Errorf("a G0 answer whose text was unexamined is a crash")
	}
}

func TestStopBehindAnErrorFrameIsNoStop(t *testing.T) {
	v := look(t, repair(role()+text("x")+`data: {"error": {"message": "boom"}}`+"\n\n"+stop()))
	if v.finishes[0] == "stop" {
		t.Errorf("%s, finish %q", v.story(), v.finishes)
	}
}
