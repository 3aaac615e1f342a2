package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// The model reads tags as the table says, and FuzzReasoning reads them as the model does, however they are cut.
func TestTags(t *testing.T) {
	for _, c := range prosetest.TaggedTexts {
		content, reasoning := withoutReasoning(c.In, true)
		same(t, content, c.Content, c.Name+": contents")
		same(t, reasoning, c.Reasoning, c.Name+": reasonings")
	}
}

// Tags beside and around tools, imitations, other frames, and other members of chunks.
func TestTagsAndTheirNeighbours(t *testing.T) {
	const call = `"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]`
	trust, ls, other := Options{Imitations: ImitationsTrust}, markerChunk("💻", "ls"), ofChoice(1, text("x"))
	own := func(name, s string) string { // a delta as the sidecar writes it
		return strings.NewReplacer(`", "`, `","`, `, "`, `,"`, `": `, `":`).Replace(delta(`"` + name + `": ` + asciiJSON(s)))
	}
	logprobs := func(chunk string) string {
		return strings.Replace(chunk, `"finish_reason"`, `"logprobs": {"content": [1]}, "finish_reason"`, 1)
	}
	another := func(chunk string) string {
		return strings.Replace(chunk, `"finish_reason"`, `"text": "x", "finish_reason"`, 1)
	}
	finish := func(content, reason, usage string) string {
		return finishChunkWith(`"content": `+asciiJSON(content), reason, usage) + doneFrame
	}
	rows := map[string]row{
		"the frame stays": {in: turn(texts("<think>", "a < b \u2603", "</think>", "\n\nAnswer")),
			out: turn(strings.Replace(text("a < b \u2603"), `"content"`, `"reasoning_content"`, 1), text("Answer"))},
		"upstream's own": {in: turn(reasoning("I <think> so"), delta(`"reasoning": "</think>"`), text("Answer")),
			out: passes},
		"role with a tag": {in: delta(`"role": "assistant", "content": "<think>"`) + texts("a</think>b") + stop(),
			out: delta(`"role": "assistant", "content": ""`) + delta(`"reasoning_content": "a"`) + text("b") + stop()},
		"role with all": {in: delta(`"role": "assistant", "content": "<think>a"`) + texts("</think>b") + stop(),
			out: delta(`"role": "assistant", "reasoning_content": "a"`) + text("b") + stop()},
		"null members": {in: turn(delta(`"content": "<think>a</think>b", "tool_calls": null`)),
			out: turn(own("reasoning_content", "a"), delta(`"content": "b", "tool_calls": null`))},
		"a member of the chunk": {in: turn(strings.Replace(text("<think>a</think>b"), `null}]`, `null}], "citations": ["x"]`, 1)),
			out: turn(own("reasoning_content", "a"), strings.Replace(text("b"), `null}]`, `null}], "citations": ["x"]`, 1))},
		"a member of the choice": {in: turn(logprobs(text("<think>")), text("a</think>b")),
			out: turn(logprobs(text("")), delta(`"reasoning_content": "a"`), text("b"))},
		"another text of the choice": {in: turn(another(text("<think>")), text("a</think>b")),
			out: turn(another(text("")), delta(`"reasoning_content": "a"`), text("b"))},
		"tool calls": {in: turn(text("<think>"), delta(`"content": "a", `+call)),
			out: turn(own("reasoning_content", "a"), delta(`"content": "", `+call))},
		"reasoning of upstream's": {in: turn(text("<think>"), delta(`"content": "a", "reasoning": null`)),
			out: turn(own("reasoning_content", "a"), delta(`"content": "", "reasoning": null`))},
		"a finish chunk with all": {in: finish("<think>a</think>b", "stop", realUsage),
			story: "reasoning text finish done"},
		"a finish chunk, unclosed": {in: finish("<think>a", "stop", realUsage),
			story: "reasoning finish done"},
		"half a closing tag at the finish": {in: text("<think>a</th") + finish("in", "stop", realUsage),
			story: "reasoning reasoning finish done"},
		"a crash": {in: finish("<think>a</think>b", "error", zeroUsage),
			story: "reasoning text error finish done"},
		"a crash in the reasoning": {in: text("<think>a</th") + finishChunk("error", zeroUsage) + doneFrame,
			story: "reasoning reasoning error finish done"},
		"a marker before": {in: ls + texts("<think>", "hm", "</think>", "Answer") + stop(),
			story: "running completed reasoning text finish done", content: "Answer", reasoning: "hm"},
		"a marker within": {in: texts("<think>", "I look") + ls + texts(" and see", "</think>\n\n", "Answer") + stop(),
			story: "reasoning running completed text text text finish done", content: " and see\n\nAnswer", reasoning: "I look"},
		"white space after a tool": {in: texts("<think>", "a", "</think>") + ls + texts("\n\nAnswer") + stop(),
			content: "\n\nAnswer"}, // as in G3
		"a tool, then reasoning": {in: texts("Hi") + ls + texts("<think>a</think>Answer") + stop(),
			content: "Hi\nAnswer"},
		"a trusted tool, then a tag": {in: texts("a\n`💻 ls`\n", "<think>", "hm", "</think>", "Answer") + stop(),
			o: trust, story: "text running completed reasoning text finish done"},
		"a trusted tool, then half a marker": {in: texts("`💻 a`\n", "`💻 ", "x") + stop(), o: trust,
			story: "running completed text text finish done"},
		"a trusted tool, then half a tag": {in: texts("`💻 a`\n", "<thin", "x") + stop(), o: trust,
			story: "running completed text text finish done"},
		"white space is no answer": {in: texts("<think>", "\n\n", "</think>") + finishChunk("stop", zeroUsage) + doneFrame,
			content: nothing, reasoning: "\n\n", end: CodeCrashed},
		"a bracket ends an imitation's newlines": {in: texts("`💻 ls`\n<\ny") + stop(),
			content: "<\ny", reasoning: nothing},
		"a tool within half an opening tag": {in: texts("<thi") + ls + texts("nk>x</think>y") + stop(),
			content: "<thi\nnk>x</think>y", reasoning: nothing},
		"indentation before a tool": {in: texts("Hi\n    ") + ls + texts("<think>x</think>c") + stop(),
			content: "Hi\n    \nc", reasoning: "x"},
		"a half tag that waits too long": {in: text("<thi") + strings.Repeat(delta(""), 20) + texts("nk>plan</think>Answer") + stop(),
			o: Options{MaxFrame: 1000}, out: passes},
		"other choices": {in: text("<thi") + other + text("nk>plan</") + other + text("think>Answer") + other + ofChoice(1, finishChunk("stop", "")) + stop(),
			story: "other reasoning other text other finish finish done", content: "Answer", reasoning: "plan"},
		"half a closing tag in a second stretch": {in: role() + texts("<think>a</think>", "<think>", "</thi"),
			reasoning: "a\n\n</thi"},
		"that before a tool": {in: role() + texts("<think>a</think>", "<think>", "</thi") + g2Start("t", "💻", "l", "call_1"),
			reasoning: "a\n\n</thi"},
		"a call in half a tag": {in: turn(delta(`"content": "<thi", `+call), text("nk>")),
			content: "<think>"},
		"a call in a held line": {in: turn(delta(`"content": "a\n`+"`💻 l"+`", `+call), text("s`")),
			out: passes},
		"a call in half a closing tag": {in: turn(text("<think>a</th"), delta(`"content": "ink", `+call)),
			reasoning: "a</think"},
	}
	for _, o := range []Options{{Imitations: ImitationsStrip}, trust} {
		name := string(o.Imitations)
		rows["no tag after a tool"+name] = row{in: texts("`💻 ls`\nUse ", "<think> tags.") + stop(), o: o,
			content: "Use <think> tags.", reasoning: nothing}
		rows["a tag after a tool"+name] = row{in: texts("`💻 ls`\n<think>a</think>", "\n\nAnswer") + stop(),
			o: o, content: "Answer", reasoning: "a"}
		// Text that has been held back completes the tools before it, also if the end of one lets it go.
		for _, end := range []string{g2End("terminal", "2"), g2End("read_file", "1"), named(progressEvent, `{"tool": "terminal", "status": "completed", "label": "x"}`)} {
			rows[name+end] = row{in: g1("read_file", "📖", "a") + g2Start("terminal", "💻", "ls", "2") + g1("patch", "🔧", "b") + text("`💻 l") + end + text("x") + stop(),
				o: o}
		}
		for _, c := range [][3]string{
			{"<think>a</think>\n\n`💻 ls`\nAnswer", "Answer", "a"},
			{"`💻 ls`\n<think>a</think>Answer", "Answer", "a"},
			{"Hi\n`💻 ls`\n\n<think>a</think>Answer", "Hi\nAnswer", "a"},
			{"<think>\n`💻 ls`\n</think>Answer", "Answer", "\n`💻 ls`\n"},
		} {
			for n := 1; n <= len(c[0]); n++ {
				rows[fmt.Sprintf("%s%q in deltas of %d", name, c[0], n)] = row{in: toolOfUpstream + deltasOf(c[0], n) + stop(),
					o: o, content: c[1], reasoning: c[2]}
			}
		}
	}
	for _, r := range ReasoningValues() {
		v := look(t, repairWith(texts("<think>", "plan", "</think>")+finishChunk("stop", zeroUsage)+doneFrame, Options{Reasoning: r}))
		equal(t, strings.Join(v.finishes, " "), "stop", "an answer of reasoning, "+string(r))
	}
	for _, between := range []string{comment, delta(""), delta(`"content": ""`), ": c\n"} { // says nothing
		in := strings.Join([]string{text("<th"), text("ink>pl"), text("an</"), text("think>"), text("Answer")}, between) + stop()
		rows["between deltas: "+between] = row{in: in, content: "Answer", reasoning: "plan"}
		if n := strings.Count(repair(in), strings.TrimSpace(between)); between != delta("") && n != 4 {
			t.Errorf("%q left %d times", between, n)
		}
	}
	for _, c := range []struct{ inDelta, inChunk string }{ // which providers put into every chunk
		{"", `, "error": null`}, {`, "channel": "final"`, ""}, {`, "token_id": 7`, ""},
		{`, "reasoning": null, "tool_calls": []`, `, "usage": null`}, {"", `, "system_fingerprint": "fp_1"`},
	} {
		for n := 1; n < 9; n++ {
			in := strings.ReplaceAll(deltasOf("<think>plan</think>\n\nAnswer\n`💻 ls`\nend", n), `"}, "finish_reason": null}]`, `"`+c.inDelta+`}, "finish_reason": null}]`+c.inChunk)
			rows[fmt.Sprintf("%v in deltas of %d", c, n)] = row{in: in + stop(), content: "Answer\nend",
				reasoning: "plan"}
		}
	}
	check(t, rows)
	first, _, _ := strings.Cut(repair(delta(`"role": "assistant", "content": "<think>a</think>b"`)+stop()), "\n\n")
	contains(t, first, `"delta":{"role":"assistant","reasoning_content":"a"}`)
}

