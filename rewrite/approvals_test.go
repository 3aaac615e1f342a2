package rewrite

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/tidwall/gjson"
)

// A desk answers as it is told, and remembers what it was asked.
type desk struct {
	answer  func(q ApprovalRequest) Approval
	asked   []ApprovalRequest
	done    []string
	logs    []string        // what has left at each split
	outcome ApprovalOutcome // of each request
}

func (d *desk) Ask(q ApprovalRequest) Approval {
	d.asked = append(d.asked, q)
	return d.answer(q)
}

func (d *desk) Done(id string) ApprovalOutcome {
	d.done = append(d.done, id)
	return d.outcome
}

// The answers that tests give.
func byLink(q ApprovalRequest) Approval { return Approval{URL: "https://h/approve/T" + q.RequestID} }
func byText(q ApprovalRequest) Approval {
	return Approval{URL: "https://h/approve/T" + q.RequestID, Text: true}
}

func byReply(ApprovalRequest) Approval { return Approval{Code: "K7QF-2M9D"} }
func byAll(q ApprovalRequest) Approval {
	return Approval{URL: "https://h/approve/T" + q.RequestID, Text: true, Code: "K7QF-2M9D"}
}

// asking repairs in with a desk that answers as answer says, and returns the answers that the client gets:
// one more than the stream was split.
func asking(in string, o Options, p Params, cut cutter, cause Cause, answer func(ApprovalRequest) Approval, outcome ...ApprovalOutcome) ([]string, *desk) {
	d := &desk{answer: answer}
	if len(outcome) > 0 {
		d.outcome = outcome[0]
	}
	p.Approvals = d
	p.Split = func(out []byte) []byte {
		d.logs = append(d.logs, string(out))
		for i := range out {
			out[i] = '?'
		}
		return out[:0]
	}
	out, _ := run(in, o, p, cut, cause)
	return append(d.logs, out), d
}

// anyAsking is asking in several cuts, of which none may make a difference.
func anyAsking(t *testing.T, in string, o Options, p Params, answer func(ApprovalRequest) Approval, outcome ...ApprovalOutcome) ([]string, *desk) {
	t.Helper()
	outs, d := asking(in, o, p, inOne, CauseEOF, answer, outcome...)
	for _, cut := range []cutter{oneByte, byFrame(in), atRandom(1, 50), atRandom(2, 500)} {
		again, e := asking(in, o, p, cut, CauseEOF, answer, outcome...)
		if !slices.Equal(again, outs) || !reflect.DeepEqual(e.asked, d.asked) || !slices.Equal(e.done, d.done) {
			t.Fatalf("two cuts: %q and %+v, or\n%q and %+v", again, e, outs, d)
		}
	}
	return outs, d
}

// approvalFrame is an event that asks for an approval, as Hermes 0.22 sends it.
func approvalFrame(id, command string) string {
	return named("approval.request", `{"command": `+asciiJSON(command)+`, "pattern_key": "k", "description": "recursive delete", "request_id": "`+id+
		`", "event": "approval.request", "run_id": "chatcmpl-1", "timestamp": 1795385820.8, "choices": ["once", "session", "always", "deny"]}`)
}

// waits is an answer whose only tool waits for an approval of the command.
func waits(command string) string {
	return turn(text("Let me."), g2Start("terminal", "💻", command, "c1"), approvalFrame("r1", command), comment, g2End("terminal", "c1"), text("\n\nSo it is."))
}

const member = `,"hermes_approval_url":"https://h/approve/Tr1"`

// The event gets a member, in every form, and nothing else changes.
func TestLinkOfAnApproval(t *testing.T) {
	for _, o := range allOptions() {
		in := waits("rm -rf x")
		outs, d := anyAsking(t, in, o, chatParams, byLink)
		if len(outs) != 1 || strings.Count(outs[0], member) != 1 {
			t.Fatalf("%+v: %q", o, outs)
		}
		want := ApprovalRequest{RunID: "chatcmpl-1", RequestID: "r1", Command: "rm -rf x", Description: "recursive delete", Tool: "terminal",
			Choices: []ApprovalChoice{"once", "session", "always", "deny"}, MayReply: true}
		if !reflect.DeepEqual(d.asked, []ApprovalRequest{want}) || !slices.Equal(d.done, []string{"r1", ""}) {
			t.Errorf("asked %+v, done %q", d.asked, d.done)
		}
		if o.NoCards && o.NoStatusLine {
			plain, _ := run(in, o, chatParams, inOne, CauseEOF)
			same(t, strings.Replace(outs[0], member, "", 1), plain, "the same without approvals")
		}
		again, e := anyAsking(t, outs[0], o, chatParams, byAll)
		same(t, strings.Join(again, ""), outs[0], "twice and once")
		if len(e.asked) > 0 {
			t.Errorf("a second sidecar asks: %+v", e.asked)
		}
	}
}

// With status_line and cards, Open WebUI shows the link, and which tool waits. One question is told once: the status
// line has no address that the text has.
func TestApprovalInOpenWebUI(t *testing.T) {
	outs, _ := anyAsking(t, waits("rm -rf x"), Options{}, chatParams, byLink)
	contains(t, outs[0], `"item":{"type":"function_call","id":"c1","call_id":"c1","name":"Approval needed: rm -rf x","arguments":"{\"label\": \"rm -rf x\"}",`+
		`"provider_function":{"name":"terminal","arguments":"{\"label\": \"rm -rf x\"}"},"status":"in_progress"}`+member)
	plain, _ := anyAsking(t, waits("rm -rf x"), Options{}, chatParams, func(ApprovalRequest) Approval { return Approval{} })
	same(t, plain[0], repairWith(waits("rm -rf x"), Options{}), "who is not asked")
	for _, c := range []struct {
		way  func(ApprovalRequest) Approval
		want string
	}{
		{byLink, "https://h/approve/Tr1 for rm -rf x"}, {byText, "rm -rf x"}, {byAll, "rm -rf x"}, {byReply, "rm -rf x"},
	} {
		for _, o := range []Options{{}, {NoCards: true}} {
			outs, _ := anyAsking(t, waits("rm -rf x"), o, chatParams, c.way)
			contains(t, outs[0], `"event":{"type":"status","data":{"description":"Approval needed: `+c.want+`","done":false}}`)
		}
	}
}

