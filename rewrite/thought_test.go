package rewrite

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// inDeltas cuts a text into deltas of n runes each.
func inDeltas(s string, n int) string {
	var b strings.Builder
	for rs := []rune(s); len(rs) > 0; {
		k := min(n, len(rs))
		b.WriteString(text(string(rs[:k])))
		rs = rs[k:]
	}
	return b.String()
}

func TestTagsSplitAnywhere(t *testing.T) {
	for _, c := range prosetest.TaggedTexts {
		for n := 1; n <= len(c.In); n++ {
			in := role() + inDeltas(c.In, n) + stop()
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
		for _, e := range decode(repair(role() + inDeltas(in, n) + stop())) {
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
		if v.story() != "other reasoning text text finish done" {
			t.Errorf("%s: order %s", r.name(), v.story())
		}
	}
	if seen != 3 {
		t.Errorf("saw %d recordings", seen)
	}
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
		if v.story() != c.story {
			t.Errorf("%s: order %s, want %s", c.name, v.story(), c.story)
		}
		if len(v.finishes) != 1 {
			t.Errorf("%s: finishes %q", c.name, v.finishes)
		}
	}
}

// finishWith is a finish chunk with content.
func finishWith(content, reason, more string) string {
	return strings.Replace(finishChunk(reason, more), `"delta": {}`, `"delta": {"content": `+asciiJSON(content)+`}`, 1)
}

// TestRepeatedTextFollows: providers that say the content twice, as
// choices[0].text, say the same twice behind the sidecar.
func TestRepeatedTextFollows(t *testing.T) {
	both := func(s string) string {
		return `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "text": ` + asciiJSON(s) + `, "delta": {"token_id": 7, "content": ` + asciiJSON(s) + `}, "finish_reason": null}]}` + "\n\n"
	}
	behind := func(s string) string {
		return `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ` + asciiJSON(s) + `}, "text": ` + asciiJSON(s) + `}]}` + "\n\n"
	}
	for _, form := range []func(string) string{both, behind} {
		for _, in := range [][]string{
			{"<think>", "plan", "</think>", "\n\n", "Answer"},
			{"<thi", "nk>pl", "an</thi", "nk>", "\n\nAns", "wer"},
			{"Hi\n\n<", "b> ", "\n\n<th", "ink>a", "b</think>c"},
			{"<think>plan</think>Answer"},
			{"a\n", "`💻 ls`\n", "b\n`📖", " x`", "\nc"},
			{"a\n`💻 l", "s`\nb"},
			{"\n`💻 ls`\n", "a"},
		} {
			var stream, all strings.Builder
			for _, s := range in {
				stream.WriteString(form(s))
				all.WriteString(s)
			}
			out := repair(stream.String() + stop())
			plain := look(t, repair(texts(in...)+stop()))
			v := look(t, out)
			same(t, v.content, plain.content, "contents")
			same(t, v.reasoning, plain.reasoning, "reasonings")
			same(t, repeats(t, out), v.content, "repeats of "+all.String())
			same(t, repair(out), out, "twice and once")
		}
	}
}

func TestReasoningIsEvidence(t *testing.T) {
	v := look(t, repair(markerChunk("💻", "ls")+texts("<think>", "hm", "</think>", "Answer")+stop()))
	if v.story() != "running completed reasoning text finish done" {
		t.Errorf("order: %s", v.story())
	}
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
	if v.story() != "reasoning running completed reasoning text finish done" {
		t.Errorf("order: %s", v.story())
	}
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
			in := g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + inDeltas(c.in, n) + stop()
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

// TestPartialOfReasoning: what the client has been sent decides.
func TestPartialOfReasoning(t *testing.T) {
	for _, c := range []struct {
		r    Reasoning
		want bool
	}{{ReasoningExtract, true}, {ReasoningKeep, true}, {ReasoningDrop, false}} {
		v := look(t, repairWith(texts("<think>", "plan"), Options{Reasoning: c.r}))
		v.checkErrorFinish(t, CodeIncomplete)
		if got := *v.finish.Hermes.Partial; got != c.want {
			t.Errorf("%s: partial is %t", c.r, got)
		}
	}
}

func TestCrashInsideReasoning(t *testing.T) {
	for _, in := range []string{"<think>plan", "<think>plan</th", "<think>plan</think", "<think>plan `</think>"} {
		for n := 1; n <= len(in); n++ {
			out, sum := run(inDeltas(in, n), Options{}, chatParams, inOne, CauseAborted)
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
		if v.story() != "running completed text text finish done" {
			t.Errorf("%q: order %s", held, v.story())
		}
	}
}
