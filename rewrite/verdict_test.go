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
			out, sum := run(in+finishChunk("stop", zeroUsage)+doneFrame, Options{ZeroUsage: z}, chatParams, inOne, CauseEOF)
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

func TestStopWithoutAnAnswerButWithUsageIsAnEmptyAnswer(t *testing.T) {
	for _, usage := range []string{
		realUsage,
		`, "usage": {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}`,
		`, "usage": {"prompt_tokens": 0, "completion_tokens": 0}`,
	} {
		for _, in := range []string{"", role(), role() + text(" \n "), role() + reasoning(" "), role() + g1("_thinking", "💭", "hm")} {
			in += finishChunk("stop", usage) + doneFrame
			out, sum := run(in, Options{}, chatParams, inOne, CauseEOF)
			look(t, out).checkErrorFinish(t, CodeEmpty)
			if sum.Code != CodeEmpty || sum.FinishReason != "error" {
				t.Errorf("%+v", sum)
			}
			same(t, repair(out), out, "twice and once")
			passed, sum := run(in, Options{EmptyAnswer: EmptyAnswerPass}, chatParams, inOne, CauseEOF)
			if v := look(t, passed); v.finishes[0] != "stop" || sum.Code != "" {
				t.Errorf("empty_answer pass: %s", passed)
			}
		}
	}
}

// Other servers send their usage after the finish chunk, or none: what they mean by
// an empty answer is their affair.
func TestEmptyAnswersOfOtherServersPass(t *testing.T) {
	for _, usage := range []string{"", `, "usage": null`, `, "usage": {}`, `, "usage": 5`} {
		for _, in := range []string{role(), role() + markerChunk("💻", "ls"), role() + text("a") + g2Start("t", "💻", "l", "1") + g2End("t", "1")} {
			out, sum := run(in+finishChunk("stop", usage)+doneFrame, Options{}, chatParams, inOne, CauseEOF)
			if v := look(t, out); v.finishes[0] != "stop" || sum.Code != "" {
				t.Errorf("%s: %+v in %s", usage, sum, out)
			}
		}
	}
}

func TestWhatIsAnAnswerIsNotEmpty(t *testing.T) {
	for _, said := range []string{
		text("x"), reasoning("hm"), delta(`"tool_calls": [{"index": 0}]`), delta(`"refusal": "no"`), delta(`"audio": {"data": "x"}`),
		texts("<think>", "hm", "</think>"),
	} {
		for _, tool := range []string{"", g2Start("t", "💻", "l", "1") + g2End("t", "1")} {
			v := look(t, repair(role()+tool+said+stop()))
			if reasonedOnly := tool != "" && v.content == "" && strings.Contains(v.story(), "reasoning"); !reasonedOnly && v.finishes[0] != "stop" {
				t.Errorf("%s behind %q: %s", said, tool, v.story())
			}
		}
	}
}

func TestOtherReasonsWithZeroUsagePass(t *testing.T) {
	for _, reason := range []string{"length", "tool_calls", "content_filter"} {
		in := role() + finishChunk(reason, zeroUsage) + doneFrame
		same(t, repairWith(in, Options{ZeroUsage: ZeroUsageError}), in, reason+": bytes")
	}
}

// toolStarts are a tool of each generation, which ends where upstream can say so.
func toolStarts(tool, emoji, label string) []string {
	return []string{
		markerChunk(emoji, label), g1(tool, emoji, label),
		g2Start(tool, emoji, label, "call_1") + g2End(tool, "call_1"), g2Start(tool, emoji, label, "call_1"),
	}
}

func TestStopOnAToolIsNoAnswer(t *testing.T) {
	for _, start := range toolStarts("terminal", "💻", "ls") {
		for usage, code := range map[string]string{realUsage: CodeEmpty, zeroUsage: CodeCrashed} {
			for _, before := range []string{"", text("Running."), text("a") + g2Start("memory", "🧠", "m", "call_0") + g2End("memory", "call_0")} {
				for _, behind := range []string{"", text("\n\n"), reasoning("hm"), text("\n`📖 a`\n\n")} {
					for _, z := range ZeroUsageValues() {
						if start == markerChunk("💻", "ls") && strings.Contains(before, "event:") {
							continue // there it is an imitation
						}
						in := role() + before + start + behind + finishChunk("stop", usage) + doneFrame
						out := repairWith(in, Options{ZeroUsage: z})
						v := look(t, out)
						v.checkLifecycle(t)
						v.checkErrorFinish(t, code)
						same(t, repairWith(out, Options{ZeroUsage: z}), out, "twice and once")
					}
				}
			}
		}
	}
}

