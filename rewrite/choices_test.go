package rewrite

import (
	"strings"
	"testing"
)

// choicesChunk is a chunk with several choices.
func choicesChunk(choices, more string) string {
	return `data: {` + envelopeOfTests + `, "choices": [` + choices + `]` + more + "}\n\n"
}

// Hermes sends one choice: an answer with another is not looked at for false stops.
func TestStopsOfSeveralChoices(t *testing.T) {
	finish := func(i, more string) string {
		return choicesChunk(`{"index": `+i+`, "delta": {}, "finish_reason": "stop"}`, more)
	}
	other := choicesChunk(`{"index": 1, "delta": {"content": "x"}, "finish_reason": null}`, "")
	for name, in := range map[string]string{
		"the other speaks":        role() + other + finish("0", "") + finish("1", zeroUsage) + doneFrame,
		"the other only ends":     role() + finish("1", "") + finish("0", zeroUsage) + doneFrame,
		"both in one chunk":       role() + choicesChunk(`{"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {}, "finish_reason": "stop"}`, zeroUsage) + doneFrame,
		"the other alone":         other + finish("1", zeroUsage) + doneFrame,
		"one that nobody expects": role() + choicesChunk(`{"index": 64, "delta": {"content": "x"}, "finish_reason": null}`, "") + finish("0", zeroUsage) + doneFrame,
	} {
		out, sum := run(in, Options{ZeroUsage: ZeroUsageError}, chatParams, inOne, CauseEOF)
		same(t, out, in, name+": bytes")
		if sum.Code != "" {
			t.Errorf("%s: %+v", name, sum)
		}
	}
}

// If one choice has failed, its error has left: the stream has no second one, and the
// others do not end well after it, for a second sidecar neither.
func TestErrorOfOneOfSeveralChoices(t *testing.T) {
	begin := role() + choicesChunk(`{"index": 1, "delta": {"content": "x"}, "finish_reason": null}`, "")
	failed := choicesChunk(`{"index": 0, "delta": {}, "finish_reason": "error"}`, `, "error": {"message": "boom"}`)
	for name, rest := range map[string]string{
		"the other stops":      choicesChunk(`{"index": 1, "delta": {}, "finish_reason": "stop"}`, realUsage) + doneFrame,
		"the other fails, too": choicesChunk(`{"index": 1, "delta": {}, "finish_reason": "error"}`, `, "error": {"message": "bang"}`) + doneFrame,
		"the other is cut off": "",
		"[DONE] too early":     doneFrame,
	} {
		out, sum := run(begin+failed+rest, Options{}, chatParams, inOne, CauseEOF)
		if n := strings.Count(out, `data: {"error":`); n != 1 || sum.Code != CodeAgentError {
			t.Errorf("%s: %d errors, code %s:\n%s", name, n, sum.Code, out)
		}
		if n := strings.Count(strings.ReplaceAll(out, " ", ""), `"finish_reason":"error"`); n != 2 {
			t.Errorf("%s: %d of 2 choices end in an error:\n%s", name, n, out)
		}
		same(t, repair(out), out, name+": twice and once")
	}
}

// Text of any of the choices in a chunk is text.
func TestTextOfOneOfSeveralChoices(t *testing.T) {
	choice := func(i, s string) string {
		return `{"index": ` + i + `, "delta": {"content": "` + s + `"}, "finish_reason": null}`
	}
	for name, chunk := range map[string]string{
		"the first": choicesChunk(choice("0", "x")+", "+choice("1", ""), ""), "the last": choicesChunk(choice("0", "")+", "+choice("1", "x"), ""),
		"the middle": choicesChunk(choice("0", "")+", "+choice("1", "x")+", "+choice("2", " "), ""),
	} {
		out := repair(role() + markerChunk("💻", "ls") + chunk)
		if i, j := strings.Index(out, `"completed"`), strings.Index(out, chunk); i < 0 || j < i {
			t.Errorf("%s: the tool does not end before the text:\n%s", name, out)
		}
		if !strings.Contains(out, `"partial":true`) {
			t.Errorf("%s: the answer is not partial:\n%s", name, out)
		}
	}
	silent := choicesChunk(choice("0", "")+", "+choice("1", " "), "")
	if out := repair(role() + markerChunk("💻", "ls") + silent); strings.Index(out, `"completed"`) < strings.Index(out, silent) || !strings.Contains(out, `"partial":false`) {
		t.Errorf("white space ends a tool:\n%s", out)
	}
}