// A tool ends reasoning, whether or not it is closed, because a message of the model ends there. What follows may
// be the answer (contract section 4).
func TestToolsEndReasoning(t *testing.T) {
	large := strings.Replace(g2Start("terminal", "💻", "ls", "1"), `"ls"`, `"`+strings.Repeat("x", 9000)+`"`, 1)
	tools := map[string]string{
		"a marker":          markerChunk("💻", "ls"),
		"G1":                g1("terminal", "💻", "ls"),
		"G2":                g2Start("terminal", "💻", "ls", "1") + g2End("terminal", "1"),
		"two at once":       g2Start("terminal", "💻", "ls", "1") + g2Start("read_file", "📖", "a", "2"),
		"one after another": g2Start("terminal", "💻", "ls", "1") + g2End("terminal", "1") + g1("read_file", "📖", "a"),
		"a large event":     large,
		"a comment":         ": hermes.tool.progress " + `{"tool": "terminal", "label": "ls", "toolCallId": "1", "status": "running"}` + "\n\n",
		"without a name":    frames(repairWith(role()+g2Start("terminal", "💻", "ls", "1"), Options{Progress: ProgressUnnamed}))[1],
	}
	for kind, tool := range tools {
		for _, c := range []struct{ before, after, content, reasoning string }{
			{"<think>I look.", "There are 3.", "There are 3.", "I look."},
			{"<think>I look.", "\n\n<thought>I know.</thought>There are 3.", "\n\nThere are 3.", "I look.\n\nI know."},
			{"<think>", "There are 3.", "There are 3.", ""},
			{"Hi\n\n<think>I look.\n\n", "\n\nThere are 3.", "Hi\n\n\n\nThere are 3.", "I look.\n\n"},
			{"<think>a</thi", "nk>b", "nk>b", "a</thi"},
			{"<think>```\n</think>\n", "b", "b", "```\n"}, // the fence was never closed
			{"<think>a `</think>", "` b", "` b", "a `"},   // not code, as far as anybody can tell

			// The closing tag of the reasoning that the tool has ended says nothing to a client.
			{"<think>I look", " and see</think>\n\nAnswer", " and see\n\nAnswer", "I look"},
			{"<think>I look", " and see\n</REASONING>\nAnswer", " and see\n\nAnswer", "I look"},
			{"<think>I look", "\n\n</think>\n\nAnswer", "\n\nAnswer", "I look"},
			{"<think>I look", "</think><think>a</think>Answer", "Answer", "I look\n\na"},
			{"<think>I look", "`</think>` ends it. </think>b", "`</think>` ends it. b", "I look"},
			{"<think>I look", "```\n</think>\n```\n", "```\n</think>\n```\n", "I look"},
			{"<think>I look", "a\n`💻 ls`\n</think>b", "a\nb", "I look"},
		} {
			name := fmt.Sprintf("%s, %q, %q", kind, c.before, c.after)
			for _, n := range []int{1, 3, len(c.after)} {
				in := role() + text(c.before) + tool + deltasOf(c.after, n) + stop()
				o := Options{Imitations: ImitationsStrip}
				if kind == "a large event" {
					o.MaxFrame = 8000
				}
				out := repairWith(in, o)
				v := look(t, out)
				same(t, v.content, c.content, name+": contents")
				same(t, v.reasoning, c.reasoning, name+": reasonings")
				if kind != "a large event" {
					v.checkLifecycle(t)
				}
				same(t, repairWith(out, o), out, name+": twice and once")
				equal(t, strings.Join(v.finishes, " "), "stop", name)
				for _, p := range ProgressForms() {
					o.Progress = p
					hidden, _ := anyCut(t, in, o, chatParams, CauseEOF)
					same(t, look(t, hidden).content, c.content, name+": contents, progress "+string(p))
					same(t, look(t, hidden).reasoning, c.reasoning, name+": reasonings, progress "+string(p))
				}
				o = Options{Imitations: ImitationsStrip, Reasoning: ReasoningDrop, MaxFrame: o.MaxFrame}
				same(t, look(t, repairWith(in, o)).content, c.content, name+": contents, reasoning drop")
				if t.Failed() {
					t.Fatalf("%s in deltas of %d:\n%s", name, n, out)
				}
			}
		}
	}
}