const linkText = "`🔐 Approval needed` [approve or deny](https://h/approve/Tr1): `rm -rf x`"

// The paragraph comes once, and healed histories are what upstream has said.
func TestLinkInTheText(t *testing.T) {
	for _, c := range []struct{ in, content, said string }{
		{waits("rm -rf x"), "Let me.\n\n" + linkText + "\n\n\n\nSo it is.", "Let me.\n\nSo it is."},
		{turn(approvalFrame("r1", "rm -rf x"), text("\n\nSo.")), linkText + "\n\n\n\nSo.", "\n\nSo."},
		{turn(text("a"), approvalFrame("r1", "rm -rf x"), approvalFrame("r1", "rm -rf x"), text("b")), "a\n\n" + linkText + "\n\nb", "a\n\nb"},
		{turn(text("a"), approvalFrame("r1", "rm -rf x")), "a\n\n" + linkText + "\n\n", "a"},
		{turn(text("```\na"), approvalFrame("r1", "rm -rf x"), text("\n```\n")), "```\na\n\n" + linkText + "\n\n\n```\n", "```\na\n```\n"},
		{turn(text("a\n`x"), approvalFrame("r1", "rm -rf x"), text("`")), "a\n`x\n\n" + linkText + "\n\n`", "a\n`x\n\n`"},
	} {
		for _, o := range allOptions() {
			outs, _ := anyAsking(t, c.in, o, chatParams, byText)
			v := look(t, outs[0])
			v.checkLifecycle(t)
			same(t, v.content, c.content, "contents")
			again, _ := anyAsking(t, outs[0], o, chatParams, byText)
			same(t, again[0], outs[0], "twice and once")
			body := `{"messages": [{"role": "assistant", "content": %s}, {"role": "user", "content": "u"}]}`
			for _, spell := range []func(string) string{asciiJSON, rawJSON} {
				healed, req := heal(t, fmt.Sprintf(body, spell(c.content)))
				same(t, healed, fmt.Sprintf(body, spell(c.said)), "healed histories")
				equal(t, req.Approvals, 1, "paragraphs")
			}
		}
	}
}

// A reply ends the answer; the rest of the run is an answer of its own. Each is whole, and has all tools.
func TestReplyEndsTheAnswer(t *testing.T) {
	const paragraph = "`🔐 Approval needed` reply `approve K7QF-2M9D` or `deny K7QF-2M9D`: `rm -rf x`"
	in := turn(text("Let me."), g2Start("read_file", "📖", "y", "c0"), g2Start("terminal", "💻", "rm -rf x", "c1"),
		approvalFrame("r1", "rm -rf x"), comment, g2End("terminal", "c1"), g2End("read_file", "c0"), text("\n\nSo it is."))
	for _, o := range allOptions() {
		outs, d := anyAsking(t, in, o, chatParams, byReply)
		if len(outs) != 2 || !slices.Equal(d.done, []string{"r1", ""}) {
			t.Fatalf("%+v: %q, done %q", o, outs, d.done)
		}
		a, b := look(t, outs[0]), look(t, outs[1])
		same(t, a.content, "Let me.\n\n"+paragraph, "contents")
		same(t, b.content, "\n\nSo it is.", "contents of the rest")
		if o.Progress == ProgressEnvelope && o.NoCards && o.NoStatusLine {
			same(t, a.story(), "other text running running other completed completed text finish done", "stories")
		}
		for _, v := range []*view{a, b} {
			v.checkLifecycle(t)
			equal(t, strings.Join(v.finishes, " "), "stop", "the end")
			equal(t, v.done, 1, "[DONE]")
			if o.Progress != ProgressOff {
				equal(t, len(v.tools), 4, "tool events")
			}
		}
		if !o.NoCards && envelops(o) {
			equal(t, len(cardsOf(t, outs[1])), 2, "cards of the rest")
		}
		begins(t, outs[1], `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795164800,"model":"hermes-agent","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`+"\n\n")
		contains(t, outs[1], realUsage)
		for _, out := range outs {
			again, _ := anyAsking(t, out, o, chatParams, byAll)
			same(t, strings.Join(again, ""), out, "twice and once")
		}
	}
}

// A reply does without the link if the text shall not have that. The event has both.
func TestReplyAndLink(t *testing.T) {
	outs, _ := anyAsking(t, waits("rm -rf x"), Options{}, chatParams, func(q ApprovalRequest) Approval { return Approval{URL: byLink(q).URL, Code: "K7QF-2M9D"} })
	contains(t, outs[0], member+`,"hermes_approval_code":"K7QF-2M9D"`)
	same(t, look(t, outs[0]).content, "Let me.\n\n`🔐 Approval needed` reply `approve K7QF-2M9D` or `deny K7QF-2M9D`: `rm -rf x`", "contents")
	outs, _ = anyAsking(t, waits("rm -rf x"), Options{}, chatParams, byAll)
	same(t, look(t, outs[0]).content, "Let me.\n\n`🔐 Approval needed` [approve or deny](https://h/approve/Tr1) or reply `approve K7QF-2M9D` or `deny K7QF-2M9D`: `rm -rf x`", "contents")
}