// Hermes takes the text before housekeeping for its answer.
func TestStopOnHousekeepingIsAGoodEnd(t *testing.T) {
	for _, test := range []struct{ tool, emoji, label string }{
		{"memory", "🧠", `+memory: "likes tea"`}, {"todo", "📋", "3 tasks"}, {"todo_list", "📋", "todo_list"},
		{"skill_manage", "📝", "x"}, {"session_search", "🔍", `recall: "tea"`},
	} {
		for i, start := range toolStarts(test.tool, test.emoji, test.label) {
			if i == 0 && test.tool == "todo_list" {
				continue // newer than markers
			}
			for in, code := range map[string]string{
				text("Noted.") + start:                             noCode,
				text("Noted.") + start + text(" \n"):               noCode,
				text("Noted.") + g1("memory", "🧠", "m") + start:    noCode,
				text("Noted.") + g1("terminal", "💻", "ls") + start: CodeEmpty,
				text("Noted.") + start + g1("terminal", "💻", "ls"): CodeEmpty,
				g1("terminal", "💻", "ls") + text("Noted.") + start: noCode,
				start:                   CodeEmpty,
				text(" ") + start:       CodeEmpty,
				reasoning("hm") + start: CodeEmpty,
			} {
				out, sum := run(role()+in+stop(), Options{}, chatParams, inOne, CauseEOF)
				if sum.Code != code {
					t.Errorf("%s: code %q, want %q in %s", test.tool, sum.Code, code, in)
				}
				same(t, repair(out), out, "twice and once")
			}
			_, sum := run(role()+text("Noted.")+start+finishChunk("stop", zeroUsage), Options{}, chatParams, inOne, CauseEOF)
			if sum.Code != CodeCrashed {
				t.Errorf("%s without usage: code %q", test.tool, sum.Code)
			}
		}
	}
	for _, start := range []string{markerChunk("🔍", "tea"), markerChunk("🧠", "ask them all"), g1("web_search", "🔍", "tea")} {
		if _, sum := run(role()+text("Noted.")+start+stop(), Options{}, chatParams, inOne, CauseEOF); sum.Code != CodeEmpty {
			t.Errorf("another tool that has the emoji: code %q", sum.Code)
		}
	}
}

// noCode stands for no code.
const noCode = ""

func TestZeroUsageWithTextPassesUntilTheModelHasReportedUsage(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", zeroUsage) + doneFrame
	p := chatParams
	m := memory{}
	p.Usage = m
	out, sum := run(in, Options{}, p, inOne, CauseEOF)
	same(t, out, in, "bytes")
	if !sum.ZeroUsagePassed || sum.Code != "" {
		t.Errorf("%+v, want a warning", sum)
	}
	if len(m) != 0 {
		t.Errorf("0/0/0 was remembered as usage: %v", m)
	}
	_, sum = run(role()+text("x")+stop(), Options{}, p, inOne, CauseEOF)
	if !m["hermes-agent"] || sum.ZeroUsagePassed {
		t.Errorf("memory %v, %+v", m, sum)
	}
	out, _ = run(in, Options{}, p, inOne, CauseEOF)
	look(t, out).checkErrorFinish(t, "agent_crashed")
	// Another model knows nothing of it.
	other := strings.ReplaceAll(in, "hermes-agent", "another")
	out, _ = run(other, Options{}, p, inOne, CauseEOF)
	same(t, out, other, "bytes of another model")
}

func TestUsageIsRememberedFromAnyChunk(t *testing.T) {
	for _, in := range []string{
		role() + text("x") + finishChunk("length", realUsage),
		role() + text("x") + finishChunk("stop", "") + `data: {` + envelopeOfTests + `, "choices": []` + realUsage + "}\n\n",
	} {
		p := chatParams
		m := memory{}
		p.Usage = m
		run(in+doneFrame, Options{}, p, inOne, CauseEOF)
		if !m["hermes-agent"] {
			t.Errorf("nothing was remembered of %s", in)
		}
	}
}

