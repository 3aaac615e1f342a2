package rewrite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

func TestTagsSplitAnywhere(t *testing.T) {
	for _, c := range prosetest.TaggedTexts {
		for n := 1; n <= len(c.In); n++ {
			in := role() + deltasOf(c.In, n) + stop()
			out := repair(in)
			v := look(t, out)
			same(t, v.content, c.Content, c.Name+": contents")
			same(t, v.reasoning, c.Reasoning, c.Name+": reasonings")
			same(t, repair(out), out, c.Name+": twice and once")
			same(t, repairWith(in, Options{Reasoning: ReasoningKeep}), in, c.Name+": bytes of what is kept")
			dropped := look(t, repairWith(in, Options{Reasoning: ReasoningDrop}))
			if dropped.content != c.Content || dropped.reasoning != "" {
				t.Errorf("%s: dropped: content %q, reasoning %q", c.Name, dropped.content, dropped.reasoning)
			}
			if c.Reasoning == "" && c.Content == c.In {
				same(t, out, in, c.Name+": bytes of what needs no change")
			}
			if t.Failed() {
				t.Fatalf("%s in deltas of %d", c.Name, n)
			}
		}
	}
}

func TestReasoningHasADeltaOfItsOwn(t *testing.T) {
	const in = "Hi\n\n<think>plan</think>\n\nAnswer\n\n<think>more</think> End"
	for n := 1; n <= len(in); n++ {
		for _, e := range decode(repair(role() + deltasOf(in, n) + stop())) {
			if strings.Contains(e.data, `"reasoning_content"`) && strings.Contains(e.data, `"content"`) {
				t.Fatalf("deltas of %d: both in one delta: %s", n, e.data)
			}
		}
	}
}

func TestThinkTagsOfLegacyRecordings(t *testing.T) {
	seen := 0
	for _, r := range chats(t, "g0-v0.8.0", "g1-v0.9.0", "gm1-v0.6.0") {
		if r.scenario != "think_tags" {
			continue
		}
		seen++
		m, _ := modern(t, r, "g3-v0.20.3")
		v := look(t, repair(r.body))
		same(t, v.content, look(t, m.body).content, r.name()+": contents")
		same(t, v.reasoning, "secret plan", r.name()+": reasonings")
		equal(t, v.story(), "other reasoning text text finish done", r.name())
	}
	equal(t, seen, 3, "recordings")
}

// TestReasoningKeepsItsFrame: but for the member's name, a frame of reasoning
// keeps its bytes.
func TestReasoningKeepsItsFrame(t *testing.T) {
	in := texts("<think>", "a < b \u2603", "</think>", "\n\nAnswer") + stop()
	want := strings.Replace(text("a < b \u2603"), `"content"`, `"reasoning_content"`, 1) + text("Answer") + stop()
	same(t, repair(in), want, "bytes")
}

func TestTagsInEscapes(t *testing.T) {
	for _, in := range []string{
		delta(`"content": "\u003cthink\u003eplan\u003c/think\u003eAnswer"`),
		delta(`"content": "\u003CTHINK>plan<\/think\u003E\n\t\u00a0Answer"`),
	} {
		v := look(t, repair(in+stop()))
		if v.content != "Answer" || v.reasoning != "plan" {
			t.Errorf("%s: content %q, reasoning %q", in, v.content, v.reasoning)
		}
	}
}

// TestNothingIsLostBesideTags: whatever else is in a chunk leaves, once.
func TestNothingIsLostBesideTags(t *testing.T) {
	const call = `"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]`
	for _, c := range []struct{ name, in, want string }{
		{"role with a tag", delta(`"role": "assistant", "content": "<think>"`) + texts("a</think>b"),
			delta(`"role": "assistant", "content": ""`) + delta(`"reasoning_content": "a"`) + text("b")},
		{"role with all", delta(`"role": "assistant", "content": "<think>a"`) + texts("</think>b"),
			delta(`"role": "assistant", "reasoning_content": "a"`) + text("b")},
		{"null members", delta(`"content": "<think>a</think>b", "tool_calls": null`),
			ownDelta("reasoning_content", "a") + delta(`"content": "b", "tool_calls": null`)},
		{"tool calls", text("<think>") + delta(`"content": "a", `+call),
			ownDelta("reasoning_content", "a") + delta(`"content": "", `+call)},
		{"reasoning of upstream's", text("<think>") + delta(`"content": "a", "reasoning": null`),
			ownDelta("reasoning_content", "a") + delta(`"content": "", "reasoning": null`)},
	} {
		same(t, repair(c.in+stop()), c.want+stop(), c.name)
	}
}

