package rewrite

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

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
		if strings.Count(out, `"tool_calls"`) != 1 {
			t.Errorf("calls are lost or doubled:\n%s", out)
		}
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
				if n := strings.Count(out, `"`+name+`"`); n != 1 {
					t.Errorf("%q, %s: %s leaves %d times:\n%s", s, r, name, n, out)
				}
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