// Once upstream has sent reasoning of its own, tags in the text are text (contract section 4).
func TestTagsAfterReasoningOfUpstreams(t *testing.T) {
	both := func(reasoning, content string) string {
		return delta(`"reasoning_content": ` + asciiJSON(reasoning) + `, "content": ` + asciiJSON(content))
	}
	large := reasoning(strings.Repeat("x", 9000))
	literal := text("The tags are:\n\n") + text("<think>\n\nopens the reasoning of R1. It has no closing form in Qwen.\n\nSo your parser must wait.")
	rows := map[string]row{
		"in an event before":           {in: turn(reasoning("r"), literal), out: passes},
		"as reasoning":                 {in: turn(delta(`"reasoning": "r"`), literal), out: passes},
		"with content":                 {in: turn(both("r", "<think>a</think>b")), out: passes},
		"of another choice":            {in: turn(ofChoice(1, reasoning("r")), literal, ofChoice(1, finishChunk("stop", ""))), out: passes},
		"in a large frame":             {in: turn(large, literal), o: Options{MaxFrame: 8000}, out: passes},
		"then a tool":                  {in: turn(reasoning("r"), toolOfUpstream, literal), o: Options{Progress: ProgressBare}, out: passes},
		"then an imitation":            {in: turn(reasoning("r"), text("`💻 ls`\n<think>a</think>b")), content: "<think>a</think>b"},
		"in a role's chunk":            {in: delta(`"role": "assistant", "reasoning_content": "r"`) + literal + stop(), out: passes},
		"a space is none":              {in: turn(reasoning(" \n"), text("<think>a</think>b")), content: "b", reasoning: " \na"},
		"null is none":                 {in: turn(delta(`"reasoning_content": null, "content": "<think>a</think>b"`)), content: "b", reasoning: "a"},
		"an empty string is none":      {in: turn(delta(`"reasoning_content": "", "content": "<think>a"`), text("</think>b")), content: "b", reasoning: "a"},
		"within a stretch":             {in: turn(text("<think>a"), reasoning("r"), text("b")), content: "b", reasoning: "ar"},
		"within a stretch, closed":     {in: turn(text("<think>a"), reasoning("r"), text("b</think>c")), content: "b</think>c", reasoning: "ar"},
		"after a tool and a stretch":   {in: turn(text("<think>a"), toolOfUpstream, reasoning("r"), text("b</think>c")), content: "b</think>c", reasoning: "ar"},
		"with content, in a stretch":   {in: turn(text("<think>a"), both("r", "b")), content: "b", reasoning: "ar"},
		"in half of one, with content": {in: turn(text("<thi"), both("r", "nk>a</think>b")), out: passes},
		"in half of it, with content":  {in: turn(text("<think>a</thi"), both("r", "nk>b")), content: "nk>b", reasoning: "a</thir"},
		"in a held line, with content": {in: turn(text("a\n`💻 l"), both("r", "s`\nb")), content: "a\nb", reasoning: "r"},
	}
	check(t, rows)
	for name, r := range rows {
		r.o.Reasoning = ReasoningDrop
		if rows[name] = r; r.out != passes {
			delete(rows, name)
		}
	}
	check(t, rows)
}