// ownDelta is a delta as the sidecar writes it.
func ownDelta(name, s string) string {
	return strings.NewReplacer(`", "`, `","`, `, "`, `,"`, `": `, `":`).Replace(delta(`"` + name + `": ` + asciiJSON(s)))
}

// TestFinishChunkWithReasoning: its content leaves before it.
func TestFinishChunkWithReasoning(t *testing.T) {
	for _, c := range []struct{ name, in, story string }{
		{"all of it", finishWith("<think>a</think>b", "stop", realUsage), "reasoning text finish done"},
		{"unclosed", finishWith("<think>a", "stop", realUsage), "reasoning finish done"},
		{"half a closing tag", text("<think>a</th") + finishWith("in", "stop", realUsage), "reasoning reasoning finish done"},
		{"a crash", finishWith("<think>a</think>b", "error", zeroUsage), "reasoning text error finish done"},
		{"a crash in the reasoning", text("<think>a</th") + finishChunk("error", zeroUsage), "reasoning reasoning error finish done"},
	} {
		v := look(t, repair(c.in+doneFrame))
		equal(t, v.story(), c.story, c.name)
		equal(t, len(v.finishes), 1, c.name)
	}
}

// finishWith is a finish chunk with content.
func finishWith(content, reason, more string) string {
	return strings.Replace(finishChunk(reason, more), `"delta": {}`, `"delta": {"content": `+asciiJSON(content)+`}`, 1)
}

func TestReasoningIsEvidence(t *testing.T) {
	v := look(t, repair(markerChunk("💻", "ls")+texts("<think>", "hm", "</think>", "Answer")+stop()))
	equal(t, v.story(), "running completed reasoning text finish done", "order")
	if v.content != "Answer" || v.reasoning != "hm" {
		t.Errorf("content %q, reasoning %q", v.content, v.reasoning)
	}
}

// TestToolWithinReasoning: a marker goes and its tool starts; the reasoning goes
// on after it.
func TestToolWithinReasoning(t *testing.T) {
	v := look(t, repair(texts("<think>", "I look")+markerChunk("💻", "ls")+texts(" and see", "</think>\n\n", "Answer")+stop()))
	if v.content != "Answer" || v.reasoning != "I look and see" {
		t.Errorf("content %q, reasoning %q", v.content, v.reasoning)
	}
	equal(t, v.story(), "reasoning running completed reasoning text finish done", "order")
}

// TestTextBehindAToolKeepsItsWhiteSpace: as in G3, where the reasoning before
// the tool is not in the content either.
func TestTextBehindAToolKeepsItsWhiteSpace(t *testing.T) {
	v := look(t, repair(texts("<think>", "a", "</think>")+markerChunk("💻", "ls")+texts("\n\nAnswer")+stop()))
	same(t, v.content, "\n\nAnswer", "contents")
	v = look(t, repair(texts("Hi")+markerChunk("💻", "ls")+texts("<think>a</think>Answer")+stop()))
	same(t, v.content, "Hi\nAnswer", "contents")
}

// TestImitationBesideReasoning: both leave the content, in either order.
func TestImitationBesideReasoning(t *testing.T) {
	for _, c := range []struct{ in, content, reasoning string }{
		{"<think>a</think>\n\n`💻 ls`\nAnswer", "Answer", "a"},
		{"`💻 ls`\n<think>a</think>Answer", "Answer", "a"},
		{"Hi\n`💻 ls`\n\n<think>a</think>Answer", "Hi\nAnswer", "a"},
		{"<think>\n`💻 ls`\n</think>Answer", "Answer", "\n`💻 ls`\n"},
	} {
		for n := 1; n <= len(c.in); n++ {
			in := g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + deltasOf(c.in, n) + stop()
			out := repair(in)
			v := look(t, out)
			same(t, v.content, c.content, c.in+": contents")
			same(t, v.reasoning, c.reasoning, c.in+": reasonings")
			same(t, repair(out), out, c.in+": twice and once")
			trusted := look(t, repairWith(in, Options{Imitations: ImitationsTrust}))
			same(t, trusted.content, c.content, c.in+": contents when trusted")
			trusted.checkLifecycle(t)
		}
	}
}

// TestWhatSaysNothingSplitsNoTag: frames between the deltas of a tag.
func TestWhatSaysNothingSplitsNoTag(t *testing.T) {
	for _, between := range []string{keepalive, delta(""), delta(`"content": ""`), ": c\n"} {
		in := strings.Join([]string{text("<th"), text("ink>pl"), text("an</"), text("think>"), text("Answer")}, between)
		out := repair(in + stop())
		v := look(t, out)
		if v.content != "Answer" || v.reasoning != "plan" {
			t.Errorf("%q: content %q, reasoning %q", between, v.content, v.reasoning)
		}
		if n := strings.Count(out, strings.TrimSpace(between)); between != delta("") && n != 4 {
			t.Errorf("%q left %d times", between, n)
		}
	}
}