// After the paragraph a line begins, and after a split a message: imitations and tags count there, whatever was
// before. Reasoning between tags goes on. An event that is a chunk asks for nothing, nor does the one after it.
func TestTextAfterAnApproval(t *testing.T) {
	const paragraph = "`🔐 Approval needed` [approve or deny](https://h/approve/Tr1): `x`"
	for _, c := range []struct {
		way                               func(ApprovalRequest) Approval
		before, after, content, reasoning string // of the last answer
	}{
		{byReply, "a", "`💻 ls`\n\nb", "b", ""},
		{byReply, "a\n```\n", "`💻 ls`\n\nb", "b", ""},
		{byReply, "<think>hm", " so</think>\n\nDone.", "Done.", " so"},
		{byText, "a", "`💻 ls`\n\nb", "a\n\n" + paragraph + "\n\nb", ""},
		{byText, "a", "<think>b</think>c", "a\n\n" + paragraph + "\n\nc", "b"},
	} {
		outs, _ := anyAsking(t, turn(text(c.before), approvalFrame("r1", "x"), text(c.after)), Options{}, chatParams, c.way)
		v := look(t, outs[len(outs)-1])
		same(t, v.content, c.content, "contents")
		same(t, v.reasoning, c.reasoning, "reasonings")
	}
	chunk := strings.Replace(strings.Replace(approvalFrame("r1", "x"), `{"command"`, `{`+envelopeOfTests+`, "command"`, 1), `["once", "session", "always", "deny"]`, `[{"index": 0, "delta": {"content": "c"}}]`, 1)
	_, d := anyAsking(t, turn(chunk, named("hermes.status", `{"text": "x"}`)), Options{}, chatParams, byAll)
	equal(t, len(d.asked), 0, "requests")
}

// What ends the rest of a run ends as any answer, and several replies may be needed.
func TestRestOfASplitAnswer(t *testing.T) {
	begin := role() + text("a") + g2Start("terminal", "💻", "x", "c1") + approvalFrame("r1", "x")
	for name, c := range map[string]struct {
		rest  string
		cause Cause
		end   string
		story string
	}{
		"a crash":       {g2End("terminal", "c1"), CauseAborted, "upstream_aborted", "other running completed error finish done"},
		"in the tool":   {"", CauseAborted, "upstream_aborted", "other running completed error finish done"},
		"without words": {g2End("terminal", "c1") + stop(), CauseEOF, "empty_answer", "other running completed error finish done"},
		"an error":      {g2End("terminal", "c1") + finishChunk("error", `, "error": {"message": "m"}`) + doneFrame, CauseEOF, "agent_error", "other running completed error finish done"},
		"denied":        {g2End("terminal", "c1") + text("\n\nNo.") + stop(), CauseEOF, "", "other running completed text finish done"},
	} {
		t.Run(name, func(t *testing.T) {
			outs, d := asking(begin+c.rest, Options{}, chatParams, inOne, c.cause, byReply)
			b := look(t, outs[1])
			b.checkLifecycle(t)
			same(t, b.story(), c.story, "stories")
			if c.end != "" {
				b.checkErrorFinish(t, c.end)
			}
			equal(t, d.done[len(d.done)-1], "", "the end")
		})
	}
	outs, d := anyAsking(t, begin+g2End("terminal", "c1")+g2Start("terminal", "💻", "y", "c2")+approvalFrame("r2", "y")+approvalFrame("r1", "x")+g2End("terminal", "c2")+text("b")+stop(),
		Options{}, chatParams, byReply)
	equal(t, strings.Count(strings.Join(outs, ""), "hermes_approval_code"), 2, "codes")
	equal(t, d.asked[2].MayReply, false, "MayReply for a request that comes again")
	if len(outs) != 3 || !slices.Equal(d.done, []string{"r1", "r2", ""}) {
		t.Fatalf("%q, done %q", outs, d.done)
	}
	for _, out := range outs {
		v := look(t, out)
		v.checkLifecycle(t)
		equal(t, strings.Join(v.finishes, " "), "stop", "the end")
	}
}

// Who cannot be asked is not: the event leaves as it came.
func TestRequestsThatNobodyIsAskedFor(t *testing.T) {
	for name, in := range map[string]string{
		"no id":          turn(strings.Replace(approvalFrame("r1", "x"), `"request_id": "r1", `, "", 1), text("a")),
		"a null id":      turn(strings.Replace(approvalFrame("r1", "x"), `"r1"`, `null`, 1), text("a")),
		"a long id":      turn(approvalFrame(strings.Repeat("r", maxApprovalID+1), "x"), text("a")),
		"finished":       role() + text("a") + finishChunk("stop", realUsage) + approvalFrame("r1", "x") + doneFrame,
		"done":           turn(text("a")) + approvalFrame("r1", "x"),
		"choices":        turn(ofChoice(1, text("b")), approvalFrame("r1", "x"), text("a")),
		"another event":  turn(strings.Replace(approvalFrame("r1", "x"), "event: approval.request", "event: approval.other", 1), text("a")),
		"no event":       turn(strings.Replace(approvalFrame("r1", "x"), "event: approval.request\n", "", 1), text("a")),
		"none":           turn(text("a")),
		"over max_frame": turn(approvalFrame("r1", strings.Repeat("x", 3000)), text("a")),
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{MaxFrame: 2000}
			outs, d := anyAsking(t, in, o, chatParams, byAll)
			plain, _ := run(in, o, chatParams, inOne, CauseEOF)
			if len(d.asked) > 0 || len(outs) > 1 {
				t.Fatalf("asked %+v", d.asked)
			}
			same(t, outs[0], plain, "the same without approvals")
		})
	}
}

// Without Split there is no code; a link stays.
func TestNoReplyWithoutASplit(t *testing.T) {
	d := &desk{answer: byAll}
	p := chatParams
	p.Approvals = d
	out, _ := run(waits("rm -rf x"), Options{}, p, inOne, CauseEOF)
	contains(t, out, member)
	same(t, look(t, out).content, "Let me.\n\n"+linkText+"\n\n\n\nSo it is.", "contents")
	equal(t, d.asked[0].MayReply, false, "MayReply")
}