// Reasoning that is dropped and never closed leaves as content at a stop, tag and all, up to 64 KiB.
func TestDroppedReasoningIsNoLostAnswer(t *testing.T) {
	drop := Options{Reasoning: ReasoningDrop}
	long := strings.Repeat("x", 10<<10)
	check := func(name, in, want, code string) {
		t.Helper()
		out, sum := anyCut(t, in, drop, chatParams, CauseEOF)
		v := look(t, out)
		same(t, v.content, want, name)
		equal(t, v.reasoning, "", name)
		equal(t, sum.Code, code, name)
		v.checkLifecycle(t)
	}
	check("unclosed", turn(texts("Tags:\n\n", "<think>\n\nis", " a \"tag\".</th")), "Tags:\n\n<think>\n\nis a \"tag\".</th", "")
	check("after a tool", turn(toolOfUpstream, texts("<think>The", " answer")), "<think>The answer", "")
	check("after a closed one", turn(texts("<think>a</think><thought>", "b")), "<thought>b", "")
	check("in the finish chunk", role()+finishChunkWith(`"content": "<think>a"`, "stop", realUsage)+doneFrame, "<think>a", "")
	check("closed", turn(texts("<think>a", "</think>b")), "b", "")
	check("ended by a tool", turn(texts("<think>a"), toolOfUpstream, texts("b")), "b", "")
	check("nothing in it", turn(texts("<think>", "\n")), "", CodeEmpty)
	check("length", role()+text("<think>a")+finishChunk("length", realUsage)+doneFrame, "", "")
	check("a crash", role()+text("<think>a"), "", CodeIncomplete)
	check("60 KiB", turn(text("<think>"), strings.Repeat(text(long), 6)), "<think>"+strings.Repeat(long, 6), "")
	check("70 KiB", turn(text("<think>"), strings.Repeat(text(long), 7)), "", "")
	check("a stop after an error", turn(text("<think>a"), `data: {"error": {"message": "boom"}}`+"\n\n"), "", CodeAgentError)
	check("a stop that may be false", role()+text("<think>a")+finishChunk("stop", zeroUsage)+doneFrame, "<think>a", "")
	drop.ZeroUsage = ZeroUsageError
	check("a false stop", role()+text("<think>a")+finishChunk("stop", zeroUsage)+doneFrame, "", CodeCrashed)
	check("a false stop after a tool", role()+toolOfUpstream+text("<think>a")+finishChunk("stop", zeroUsage)+doneFrame, "", CodeCrashed)
}