func TestFalseStopWithReasoningOnly(t *testing.T) {
	in := texts("<think>", "plan", "</think>") + finishChunk("stop", zeroUsage) + doneFrame
	for _, r := range ReasoningValues() {
		if v := look(t, repairWith(in, Options{Reasoning: r})); len(v.finishes) != 1 || v.finishes[0] != "stop" {
			t.Errorf("%s: an answer that has reasoning: %q", r, v.finishes)
		}
	}
}

func TestCrashInsideReasoning(t *testing.T) {
	for _, in := range []string{"<think>plan", "<think>plan</th", "<think>plan</think", "<think>plan `</think>"} {
		for n := 1; n <= len(in); n++ {
			out, sum := run(deltasOf(in, n), Options{}, chatParams, inOne, CauseAborted)
			v := look(t, out)
			v.checkErrorFinish(t, CodeAborted)
			_, thought, _ := prose.Split([]byte(in), (&Options{}).internal())
			want := unquote([]byte(`"` + string(thought) + `"`))
			same(t, v.reasoning, want, in+": reasonings")
			if v.content != "" || sum.Reasoning != 1 {
				t.Errorf("%s: content %q, %d stretches", in, v.content, sum.Reasoning)
			}
		}
	}
}

// TestReasoningDeltasPass: upstream's own pass byte for byte, tags or not.
func TestReasoningDeltasPass(t *testing.T) {
	in := role() + reasoning("I <think> so") + delta(`"reasoning": "</think>"`) + text("Answer") + stop()
	same(t, repair(in), in, "bytes")
}

// TestTrustedToolEndsBeforeHeldText: text completes the tools before it also
// when it has been held back.
func TestTrustedToolEndsBeforeHeldText(t *testing.T) {
	for _, held := range []string{"`💻 ", "<thin"} {
		v := look(t, repairWith(texts("`💻 a`\n", held, "x")+stop(), Options{Imitations: ImitationsTrust}))
		equal(t, v.story(), "running completed text text finish done", held)
	}
}

// with is a delta whose content is s, with more members in the delta and at the
// end of the chunk.
func with(s, inDelta, inChunk string) string {
	return strings.Replace(delta(`"content": `+asciiJSON(s)+inDelta), `"finish_reason": null}]`, `"finish_reason": null}]`+inChunk, 1)
}

// TestMembersBesideTagsDecideNothing: what providers put into every chunk splits
// no tag.
func TestMembersBesideTagsDecideNothing(t *testing.T) {
	for _, c := range []struct{ inDelta, inChunk string }{
		{"", `, "error": null`}, {`, "channel": "final"`, ""}, {`, "token_id": 7`, ""}, {`, "reasoning": null, "tool_calls": []`, `, "usage": null`},
		{"", `, "system_fingerprint": "fp_1"`},
	} {
		for n := 1; n < 9; n++ {
			var b strings.Builder
			for rs := []rune("<think>plan</think>\n\nAnswer\n`💻 ls`\nend"); len(rs) > 0; {
				k := min(n, len(rs))
				b.WriteString(with(string(rs[:k]), c.inDelta, c.inChunk))
				rs = rs[k:]
			}
			out := repair(b.String() + stop())
			v := look(t, out)
			if v.content != "Answer\nend" || v.reasoning != "plan" {
				t.Errorf("%v, deltas of %d: content %q, reasoning %q", c, n, v.content, v.reasoning)
			}
			same(t, repair(out), out, "twice and once")
		}
	}
}

// TestCallsEndWhatIsHeld: a call is no part of a tag or a line, and does not wait.
func TestCallsEndWhatIsHeld(t *testing.T) {
	const call = `, "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]`
	for _, in := range []string{with("<thi", call, "") + text("nk>"), with("a\n`💻 l", call, "") + text("s`"), text("<think>a</th") + with("ink", call, "")} {
		out := repair(in + stop())
		equal(t, strings.Count(out, `"tool_calls"`), 1, "calls")
		same(t, repair(out), out, "twice and once")
	}
}