// Nothing in a command breaks out of its code span, and what cannot be seen is shown.
func TestCommandsInTheText(t *testing.T) {
	for command, shown := range map[string]string{
		"ls":                          "`ls`",
		"echo `date`":                 "`` echo `date` ``",
		"`x":                          "`` `x ``",
		"a``b`c":                      "```a``b`c```",
		" x ":                         "`  x  `",
		"a\nb\r\tc":                   "`a\\nb\\r\\tc`",
		"a\u202eb\u200bc\u2028":       "`a\\u202eb\\u200bc\\u2028`",
		"a\u3164b\u2800c\ufe0f\u034f": "`a\\u3164b\\u2800c\\ufe0f\\u034f`",
		"[x](y) <b> **c** | \\":       "`[x](y) <b> **c** | \\`",
		"\x1b[31mred\u0085":           "`\\x1b[31mred\\u0085`",
		"":                            "`?`",
		"  ":                          "`?`",
		"ä 💻":                         "`ä 💻`",
		strings.Repeat("x", 201):      "`" + strings.Repeat("x", marker.MaxShown-1) + "…`",
		strings.Repeat("x", 200):      "`" + strings.Repeat("x", marker.MaxShown) + "`",
		strings.Repeat("\n", 150):     "`" + strings.Repeat(`\n`, marker.MaxShown/2-1) + "…`",
		strings.Repeat("`", 401):      strings.Repeat("`", 200) + " " + strings.Repeat("`", 199) + "… " + strings.Repeat("`", 200),
		"a\n\n`💻 ls`\n[x](http://":    "``a\\n\\n`💻 ls`\\n[x](http://``",
	} {
		in := turn(text("a"), approvalFrame("r1", command), text("\n\nb"))
		outs, _ := anyAsking(t, in, Options{}, chatParams, byText)
		same(t, look(t, outs[0]).content, "a\n\n`🔐 Approval needed` [approve or deny](https://h/approve/Tr1): "+shown+"\n\n\n\nb", "contents")
		healed, _ := heal(t, `{"messages": [{"role": "assistant", "content": `+asciiJSON(look(t, outs[0]).content)+`}]}`)
		same(t, healed, `{"messages": [{"role": "assistant", "content": "a\n\nb"}]}`, "healed histories")
	}
	out, _ := anyAsking(t, waits("x"), Options{}, chatParams, func(ApprovalRequest) Approval { return Approval{URL: "https://h/(a)`<b>", Text: true} })
	contains(t, look(t, out[0]).content, "](https://h/%28a%29%60%3Cb%3E): `x`")
}

// A model that writes the paragraph itself loses it, as it loses markers: where clients are asked.
func TestImitationsOfTheParagraph(t *testing.T) {
	for _, line := range []string{linkText, "`🔐 Approval needed` reply `approve AAAA-AAAA` or `deny AAAA-AAAA`: ``a`b``"} {
		for n := 1; n < 60; n += 7 {
			in := role() + deltasOf("Hi.\n"+line+"\n\nThere.", n) + stop()
			for imitations, want := range map[Imitations]string{
				ImitationsStrip: "Hi.\nThere.", ImitationsTrust: "Hi.\nThere.", ImitationsKeep: "Hi.\n" + line + "\n\nThere.",
			} {
				outs, _ := anyAsking(t, in, Options{Imitations: imitations}, chatParams, byText)
				v := look(t, outs[0])
				same(t, v.content, want, "contents")
				equal(t, len(v.tools), 0, "tools")
			}
			same(t, repair(in), in, "where nobody is asked")
		}
	}
	// What only looks like it also goes. White space in front of it has left, and stays a line.
	for line, before := range map[string]string{
		strings.Replace(linkText, "🔐 ", "🔐\ufe0f ", 1): "", strings.Replace(linkText, "🔐 ", "🔐\ufe0e\u00a0", 1): "", strings.Replace(linkText, "🔐 Approval needed` ", "🔐 \tApproval\u2003needed`  ", 1): "",
		" " + linkText: " ", "   " + linkText: "   ", "  " + strings.Replace(linkText, "🔐 ", "🔐\ufe0f\u3000", 1): "  ",
	} {
		for _, first := range []string{"", "Hi.\n", "Hi.\n\n"} {
			outs, _ := anyAsking(t, role()+deltasOf(first+line+"\n\nThere.", 4)+stop(), Options{}, chatParams, byText)
			want := first + "There."
			if before != "" {
				want = first + before + "\n\nThere."
			}
			same(t, look(t, outs[0]).content, want, "contents")
			again, _ := anyAsking(t, outs[0], Options{}, chatParams, byText)
			same(t, again[0], outs[0], "twice and once")
		}
		in := role() + deltasOf("Hi.\n"+line+"\n\nThere.", 4) + stop()
		same(t, repair(in), in, "where nobody is asked")
	}
	for _, said := range []string{ // code, markers and others
		"    " + linkText, "\t" + linkText, "    `💻 ls`", "  `🔐 Security`", "`🔐 Security`", "x " + linkText, "- " + linkText, "```\n" + linkText + "\n```",
	} {
		in := turn(text("Hi.\n" + said + "\n\nThere."))
		outs, _ := anyAsking(t, in, Options{}, chatParams, byText)
		same(t, outs[0], in, "what does not look like it")
	}
}

// Events of runs and of sessions get the member, and all else stays. Their requests are done when
// upstream says so, or the tool ends.
func TestApprovalsOfOtherStreams(t *testing.T) {
	const ask = `"command": "curl -H 'Authorization: Bearer abcdefghijklmnop1234'", "request_id": "r1", "choices": ["once", "deny"]`
	ofRun := Params{RunID: "run_1"}
	starts, ends := runEvent("tool.started", `, "tool": "terminal"`), runEvent("tool.completed", `, "tool": "terminal"`)
	asks, over := runEvent("approval.request", ", "+ask), runEvent("run.completed", "")
	for name, c := range map[string]struct {
		p    Params
		in   string
		done []string
	}{
		"a run, answered":                {ofRun, starts + asks + runEvent("approval.responded", `, "choice": "once", "request_id": "r1", "resolved": 1`) + ends + over, []string{"r1", ""}},
		"a run, its tool ends":           {ofRun, starts + asks + ends + over, []string{"r1", ""}},
		"a run, a tool of the name ends": {ofRun, starts + asks + starts + ends + over, []string{""}},
		"a session": {sessionParams, sessionFrame("tool.started", `"tool_name": "terminal"`, 1) + sessionFrame("approval.request", ask, 2) +
			sessionFrame("tool.completed", `"tool_name": "terminal"`, 3) + sessionFrame("done", "", 4), []string{"r1", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			outs, d := anyAsking(t, c.in, Options{}, c.p, byAll)
			plain, _ := run(c.in, Options{}, c.p, inOne, CauseEOF)
			if len(outs) != 1 || strings.Count(outs[0], member+"}\n") != 1 || !slices.Equal(d.done, c.done) || len(d.asked) != 1 {
				t.Fatalf("%q\nasked %+v, done %q", outs, d.asked, d.done)
			}
			same(t, strings.Replace(outs[0], member, "", 1), plain, "the same without approvals")
			q := d.asked[0]
			if q.RunID != "run_1" || q.RequestID != "r1" || q.Tool != "terminal" || !strings.Contains(q.Command, "abcdefghijklmnop1234") || q.MayReply || !slices.Equal(q.Choices, []ApprovalChoice{"once", "deny"}) {
				t.Errorf("asked %+v", q)
			}
			if again, e := anyAsking(t, outs[0], Options{}, c.p, byAll); again[0] != outs[0] || len(e.asked) > 0 {
				t.Errorf("twice: %q", again)
			}
		})
	}
}