// A stop whose only words are in reasoning that no tag closes is an answer, and no empty one (contract section 4).
func TestUnclosedReasoningIsAnAnswer(t *testing.T) {
	memory := g2Start("memory", "🧠", "+memory", "m") + g2End("memory", "m")
	crash := finishChunk("stop", zeroUsage) + doneFrame
	check(t, map[string]row{
		"after a tool":                {in: turn(toolOfUpstream, text("<think>The answer")), end: "stop", reasoning: "The answer"},
		"after a marker":              {in: turn(text("Hi"), markerChunk("💻", "ls"), text("\n\n<think>"), text("The answer")), end: "stop", reasoning: "The answer"},
		"in the finish chunk":         {in: role() + toolOfUpstream + finishChunkWith(`"content": "<think>The answer"`, "stop", realUsage) + doneFrame, end: "stop"},
		"half a closing tag":          {in: turn(toolOfUpstream, text("<think></thin")), end: "stop", reasoning: "</thin"},
		"before reasoning of theirs":  {in: turn(toolOfUpstream, text("<think>The answer"), reasoning("r")), end: "stop"},
		"before a tool for memory":    {in: turn(text("<think>The answer"), memory), end: "stop"},
		"after a tool, before memory": {in: turn(toolOfUpstream, text("<think>The answer"), memory), end: "stop"},
		"before a tool":               {in: turn(text("<think>The answer"), toolOfUpstream), end: CodeEmpty},
		"before memory and a tool":    {in: turn(text("<think>The answer"), memory, g1("terminal", "💻", "ls")), end: CodeEmpty},
		"closed":                      {in: turn(toolOfUpstream, text("<think>The answer</think>\n")), end: CodeEmpty},
		"closed, before memory":       {in: turn(text("<think>The answer</think>"), memory), end: CodeEmpty},
		"closed, then white space":    {in: turn(toolOfUpstream, text("<think>The answer</think><think>\n")), end: CodeEmpty},
		"white space":                 {in: turn(toolOfUpstream, text("<think> \n")), end: CodeEmpty},
		"nothing":                     {in: turn(toolOfUpstream, text("<think>")), end: CodeEmpty},
		"no usage":                    {in: role() + toolOfUpstream + text("<think>The answer") + crash, end: CodeCrashed},
	})
}