// TestMembersLeaveOnce: whatever is beside content that goes, or is taken apart.
func TestMembersLeaveOnce(t *testing.T) {
	for _, s := range []string{"<think>", "<think>a</think>b", "<think>a", "`💻 ls`\n"} {
		for name, in := range map[string]string{
			"citations": with(s, "", `, "citations": ["x"]`),
			"logprobs":  strings.Replace(with(s, "", ""), `"finish_reason": null`, `"logprobs": {"content": [1]}, "finish_reason": null`, 1),
		} {
			for _, r := range []Reasoning{ReasoningExtract, ReasoningDrop} {
				out := repairWith(in+stop(), Options{Reasoning: r})
				equal(t, strings.Count(out, `"`+name+`"`), 1, s)
			}
		}
	}
}

// TestRoleComesFirst, in the first chunk that says something.
func TestRoleComesFirst(t *testing.T) {
	out := repair(delta(`"role": "assistant", "content": "<think>a</think>b"`) + stop())
	first, _, _ := strings.Cut(out, "\n\n")
	if !strings.Contains(first, `"delta":{"role":"assistant","reasoning_content":"a"}`) {
		t.Errorf("the first chunk is %s", first)
	}
}

// TestBoundedHoldEndsTheTag: a half tag that waits too long is text, all of it.
func TestBoundedHoldEndsTheTag(t *testing.T) {
	in := text("<thi") + strings.Repeat(delta(""), 20) + texts("nk>plan</think>Answer") + stop()
	v := look(t, repairWith(in, Options{MaxFrame: 1000}))
	if want := "<think>plan</think>Answer"; v.content != want || v.reasoning != "" {
		t.Errorf("content %q, reasoning %q", v.content, v.reasoning)
	}
}

// TestTrustedToolOpensNoTagLater: what is after its marker is read before it
// starts.
func TestTrustedToolOpensNoTagLater(t *testing.T) {
	for _, o := range []Options{{}, {Imitations: ImitationsTrust}} {
		for _, c := range []struct{ a, b, content, reasoning string }{
			{"`💻 ls`\nUse ", "<think> tags.", "Use <think> tags.", ""},
			{"`💻 ls`\n<think>a</think>", "\n\nAnswer", "Answer", "a"},
		} {
			v := look(t, repairWith(texts(c.a, c.b)+stop(), o))
			if v.content != c.content || v.reasoning != c.reasoning {
				t.Errorf("%q %s: content %q, reasoning %q", c.a, o.Imitations, v.content, v.reasoning)
			}
		}
	}
}

// TestOtherChoicesSplitNoTag, and do not wait for what is held.
func TestOtherChoicesSplitNoTag(t *testing.T) {
	other := strings.Replace(text("x"), `"index": 0`, `"index": 1`, 1)
	out := repair(text("<thi") + other + text("nk>plan</") + other + text("think>Answer") + other + stop())
	v := look(t, out)
	if v.content != "Answer" || v.reasoning != "plan" || strings.Count(out, other) != 3 || !strings.HasPrefix(out, other) {
		t.Errorf("content %q, reasoning %q:\n%s", v.content, v.reasoning, out)
	}
}

// TestTagsAndTheirNeighbours: what stands between two deltas, and what the one
// leaves for the next.
func TestTagsAndTheirNeighbours(t *testing.T) {
	for _, c := range []struct {
		name, in, content, reasoning string
	}{
		{"white space is no answer", texts("<think>", "\n\n", "</think>") + finishChunk("stop", zeroUsage) + doneFrame, "", "\n\n"},
		{"a bracket ends an imitation's newlines", texts("`💻 ls`\n<\ny") + stop(), "<\ny", ""},
		{"lines that are no paragraph", texts("Hi\nyou\n<think>x</think>y") + stop(), "Hi\nyou\n<think>x</think>y", ""},
		{"a tool within half a closing tag", texts("<think>", "a</thi") + markerChunk("💻", "ls") + texts("b</th", "x</think>c") + stop(), "c", "a</thib</thx"},
		{"a tool within half an opening tag", texts("<thi") + markerChunk("💻", "ls") + texts("nk>x</think>y") + stop(), "<thi\nnk>x</think>y", ""},
		{"indentation before a tool", texts("Hi\n    ") + markerChunk("💻", "ls") + texts("<think>x</think>c") + stop(), "Hi\n    \nc", "x"},
		{"a backtick before what is no closing tag", texts("<think>a `<</think>` b</think>c") + stop(), "` b</think>c", "a `<"},
	} {
		out := repair(c.in)
		v := look(t, out)
		if v.content != c.content || v.reasoning != c.reasoning {
			t.Errorf("%s: content %q, reasoning %q", c.name, v.content, v.reasoning)
		}
	}
	v := look(t, repair(texts("<think>", "\n\n", "</think>")+finishChunk("stop", zeroUsage)+doneFrame))
	v.checkErrorFinish(t, CodeCrashed) // white space alone is no reasoning
	v = look(t, repairWith(texts("a\n`💻 ls`\n")+texts("<think>", "hm", "</think>", "Answer")+stop(), Options{Imitations: ImitationsTrust}))
	if v.story() != "text running completed reasoning text finish done" {
		t.Errorf("a trusted tool ends at reasoning: %s", v.story())
	}
}