// At most eight choices are offered, and those of another sidecar's event count.
func TestChoicesThatAreOffered(t *testing.T) {
	choices := func(list string) []ApprovalChoice {
		in := turn(strings.Replace(approvalFrame("r1", "x"), `["once", "session", "always", "deny"]`, list, 1), text("a"))
		plain, _ := run(in, Options{}, chatParams, inOne, CauseEOF) // of a sidecar that does not ask
		_, d := anyAsking(t, in, Options{}, chatParams, byLink)
		_, second := anyAsking(t, plain, Options{}, chatParams, byLink)
		if !reflect.DeepEqual(second.asked, d.asked) {
			t.Errorf("a second sidecar asks %+v, want %+v", second.asked, d.asked)
		}
		return d.asked[0].Choices
	}
	for list, want := range map[string][]ApprovalChoice{
		`["once", 1, null, "", "\u0064eny"]`: {"once", "deny"}, `"once"`: nil, `[]`: nil,
		`["1","2","3","4","5","6","7","8","9"]`: {"1", "2", "3", "4", "5", "6", "7", "8"},
	} {
		if got := choices(list); !slices.Equal(got, want) {
			t.Errorf("%s: %q", list, got)
		}
	}
}

// A request that names no run is one of the stream's own.
func TestRequestsThatNameNoRun(t *testing.T) {
	of := func(in string, p Params) string {
		_, d := anyAsking(t, in, Options{}, p, byLink)
		return d.asked[0].RunID
	}
	nameless := strings.Replace(approvalFrame("r1", "x"), `"run_id": "chatcmpl-1", `, "", 1)
	equal(t, of(turn(nameless, text("a")), chatParams), "chatcmpl-1", "a chat")
	session := `, "session_id": "` + sessionID + `", "seq": 1, "ts": 2.5}`
	equal(t, of(named("run.started", `{"run_id": "run_1"`+session)+named("approval.request", `{"command": "x", "request_id": "r1"`+session), sessionParams), "run_1", "a session")
	_, d := anyAsking(t, named("approval.request", `{"command": "x", "request_id": "r1"`+session), Options{}, sessionParams, byLink)
	equal(t, len(d.asked), 0, "requests of a run that nobody knows")
}

// Of parallel tools the one waits whose label is the command's beginning, if that is certain.
func TestWhichToolWaits(t *testing.T) {
	for _, c := range []struct {
		names, labels []string
		tool          string
		done          []string // after the second tool has ended
	}{
		{[]string{"read_file", "terminal"}, []string{"cat y", "rm -rf x"}, "terminal", []string{"r1"}},
		{[]string{"read_file", "terminal"}, []string{"cat y", "rm -..."}, "terminal", []string{"r1"}},
		{[]string{"terminal", "read_file"}, []string{"rm -rf x", ""}, "terminal", nil},
		{[]string{"terminal", "terminal"}, []string{"rm -rf x", "rm -rf x"}, "", nil},
		{[]string{"read_file", "terminal"}, []string{"cat", "ls"}, "", nil},
		{[]string{"read_file"}, []string{"cat"}, "read_file", nil},
		{},
	} {
		in := role()
		for i, label := range c.labels {
			in += g2Start(c.names[i], "💻", label, fmt.Sprint("c", i))
		}
		in += approvalFrame("r1", "rm -rf x") + g2End("x", "c1")
		d := &desk{answer: byLink}
		p := chatParams
		p.Approvals = d
		New(&Options{}, p).Feed(nil, []byte(in), epoch)
		if equal(t, d.asked[0].Tool, c.tool, c.labels); !slices.Equal(d.done, c.done) {
			t.Errorf("%q: done %q, want %q", c.labels, d.done, c.done)
		}
	}
}

// A stream remembers the last requests: a paragraph for one that comes again is not written twice.
func TestRequestsThatAreRemembered(t *testing.T) {
	in := role()
	for i := range maxApprovals + 1 {
		in += approvalFrame(fmt.Sprint("q", i), "x")
	}
	count := func(again string) int {
		outs, _ := asking(in+approvalFrame(again, "x")+text("a")+stop(), Options{}, chatParams, inOne, CauseEOF, byText)
		return strings.Count(look(t, outs[0]).content, "[approve or deny]")
	}
	equal(t, count("q1"), maxApprovals+1, "paragraphs")
	equal(t, count("q0"), maxApprovals+2, "paragraphs with one that was forgotten")
}