func TestZeroUsageErrorAndPassNeedNoMemory(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", zeroUsage) + doneFrame
	look(t, repairWith(in, Options{ZeroUsage: ZeroUsageError})).checkErrorFinish(t, "agent_crashed")
	p := chatParams
	p.Usage = memory{"hermes-agent": true}
	out, sum := run(in, Options{ZeroUsage: ZeroUsagePass}, p, inOne, CauseEOF)
	same(t, out, in, "bytes")
	if !sum.ZeroUsagePassed {
		t.Errorf("%+v, want a warning", sum)
	}
	same(t, repair(in), in, "bytes without a memory")
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
	for _, usage := range []string{zeroUsage, realUsage} {
		in := role() + text(strings.Repeat("a", 2000)) + finishChunk("stop", usage) + doneFrame
		same(t, repairWith(in, Options{MaxFrame: 1000}), in, "bytes")
	}
	in := role() + markerChunk("💻", "ls") + text(strings.Repeat("a", 2000)) + stop()
	if v := look(t, repairWith(in, Options{MaxFrame: 1000})); v.finishes[0] != "stop" {
		t.Errorf("a G0 answer whose text was unexamined is a crash")
	}
}

// observedMemory is a UsageMemory that says what it was told.
type observedMemory struct {
	memory
	told []string
}

func (m *observedMemory) Missed(model string) { m.told = append(m.told, "missed "+model) }
func (m *observedMemory) ReportsFailures(does bool) {
	m.told = append(m.told, map[bool]string{true: "reports", false: "old"}[does])
}

func TestMemoryIsToldOfAnswersTakenForCrashes(t *testing.T) {
	const zero = `, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`
	inFinish := `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]` + zero + "}\n\n" + doneFrame
	for in, want := range map[string]string{
		text("x") + finishChunk("stop", zeroUsage) + doneFrame: "missed hermes-agent",
		inFinish: "missed hermes-agent",
		finishChunk("stop", zeroUsage) + doneFrame: "", // rule 1 asks nobody
		text("x") + stop():                         "",
	} {
		m := &observedMemory{memory: memory{"hermes-agent": true}}
		p := chatParams
		p.Usage = m
		run(role()+in, Options{}, p, inOne, CauseEOF)
		if got := strings.Join(m.told, " "); got != want {
			t.Errorf("told %q, want %q of %s", got, want, in)
		}
	}
	m := &observedMemory{memory: memory{}}
	p := chatParams
	p.Usage = m
	run(role()+text("x")+finishChunk("stop", zeroUsage), Options{}, p, inOne, CauseEOF)
	run(role()+text("x")+finishChunk("stop", zeroUsage), Options{ZeroUsage: ZeroUsageError}, p, inOne, CauseEOF)
	if len(m.told) != 0 {
		t.Errorf("told %q of a model that is not known", m.told)
	}
}

func TestMemoryIsToldWhetherUpstreamReportsItsFailures(t *testing.T) {
	for in, want := range map[string]string{
		text("x") + stop(): "",
		g2Start("t", "💻", "l", "1") + g2End("t", "1") + text("x") + stop():                     "",
		finishChunk("error", `, "error": {"message": "m"}`):                                    "reports",
		finishChunk("length", `, "hermes": {"completed": false}`):                              "reports",
		finishChunk("error", ""):                                                               "",
		text("x") + finishChunk("stop", realUsage+`, "error": null`):                           "",
		named("hermes.status", `{"kind": "warn", "text": "t"}`) + named("hermes.status", `{}`): "reports",
		named("approval.request", `{"command": "rm", "choices": ["once"]}`):                    "reports",
		named("other", `{"a": 1}`):                                                             "",
		markerChunk("💻", "ls") + markerChunk("💻", "ls") + text("x") + stop():                   "old",
		g1("terminal", "💻", "ls") + text("x") + stop():                                         "old",
		g1("_internal", "💻", "ls") + text("x") + stop():                                        "",
		text("a\n`💻 ls`\nb") + stop():                                                          "",
		named("hermes.status", `{}`) + markerChunk("💻", "ls") + named("hermes.status", `{}`):   "reports old reports",
	} {
		m := &observedMemory{memory: memory{}}
		p := chatParams
		p.Usage = m
		run(role()+in, Options{}, p, inOne, CauseEOF)
		if got := strings.Join(m.told, " "); got != want {
			t.Errorf("told %q, want %q of %s", got, want, in)
		}
	}
}