// TestPartsAreLinear: what a frame costs, and what leaves for it, grows as the
// frame does.
func TestPartsAreLinear(t *testing.T) {
	const head = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,`
	frame := func(n int, c string, form func(c string) string) string {
		return head + form(strings.Repeat(c, n/len(c))) + "}]}\n\n"
	}
	plain := func(c string) string { return `"delta":{"content":"` + c + `"}` }
	before := func(c string) string { return `"text":"` + c + `","delta":{"content":"` + c + `"}` }
	behind := func(c string) string { return `"delta":{"content":"` + c + `"},"text":"` + c + `"` }
	for _, c := range []string{`<think>a</think>b\n\n`, "`💻 l`\\nx\\n", "<think>a</think>" + strings.Repeat(" ", 100) + `b\n\n`, `<`, `<think>\n\n`} {
		for name, form := range map[string]func(string) string{"plain": plain, "before": before, "behind": behind} {
			for _, o := range []Options{{}, {Imitations: ImitationsTrust}} {
				took := func(n int) time.Duration {
					in := frame(n, c, form)
					began := cpuTime()
					out := repairWith(in, o)
					if len(out) > 60*len(in)+10000 {
						t.Errorf("%q %s: %d bytes become %d", c, name, len(in), len(out))
					}
					return cpuTime() - began
				}
				checkLinear(t, fmt.Sprintf("%q %s", c, name), 10<<10, 32, took)
			}
		}
	}
	id := strings.Repeat("x", 80<<10)
	in := strings.Replace(frame(80<<10, `<think>a</think>b\n\n`, plain), `"id":"c"`, `"id":"`+id+`"`, 1)
	if out := repair(in); len(out) > 20*len(in) {
		t.Errorf("%d bytes become %d", len(in), len(out))
	}
}

// TestToolEndsWhileTextIsHeld: text that has been held back completes the tools
// before it, also when the end of one lets it go.
func TestToolEndsWhileTextIsHeld(t *testing.T) {
	for _, end := range []string{g2End("terminal", "2"), g2End("read_file", "1"), named("hermes.tool.progress", `{"tool": "terminal", "status": "completed", "label": "x"}`)} {
		in := g1("read_file", "📖", "a") + g2Start("terminal", "💻", "ls", "2") + g1("patch", "🔧", "b") + text("`💻 l") + end + text("x") + stop()
		for _, o := range []Options{{}, {Imitations: ImitationsTrust}} {
			look(t, repairWith(in, o)).checkLifecycle(t)
		}
	}
}

// What was no closing tag, and is all that a second stretch says, begins with a
// paragraph break as well.
func TestSecondStretchThatIsHalfAClosingTag(t *testing.T) {
	for _, end := range []string{"", g2Start("t", "💻", "l", "call_1")} {
		out, _ := run(role()+texts("<think>a</think>", "<think>", "</thi")+end, Options{}, chatParams, inOne, CauseAborted)
		same(t, look(t, out).reasoning, "a\n\n</thi", "reasonings")
	}
}

// What is nearly a tag is text, in a stream and in an answer that is not streamed.
func TestWhatIsNearlyATag(t *testing.T) {
	for _, s := range []string{
		"<thoug>a</thoug>b", "<thin>a</thin>b", "<thinki>a</thinki>b", "<thinkin>a</thinkin>b", "<reason>a</reason>b", "<reasonin>a</reasonin>b", "<reasoning_>a</reasoning_>b",
		"<reasoning_scratchpa>a", "<thinks>a</thinks>b", "<thinking_>a", "< think>a</think>b", "<think >a</think>b", "<think/>a", "</think>a", "<>a", "<t>a", "<1hink>a", "<\u212Aink>", "<thin\u212A>a</think>b",
		"<[hink>a</think>b", "<@hink>a</think>b", "<THIN[>a",
	} {
		same(t, look(t, repair(role()+text(s)+stop())).content, s, "contents in one chunk")
		in := role()
		for _, r := range s {
			in += text(string(r))
		}
		v := look(t, repair(in+stop()))
		same(t, v.content, s, "contents rune by rune")
		equal(t, v.reasoning, "", s)
		body := completion(content(s), "stop", realUsage)
		same(t, string(RepairAnswer([]byte(body), &Options{}, nil).Body), body, "answers")
	}
}