// An answer with very many open tools does not end for a reply: they would end and begin again in one write,
// which keeps to the bound of a frame.
func TestSplitKeepsItsBound(t *testing.T) {
	for _, o := range []Options{{}, {Progress: ProgressUnnamed}, {Progress: ProgressBare}} {
		for label, most := range map[int]int{1: 255, 300: 60, 1 << 10: 30, 10 << 10: 6} {
			replies, refused := 0, 0
			for n := 0; n <= most; n += max(1, most/6) {
				d := &desk{answer: byReply}
				p := chatParams
				written := 0
				p.Approvals, p.Split = d, func(out []byte) []byte {
					written += len(out)
					return out[:0]
				}
				s := New(&o, p)
				in := role()
				for i := range n {
					in += g2Start("terminal", "💻", strings.Repeat("\"", label), fmt.Sprint("c", i))
				}
				s.Feed(nil, []byte(in), epoch)
				frame := approvalFrame("r1", strings.Repeat("`", 500))
				written += len(s.Feed(nil, []byte(frame), epoch))
				atMost(t, written, 3*len(frame)+256<<10, fmt.Sprintf("%+v, %d tools with %d bytes: bytes that leave", o, n, label))
				if d.asked[0].MayReply {
					replies++
				} else {
					refused++
				}
			}
			if replies == 0 || !o.NoCards && refused == 0 {
				t.Errorf("%d answers end for a reply, %d do not", replies, refused)
			}
		}
	}
}

// An answer that has shown an error does not end well for a reply: its end says what has failed.
func TestNoReplyAfterAnError(t *testing.T) {
	failed := `data: {"error": {"message": "boom"}}` + "\n\n"
	for _, o := range allOptions() {
		outs, d := anyAsking(t, turn(text("a"), failed, approvalFrame("r1", "ls"), text("b")), o, chatParams, byReply)
		v := look(t, strings.Join(outs, ""))
		equal(t, fmt.Sprint(len(outs), d.asked[0].MayReply, v.finishes, len(v.errors)), "1 false [error] 1", fmt.Sprintf("%+v", o))
	}
}

// A paragraph is a chunk: what keeps the stream alive after it is one as well, also behind another sidecar.
func TestParagraphBeforeTheFirstChunk(t *testing.T) {
	for _, o := range allOptions() {
		outs, _ := anyAsking(t, approvalFrame("r1", "ls")+": ping\n\n"+text("a")+stop(), o, chatParams, byText)
		again, _ := anyAsking(t, outs[0], o, chatParams, byText)
		same(t, again[0], outs[0], "twice and once")
	}
}

// A command that nobody can see can only be denied: by the reply, and by what the event offers, in every
// form and every stream.
func TestCommandsThatCannotBeShown(t *testing.T) {
	const shown = `"command": "rm -rf x"`
	for name, c := range map[string]struct {
		in string
		p  Params
	}{
		"a chat":    {turn(text("Let me."), g2Start("terminal", "💻", "x", "c1"), approvalFrame("r1", "rm -rf x"), g2End("terminal", "c1"), text("So.")), chatParams},
		"a run":     {runEvent("approval.request", `, "request_id": "r1", `+shown+`, "choices": ["once", "session", "always", "deny"]`) + runEvent("run.completed", ""), Params{RunID: "run_1"}},
		"a session": {sessionFrame("approval.request", shown+`, "request_id": "r1", "choices": ["once", "deny"]`, 3), sessionParams},
	} {
		for _, command := range []string{`"command": null`, `"command": ""`, `"command": " \n\t\u00a0"`, `"command": 5`, `"command": {"a": "rm"}`, `"command": ["rm", "x"]`, `"command": true`,
			`"command": "ls", "command": null`, `"command": "ls", "\u0063ommand": {}`, `"kommand": "ls"`} {
			in := strings.Replace(c.in, shown, command, 1)
			for _, o := range allOptions() {
				outs, d := anyAsking(t, in, o, c.p, func(ApprovalRequest) Approval { return Approval{URL: "https://h/T", Code: "K7QF-2M9D", DenyOnly: true} })
				all := strings.Join(outs, "")
				if len(d.asked) != 1 || strings.TrimSpace(d.asked[0].Command) != "" || !slices.Contains(d.asked[0].Choices, "once") {
					t.Fatalf("%s, %s: asked %+v", name, command, d.asked)
				}
				if strings.Count(all, `hoices": ["deny"]`) != 1 || strings.Contains(all, `"once"`) {
					t.Errorf("%s, %s, %+v: %s", name, command, o, all)
				}
				if name == "a chat" {
					begins(t, look(t, outs[0]).content, "Let me.\n\n`🔐 Approval needed` reply `deny K7QF-2M9D`: `")
				}
				for _, out := range outs {
					again, _ := anyAsking(t, out, o, c.p, byAll)
					same(t, strings.Join(again, ""), out, "twice and once")
				}
				if name == "a chat" && o.Progress != ProgressUnnamed { // behind a sidecar that does not ask
					plain, _ := run(in, o, c.p, inOne, CauseEOF)
					outs, d := anyAsking(t, plain, o, c.p, byLink)
					if strings.Contains(outs[0], `"once"`) || len(d.asked) != 1 {
						t.Errorf("asked %+v: %s", d.asked, outs[0])
					}
					same(t, strings.Replace(strings.Replace(outs[0], `["deny"]`, `["once", "session", "always", "deny"]`, 1), member, "", 1), plain, "all else")
				}
			}
		}
		// Others keep what upstream offers.
		outs, _ := anyAsking(t, strings.Replace(c.in, shown, `"command": "\u200b"`, 1), Options{}, c.p, byLink)
		contains(t, outs[0], `"once"`)
	}
	for choices, want := range map[string]string{`"once"`: `["deny"]`, `null`: `null`, `[]`: `["deny"]`, `["once", ["x"]]`: `["deny"]`} {
		in := turn(strings.Replace(strings.Replace(approvalFrame("r1", "x"), `"command": "x"`, `"command": 1`, 1), `["once", "session", "always", "deny"]`, choices, 1), text("a"))
		outs, _ := anyAsking(t, in, Options{}, chatParams, byLink)
		contains(t, outs[0], `"hermes_choices": `+want)
	}
}

// rows returns what Open WebUI shows of the cards of a stream: for each call its last name and the text of
// its output, and the last status line, "hidden" if that is.
func rows(stream string) (rows map[string]string, status string) {
	rows = map[string]string{}
	names := map[string]string{}
	for _, e := range decode(stream) {
		item, line := gjson.Get(e.data, "item"), gjson.Get(e.data, "event.data")
		switch description := line.Get("description").Str; {
		case description == "":
		case line.Get("hidden").Bool():
			status = "hidden"
		case line.Get("done").Bool():
			status = description
		default:
			status = description + "..."
		}
		id := item.Get("call_id").Str
		switch {
		case !item.Exists():
		case item.Get("name").Str != "":
			names[id] = item.Get("name").Str
		default:
			rows[id] = names[id] + ": " + item.Get("output.0.text").Str
		}
	}
	return rows, status
}