// A label may have backticks, escaped or not: the last one ends it.
func TestBackticksInLabels(t *testing.T) {
	for raw, label := range map[string]string{
		"a\\u0060b`": "a`b", "a`b\\u0060": "a`b", "\\u0060`": "`", "`\\u0060": "`", "a\\u0060 `": "a` ", "\\u0060\\u0060": "`", "a\\u0060\\\\`": "a`\\", "a\\u0060\\t\\u0060": "a`\t",
	} {
		v := look(t, repair(delta("\"content\": \"\\n`💻 "+raw+"\\n\"")+text("x")+stop()))
		if s := v.starts(); len(s) != 1 || s[0].label != label || v.content != "\nx" && v.content != "x" {
			t.Errorf("%s: %+v, content %q", raw, s, v.content)
		}
	}
}

// Content that is no string is an answer where there is something in it.
func TestContentThatIsNoString(t *testing.T) {
	for content, says := range map[string]bool{`[{"type": "text", "text": "x"}]`: true, `{"a": 1}`: true, `[]`: false, `{}`: false, `null`: false, `5`: false} {
		in := role() + delta(`"content": `+content) + stop()
		out, sum := run(in, Options{}, chatParams, inOne, CauseEOF)
		if (sum.Code == "") != says {
			t.Errorf("%s: %+v", content, sum)
		}
		if says {
			same(t, out, in, "bytes")
		}
	}
}

// A byte order mark passes, with something after it or not.
func TestByteOrderMarkAlone(t *testing.T) {
	for _, cut := range []cutter{inOne, oneByte} {
		for _, in := range []string{mark, mark + "\n", mark + mark, mark[:2]} {
			out, _ := run(in, Options{}, Params{}, cut, CauseEOF)
			same(t, out, in, "bytes")
		}
	}
}

// Text of another choice ends the tools that markers started before it leaves, whatever
// is done with imitations.
func TestTextOfAnotherChoiceEndsTools(t *testing.T) {
	another := choicesChunk(`{"index": 1, "delta": {"content": "x"}, "finish_reason": null}`, "")
	for _, o := range []Options{{}, {Imitations: ImitationsKeep}, {Imitations: ImitationsTrust}} {
		out := repairWith(role()+markerChunk("💻", "ls")+another, o)
		if i, j := strings.Index(out, `"completed"`), strings.Index(out, another); i < 0 || j < i {
			t.Errorf("%+v: the tool does not end before the text:\n%s", o, out)
		}
	}
}

// Of two contents in a delta the last counts, and the first stays. It must not become the
// only one: clients would see it, and a second sidecar would read it.
func TestContentThatIsThereTwice(t *testing.T) {
	dup := func(s string) string { return delta(`"content": "x", "content": ` + asciiJSON(s)) }
	deltas := func(s string) string {
		return choicesChunk(`{"index": 0, "delta": {"content": "x"}, "delta": {"content": `+asciiJSON(s)+`}, "finish_reason": null}`, "")
	}
	for name, twin := range map[string]func(string) string{"contents": dup, "deltas": deltas} {
		for _, o := range []Options{{}, {Reasoning: ReasoningDrop}, {Imitations: ImitationsKeep}} {
			for _, in := range []string{
				role() + twin("<think>a") + text("b</think>") + text("```") + text("\n`💻 a`\n") + stop(),
				role() + twin("<think>a</think>b") + text("\n\n`💻 a`\n") + stop(),
				role() + twin("\n`💻 ls`\n") + text("\n\nb") + stop(),
				role() + twin("`💻 ls") + text("`\nb") + stop(),
				role() + twin("a\n`💻 ls`\nb") + stop(),
			} {
				out, _ := run(in, o, chatParams, inOne, CauseEOF)
				v := look(t, out)
				if strings.Contains(v.content, "x") {
					t.Errorf("%s: the first content shows:\n%s", name, out)
				}
				if o.Reasoning != ReasoningDrop { // see Readings
					same(t, repairWith(out, o), out, name+": twice and once")
				}
			}
		}
	}
}