// What was denied, and what nobody answered, does not look like what has run; and while it waits the row says
// that, also behind another sidecar.
func TestWhatBecameOfACommand(t *testing.T) {
	const ls, rm, waiting = "📖 y", "💻 rm -rf x", "Error: waits for approval"
	in := turn(text("Let me."), g2Start("read_file", "📖", "y", "c0"), g2Start("terminal", "💻", "rm -rf x", "c1"),
		approvalFrame("r1", "rm -rf x"), keepalive, g2End("terminal", "c1"), g2End("read_file", "c0"), text("\n\nSo it is."))
	for outcome, says := range map[ApprovalOutcome]struct{ output, status string }{
		"": {"completed", rm}, ApprovalDenied: {"Error: denied", "Denied: " + rm}, ApprovalExpired: {"Error: expired", "Not approved: " + rm},
	} {
		for _, o := range allOptions() {
			check := func(what, out, name, output string, became ApprovalOutcome) {
				t.Helper()
				look(t, out).checkLifecycle(t)
				want, members := map[string]string{}, 0
				if !o.NoCards && envelops(o) {
					want = map[string]string{"c0": ls + ": completed", "c1": name + ": " + output}
				}
				if got, _ := rows(out); !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, %s, %q: the rows are %q, want %q", o, what, outcome, got, want)
				}
				if envelops(o) && became != "" {
					members = 1
				}
				equal(t, strings.Count(out, `"hermes_approval":`), members, what+": members")
				equal(t, strings.Count(out, `,"hermes_approval":"`+string(became)+`"`), members, what+": members that say so")
				again, _ := run(out, o, chatParams, inOne, CauseEOF)
				same(t, again, out, "twice and once")
				if envelops(o) && o.NoCards { // a second sidecar makes cards of what the first one says
					again, _ := run(out, Options{Progress: o.Progress}, chatParams, inOne, CauseEOF)
					if got, _ := rows(again); !strings.HasSuffix(got["c1"], ": "+output) {
						t.Errorf("%+v, %s: behind it the row is %q", o, what, got["c1"])
					}
				}
			}
			link, _ := anyAsking(t, in, o, chatParams, byText, outcome)
			reply, _ := anyAsking(t, in, o, chatParams, byReply, outcome)
			check("a link", link[0], rm, says.output, outcome)
			check("the rest", reply[1], rm, says.output, outcome)
			check("the answer that asks", reply[0], "Approval needed: rm -rf x", waiting, "waiting")
			if o.NoStatusLine || !envelops(o) {
				continue
			}
			_, status := rows(reply[0])
			equal(t, status, "hidden", "the status at the end of the answer that asks")
			// With the end of the tool the line goes or, where that has no card, says what became of it.
			last := [2]string{says.status, says.status}
			if !o.NoCards {
				last = [2]string{"hidden", ""}
			}
			for i, out := range []string{link[0], reply[1]} {
				before, _, _ := strings.Cut(out, `"toolCallId": "c0", "status": "completed"`)
				_, status := rows(before)
				equal(t, status, last[i], fmt.Sprintf("%+v, %q: the status after the tool", o, outcome))
			}
		}
	}
	// Which tool waits is not known: none of those that are open looks as if it had run.
	in = turn(text("a"), g2Start("x", "💻", "one", "c0"), g2Start("y", "💻", "two", "c1"), approvalFrame("r1", "rm"), text("b"))
	outs, _ := anyAsking(t, in, Options{}, chatParams, byReply, ApprovalDenied)
	got, _ := rows(outs[0])
	if want := map[string]string{"c0": "Approval needed: one: " + waiting, "c1": "Approval needed: two: " + waiting}; !reflect.DeepEqual(got, want) {
		t.Errorf("the rows are %q", got)
	}
	// Where nobody is asked, the line does not stay either.
	for _, o := range []Options{{}, {NoCards: true}} {
		out := repairWith(turn(text("a"), approvalFrame("r1", "rm"), text("b")), o)
		_, status := rows(out)
		equal(t, status, "hidden", "the last status")
		same(t, repairWith(out, o), out, "twice and once")
	}
}

// The line that says that a command waits stays while that command may wait, and goes when none can.
func TestTheLineOfACommandThatMayWait(t *testing.T) {
	const line = "Approval needed: rm..."
	a, b, asks := g2Start("x", "📖", "one", "c0"), g2Start("y", "📖", "two", "c1"), approvalFrame("r1", "rm")
	for name, c := range map[string]struct{ before, ends string }{ // the last frame ends it
		"one of two tools":             {a + b + asks + g2End("x", "c0"), g2End("y", "c1")},
		"one of two, and a third":      {a + b + asks + g2End("y", "c1") + g2Start("z", "📖", "three", "c2") + g2End("z", "c2"), g2End("x", "c0")},
		"none that is open":            {asks + a + g2End("x", "c0") + text("\n\n"), text("b")},
		"none that is open, reasoning": {asks + a + delta(`"reasoning_content": " "`), delta(`"reasoning_content": "b"`)},
		"none that is open, held":      {asks + text("\n\n"), text("\n`💻 ")},
		"the other one of two":         {g2Start("x", "💻", "rm", "c0") + b + asks + g2End("y", "c1"), g2End("x", "c0")},
	} {
		for _, ask := range []func(ApprovalRequest) Approval{nil, byText} {
			for _, ended := range []bool{false, true} {
				p := chatParams
				if ask != nil {
					p.Approvals = &desk{answer: ask}
				}
				s := New(&Options{}, p)
				out := s.Feed(nil, []byte(role()+text("a")+c.before), epoch)
				want := line
				if ended {
					out, want = s.Feed(out, []byte(c.ends), epoch), "hidden"
				}
				if _, status := rows(string(out)); strings.Replace(status, "https://h/approve/T for ", "", 1) != want {
					t.Errorf("%s, ended %t: the status is %q, want %q", name, ended, status, want)
				}
			}
		}
	}
}

// envelops reports whether events have the members of a chunk.
func envelops(o Options) bool {
	form := o.ProgressForm(&Params{})
	return form == ProgressEnvelope || form == ProgressUnnamed
}

// Where clients are asked for replies and this one cannot be, the text says so, once; a link in the text is
// enough. Histories lose it.
func TestTextSaysThatNobodyCanAnswer(t *testing.T) {
	const nobody = "`🔐 Approval needed` nobody can answer here now, so the command does not run: `rm -rf x`"
	in := turn(text("Let me."), g2Start("terminal", "💻", "rm -rf x", "c1"), approvalFrame("r1", "rm -rf x"), approvalFrame("r1", "rm -rf x"), keepalive, g2End("terminal", "c1"), text("So."))
	for _, o := range allOptions() {
		for offer, want := range map[Approval]string{
			{NoReply: true}: nobody, {NoReply: true, URL: "https://h/T"}: nobody,
			{NoReply: true, URL: "https://h/T", Text: true}: "`🔐 Approval needed` [approve or deny](https://h/T): `rm -rf x`",
		} {
			outs, _ := anyAsking(t, in, o, chatParams, func(ApprovalRequest) Approval { return offer })
			if len(outs) != 1 {
				t.Fatalf("the answer ends: %q", outs)
			}
			v := look(t, outs[0])
			v.checkLifecycle(t)
			same(t, v.content, "Let me.\n\n"+want+"\n\nSo.", "contents")
			healed, req := heal(t, `{"messages": [{"role": "assistant", "content": `+asciiJSON(v.content)+`}, {"role": "user", "content": "u"}]}`)
			same(t, healed, `{"messages": [{"role": "assistant", "content": "Let me.\n\nSo."}, {"role": "user", "content": "u"}]}`, "healed histories")
			equal(t, req.Approvals, 1, "paragraphs")
		}
	}
}

// FuzzApprovals: whatever comes, with requests for approval in it, each answer is whole, any cut gives the
// same, what users read is upstream's text and the paragraphs, and no answer and no event has a secret.
func FuzzApprovals(f *testing.F) {
	f.Add([]byte{2, 0, 0, 4, 0, 12, 3, 8, 0, 6, 0, 0, 3, 15, 128}, byte(0), byte(2))
	f.Add([]byte{2, 4, 0, 4, 1, 12, 3, 12, 3, 6, 0, 12, 3, 0, 16, 12, 3, 0, 6}, byte(3), byte(3))
	f.Add([]byte{2, 0, 4, 0, 5, 12, 3, 0, 4, 0, 13, 0, 5, 15, 128}, byte(0), byte(5))
	f.Add([]byte{10, 0, 20, 12, 3, 0, 20, 0, 13, 12, 3, 0, 9, 15, 130}, byte(20), byte(1))
	f.Add([]byte{2, 4, 0, 4, 1, 12, 3, 12, 3, 6, 0, 12, 3, 0, 16, 12, 3, 0, 6}, byte(13), byte(6))
	for script := range scripts(1000/cutStride, 100) {
		f.Add(script, script[len(script)/2], script[len(script)-1])
	}
	paragraphs := regexp.MustCompile("`🔐 Approval needed` (\\[approve or deny\\]\\(https://h/approve/T|reply `approve K7QF).*|\n")
	f.Fuzz(func(t *testing.T, script []byte, options, way byte) {
		if len(script) == 0 || len(script) > 300 {
			return
		}
		l := &lifeScript{script: script[1:], mode: script[0]}
		l.write()
		in, n := "", 0
		for _, c := range l.chunks {
			if strings.Contains(c, "event: approval.request") {
				c = approvalFrame(fmt.Sprint("r", n%5), strings.Repeat("rm `x` sk-abcdefghij\n", n%9))
				n++
			}
			if way&4 != 0 { // what looks like a paragraph
				c = strings.ReplaceAll(c, "`\\ud83d\\udcbb ls`", strings.Trim(asciiJSON("  `🔐\ufe0f Approval needed` [approve or deny](https://h/x): `ls`"), `"`))
			}
			if c != tick && c != breath {
				in += c
			}
		}
		all := allOptions()
		o := all[int(options%128)%len(all)]
		if options >= 128 {
			o.Imitations, o.Reasoning = ImitationsKeep, ReasoningKeep
		}
		o.MaxFrame = 8000
		answer := []func(ApprovalRequest) Approval{byLink, byText, byReply, byAll}[way%4]
		outs, d := anyAsking(t, in, o, chatParams, answer, []ApprovalOutcome{"", ApprovalDenied, ApprovalExpired}[way/4%3])
		content := ""
		for i, out := range outs {
			v := look(t, out)
			v.checkLifecycle(t)
			content += paragraphs.ReplaceAllString(v.content, "")
			if v.done != 1 || len(v.finishes) != 1 || i < len(outs)-1 && v.finishes[0] != "stop" {
				t.Errorf("%d [DONE], finishes %q", v.done, v.finishes)
			}
			if _, status := rows(out); strings.HasPrefix(status, "Approval needed: ") {
				t.Errorf("at last the status is %q in\n%s\nof %s", status, out, in)
			}
			equal(t, strings.Count(out, "sk-abcdefghij"), 0, "keys that have left")
		}
		if o.Imitations == ImitationsKeep && o.Reasoning == ReasoningKeep {
			same(t, content, strings.ReplaceAll(look(t, repairWith(in, o)).content, "\n", ""), "contents without paragraphs")
		}
		for _, q := range d.asked {
			equal(t, q.Command, strings.Repeat("rm `x` sk-abcdefghij\n", strings.Count(q.Command, "\n")), "the command")
		}
		if last := len(d.done) - 1; last < 0 || d.done[last] != "" || slices.Contains(d.done[:last], "") {
			t.Errorf("done %q", d.done)
		}
	})
}
