package rewrite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

var causeCodes = map[Cause]string{
	CauseEOF:      "upstream_incomplete",
	CauseAborted:  "upstream_aborted",
	CauseTimeout:  "upstream_timeout",
	CauseShutdown: "shutting_down",
}

// Before a finish chunk or [DONE], the cause of the end is the code. After them it changes nothing.
func TestEndsOfAnyCause(t *testing.T) {
	said := role() + text("x")
	ends := map[string]row{
		"no finish chunk":       {in: said},
		"an inline error":       {in: said, o: Options{ErrorFinish: ErrorFinishInline}},
		"a held line":           {in: role() + text("a\n`💻 l"), content: "a\n`💻 l"},
		"[DONE] alone":          {in: said + doneFrame, end: CodeIncomplete},
		"a second finish chunk": {in: said + finishChunk("stop", "") + stop(), out: passes},
		"usage after the finish": {in: said + finishChunk("stop", "") + choicesChunk("", realUsage) + doneFrame,
			out: passes},
		"a finish without a [DONE]": {in: said + finishChunk("stop", realUsage), out: said + stop()},
	}
	for _, reason := range []string{"stop", "length", "tool_calls", "content_filter", "function_call"} {
		ends[reason] = row{in: said + finishChunk(reason, realUsage) + doneFrame, out: passes, end: reason}
	}
	for name, r := range ends {
		for cause, code := range causeCodes {
			out, sum := run(r.in, r.o, chatParams, inOne, cause)
			r := r
			if r.end == "" && r.out == "" {
				r.end = code
			}
			if r.compare(t, out, sum); !strings.HasPrefix(out, strings.TrimSuffix(r.in, doneFrame)) || t.Failed() {
				t.Fatalf("%s, %s: %+v\n%s", name, code, sum, out)
			}
		}
	}
	s := New(&Options{}, chatParams)
	s.Feed(nil, []byte(said+finishChunk("stop", realUsage)), epoch)
	equal(t, [2]bool{s.Finished(), s.Done()}, [2]bool{true, false}, "finished, and done, before [DONE]")
	s = New(&Options{}, chatParams)
	out := s.Feed([]byte("a"), []byte(said+doneFrame), epoch) // leaves when it comes, after what is there
	if !strings.HasPrefix(string(out), "a"+said) || !s.Done() || !s.Finished() {
		t.Errorf("done %v, finished %v: %s", s.Done(), s.Finished(), out)
	}
	look(t, string(out)).checkErrorFinish(t, CodeIncomplete)
}

// An answer is partial if the client has got some of it.
func TestPartial(t *testing.T) {
	keep, drop := Options{Reasoning: ReasoningKeep}, Options{Reasoning: ReasoningDrop}
	another := ofChoice(1, text("x"))
	for in, want := range map[string]struct {
		o       Options
		partial bool
	}{
		"": {}, role(): {}, text(" \n\t\u00a0"): {}, reasoning(" "): {}, markerChunk("💻", "ls"): {},
		text("`💻 ls`"): {}, ofChoice(1, text(" \n")): {},
		text("x"): {partial: true}, reasoning("x"): {partial: true},
		delta(`"reasoning": "x"`): {partial: true}, another: {partial: true},
		text("`💻 ls"): {partial: true}, text("`💻 ls`\nx"): {partial: true},
		text("<think>plan"): {partial: true}, texts("<think>", "plan"): {drop, false},
		// Were it only the beginning of a closing tag that nothing closed.
		text("<think></thi"): {partial: true}, text("<think> <"): {partial: true}, text("<think>"): {},
		text("<think> "): {}, text("<think></think>"): {},
		text("<think></think> \n"): {}, text("<thi"): {partial: true},
		texts("<think></", "thi"): {keep, true}, texts("<think", "></think>"): {keep, true},
		texts("<think>", "a"): {keep, true},
	} {
		v := look(t, repairWith(in, want.o))
		v.checkErrorFinish(t, CodeIncomplete)
		equal(t, *v.finish.Hermes.Partial, want.partial, fmt.Sprintf("%+v: partial after %s", want.o, in))
	}
}

func TestErrorFinishes(t *testing.T) {
	boom := `data: {"error": {"message": "boom", "type": "x", "code": "agent_error"}}` + "\n\n"
	usage := choicesChunk("", realUsage)
	choice := func(i int, delta, finish string) string {
		return choicesChunk(fmt.Sprintf(`{"index": %d, "delta": {%s}, "finish_reason": %s}`, i, delta, finish), "")
	}
	several := choice(0, `"role": "assistant"`, "null") + choice(1, `"role": "assistant"`, "null") + choice(0, `"content": "a"`, "null") +
		choice(1, `"content": "b\n`+"`💻 ls`"+`\n"`, "null") + choice(0, "", `"stop"`) + choice(1, `"content": "c"`, "null")
	said := role() + text("x")
	failed := role() + ofChoice(1, text("x")) + finishChunk("error", `, "error": {"message": "boom"}`)
	const bothEnd = "other other error finish finish done"
	rows := map[string]row{
		"held text, ends of tools": {in: g2Start("terminal", "💻", "ls", "call_1") + text("a\n`💻 ls"),
			story: "running text completed error finish done", end: CodeIncomplete},
		"several choices": {in: several + choice(1, "", `"stop"`) + choicesChunk("", zeroUsage) + doneFrame,
			out: passes},
		"one choice goes on":            {in: several, story: "other other text other finish other error finish done"},
		"a stop of one choice after it": {in: role() + boom + choicesChunk(`{"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {}, "finish_reason": "length"}`, "") + doneFrame},
		"an error after a held line": {in: role() + text("a\n`💻 ls") + boom + finishChunk("error", "") + doneFrame,
			story: "other text error finish done", content: "a\n`💻 ls"},
		"an error after a held marker": {in: role() + text("a\n`💻 ls`") + boom + finishChunk("error", "") + doneFrame,
			story: "other text error finish done", content: "a\n"},
		"a finish with text, too late": {in: role() + boom + finishChunkWith(`"content": "bye"`, "stop", "") + doneFrame,
			story: "other error text finish done", content: "bye"},
		"usage after an error": {in: role() + finishChunk("error", `, "error": {"message": "boom"}`) + usage + text("late") + ": c\n\n",
			content: nothing, story: "other error finish other done"},
		"usage after a false stop": {in: role() + finishChunk("stop", zeroUsage) + usage + text("late") + ": c\n\n",
			content: nothing, story: "other error finish other done"},
		// If one choice has failed, its error has left: the stream has no second one, and no other ends well after it.
		"one fails, one stops":   {in: failed + ofChoice(1, stop()), story: bothEnd},
		"one fails, then all":    {in: failed + ofChoice(1, finishChunk("error", `, "error": {"message": "bang"}`)) + doneFrame, story: bothEnd},
		"one fails, then a cut":  {in: failed, story: bothEnd},
		"one fails, [DONE]":      {in: failed + doneFrame, story: bothEnd},
		"an error frame":         {in: said + boom, end: CodeAgentError},
		"an error frame, [DONE]": {in: said + boom + doneFrame, end: CodeAgentError},
		"an error frame and a finish": {in: said + boom + finishChunk("error", zeroUsage) + doneFrame,
			end: CodeAgentError},
		"an error frame and another": {in: said + boom + finishChunk("error", g3Error) + doneFrame,
			end: CodeAgentError},
		"an error frame, inline": {in: said + boom,
			o: Options{ErrorFinish: ErrorFinishInline}, story: "other text error finish done"},
		"a reason with escapes": {in: role() + text("a") + finishChunk(`st\u006fp`, realUsage) + doneFrame,
			end: "stop"},
		"a false stop with escapes": {in: role() + finishChunk(`st\u006fp`, realUsage) + doneFrame,
			end: CodeEmpty},
		"an error with escapes": {in: role() + text("a") + finishChunk(`\u0065rror`, "") + doneFrame,
			end: CodeAgentError},
		"a stop with escapes, too late": {in: role() + text("a") + boom + finishChunk(`st\u006fp`, realUsage) + doneFrame,
			end: CodeAgentError},
		"an empty message": {in: role() + finishChunk("error", `, "error": {"message": "", "type": "X"}`) + doneFrame,
			end: CodeAgentError},
		"an error beside text": {in: role() + finishChunkWith(`"content": "hi\n`+"`💻 x`"+`"`, "error", `, "error": {"message": "boom"}`) + doneFrame,
			content: "hi\n", story: "other text error finish done"},
		"a false stop beside text": {in: role() + finishChunkWith(`"content": "hi\n`+"`💻 x`"+`"`, "stop", zeroUsage) + doneFrame,
			o: Options{ZeroUsage: ZeroUsageError}, content: "hi\n", story: "other text error finish done"},
	}
	for _, e := range []string{`{}`, `{ }`, "{\ndata: }", `{"a": 1 }`, "{ \ndata: \"message\": null }"} {
		rows["an empty error: "+e] = row{in: role() + text("a") + finishChunk("error", `, "error": `+e) + doneFrame,
			end: CodeAgentError}
	}
	inline := Options{ErrorFinish: ErrorFinishInline}
	for _, more := range []string{g3Error, zeroUsage, "", `, "error": "boom"`} {
		rows["inline: "+more] = row{in: said + finishChunk("error", more) + doneFrame, o: inline, out: passes}
	}
	long := said + finishChunk("length", zeroUsage+`, "error": {"message": "truncated sk-abcdefghijkl", "type": "x"}, "hermes": {"error_code": "output_truncated"}`) + doneFrame
	for _, o := range []Options{{}, inline, {ZeroUsage: ZeroUsageError}} {
		rows[fmt.Sprintf("length %+v", o)] = row{in: said + finishChunk("length", zeroUsage) + doneFrame,
			o: o, out: passes}
		rows[fmt.Sprintf("length with secrets %+v", o)] = row{in: long, o: o,
			out: strings.Replace(long, "sk-abcdefghijkl", redacted, 1)}
	}
	for _, in := range []string{
		role() + texts("a", "\n`💻 l", "s x\n", "b") + stop(), role() + text("`💻 l") + ": c\n\n" + text("s") + delta("") + text("\n") + stop(),
		role() + text("<th") + ": c\n\n" + text("e>") + stop(),
	} {
		rows["CRLF: "+in] = row{in: inCRLF(in), out: passes}
	}
	for _, late := range []string{"data: {\"a\n\n", "data: x\n\n", doneFrame, text("late"), named("x", "{}"), boom} { // is dropped with its line ends
		rows["CRLF after [DONE]: "+late] = row{in: inCRLF(turn(text("a")) + late + ": c\n\n"),
			out: inCRLF(turn(text("a")) + ": c\n\n")}
	}
	check(t, rows)
	for _, end := range []string{"", doneFrame, finishChunk("error", zeroUsage) + doneFrame, finishChunk("error", g3Error) + doneFrame} {
		if out := repair(said + boom + end); !strings.HasPrefix(out, said+boom) || strings.Count(out, `"message"`) != 1 {
			t.Errorf("upstream's error has changed, or is there twice:\n%s", out)
		}
	}
	for _, failed := range []string{finishChunk("error", `, "error": {"message": "boom"}`), finishChunk("stop", zeroUsage)} {
		if out := repair(role() + failed + usage + text("late") + ": c\n\n"); strings.Count(out, usage) != 1 || !strings.Contains(out, ": c\n\n") {
			t.Errorf("the usage or the comment is lost:\n%s", out)
		}
	}
	v := look(t, repair(failed+ofChoice(1, stop())))
	equal(t, strings.Join(v.finishes, " "), "error error", "finish reasons")
	v = look(t, repair(role()+boom+choicesChunk(`{"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {}, "finish_reason": "length"}, {"index": 2, "delta": {}, "finish_reason": "stop"}`, "")+doneFrame))
	equal(t, strings.Join(v.finishes, " "), "error length error", "finish reasons")
	v = look(t, repair(role()+finishChunk("error", `, "error": {"message": "", "type": "X"}`)+doneFrame))
	equal(t, v.errors[0].Message+v.errors[0].Type, Message(CodeAgentError)+"X", "an empty message")
	out, _ := run("", Options{}, Params{Active: true, ID: always("a\x01\x7f\u200b\U000e0001é")}, inOne, CauseEOF)
	look(t, out).checkErrorFinish(t, CodeIncomplete) // its id is JSON
}

// A frame that is cut is dropped; one that lacks only its blank line counts.
func TestCutFrames(t *testing.T) {
	said, finish := role()+text("x"), finishChunk("stop", realUsage)
	tool := `data: {"tool": "terminal", "emoji": "x", "label": "l", "toolCallId": "c", "status": "running"}`
	for _, tail := range []string{
		"d", "data", "data:", "data: ", `data: {"id": "chatcmpl-1", "cho`, text("lost")[:60], ": keepal",
		"event: hermes.tool.progress\n", "event: hermes.tool.progress\ndata: {\"tool\": ",
		"data: [DON", "data: 12", keepalive[:len(keepalive)-2], keepalive[:len(keepalive)-1], ": a\n: b\n",
		tool + "\nevent: hermes.tool.pro", strings.TrimSuffix(text("y"), "\n") + "da",
		finish[:len(finish)-5], strings.TrimSuffix(finish, "\n") + "event: mess",
		strings.TrimSuffix(finish, "\n") + "id", "data: [1]", "data: 17", `data: {"a": nul}`, ": c\nid: 1\n",
	} {
		for _, before := range []string{said, said + finish} {
			same(t, repair(before+tail), repair(before), tail+": outputs")
		}
	}
	for tail, left := range map[string]string{
		": c\n": ": c\n", ": c\n:\n": ": c\n:\n", ": c": "", ": c\n: d": "", ": c\nid: 1\n": "", "data: x": "",
	} {
		same(t, repair(said+stop()+tail), said+stop()+left, tail+" after [DONE]: bytes")
	}
	finish = strings.TrimSuffix(finish, "\n") // in CRLF, and with a line after the data
	same(t, repair(inCRLF(said+finish)), inCRLF(said+finish)+"\n"+doneFrame, "bytes")
	same(t, repair(said+finish+"id: 1\n"), said+finish+"id: 1\n\n"+doneFrame, "bytes")
	for _, f := range []string{text("last"), g2Start("terminal", "💻", "ls", "call_1"), markerChunk("💻", "ls"), finish, finishChunk("stop", zeroUsage), doneFrame} {
		for _, tail := range []string{strings.TrimSuffix(f, "\n\n"), strings.TrimSuffix(f, "\n")} {
			same(t, repair(said+tail), repair(said+f), "outputs")
		}
	}
	long := "data: " + strings.Repeat("x", 2000) // passes unexamined, and gets a blank line
	begins(t, repairWith(said+long, Options{MaxFrame: 1000}), said+long+"\n\ndata: {\"error\"")
	s := New(&Options{}, chatParams)
	if out := s.Feed(nil, []byte(": keepalive\n"), epoch); len(out) > 0 || s.Frames() > 0 {
		t.Errorf("%q leaves before its blank line", out)
	}
	foreign := New(&Options{}, Params{})
	equal(t, string(foreign.Feed(nil, []byte(": ping\n"), epoch)), ": ping\n", "a comment of a foreign stream")
}

// An error finish of upstream's is split wherever the error stands in its chunk, whatever its form.
func TestUpstreamErrorOfAnyFormIsSplit(t *testing.T) {
	const e, choices = `"error": {"message": "boom", "type": "T"}`, `"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]`
	for in, want := range map[string]string{
		`{` + e + `, ` + envelopeOfTests + `, ` + choices + `}`:                     `{` + envelopeOfTests + `, ` + choices + `}`,
		`{` + envelopeOfTests + `, ` + e + `, ` + choices + `}`:                     `{` + envelopeOfTests + `, ` + choices + `}`,
		`{` + envelopeOfTests + `, ` + choices + `, ` + e + `}`:                     `{` + envelopeOfTests + `, ` + choices + `}`,
		`{` + envelopeOfTests + ` , ` + choices + " ,\t" + e + ` }`:                 `{` + envelopeOfTests + ` , ` + choices + ` }`,
		`{"hermes": {"x": 1}, ` + e + `, ` + envelopeOfTests + `, ` + choices + `}`: `{"hermes": {"x": 1}, ` + envelopeOfTests + `, ` + choices + `}`,
	} {
		out := repair(role() + "data: " + in + "\n\n" + doneFrame)
		v := look(t, out)
		equal(t, v.story()+": "+v.errors[0].Message+v.errors[0].Type+v.errors[0].code(), "other error finish done: boomTagent_error", in)
		events := decode(out)
		got, kept := compact(t, events[len(events)-2].data), strings.TrimSuffix(compact(t, want), "}")
		if !strings.HasPrefix(got, kept) || strings.Contains(kept, `"hermes"`) && got != kept+"}" {
			t.Errorf("%s: finish chunk %s, want the members of %s", in, got, want)
		}
	}
	for message, errors := range map[string][]string{
		"boom": {`"boom"`}, "m": {`{"message": "m", "param": "p"}`}, Message(CodeAgentError): {`null`, `{}`, `{"message": ""}`, `{"message": null}`, `{"message": {"a": 1}}`, `[1]`, `7`, `-5`, `true`},
	} {
		for _, e := range errors {
			v := look(t, repair(role()+finishChunk("error", `, "error": `+e)+doneFrame))
			equal(t, v.story()+": "+v.errors[0].Message, "other error finish done: "+message, e)
		}
	}
	// All other bytes of the chunk stay, such as the usage. One may have no error.
	out := repair(role() + finishChunk("error", g3Error) + doneFrame)
	contains(t, out, finishChunk("error", strings.Replace(g3Error, `, "error": {"message": "boom \u00e9", "type": "RuntimeError"}`, "", 1))+doneFrame)
	v := look(t, repair(role()+finishChunk("error", realUsage)+doneFrame))
	v.checkErrorFinish(t, CodeAgentError)
	same(t, v.errors[0].Message+string(v.finish.Usage), Message(CodeAgentError)+strings.TrimPrefix(realUsage, `, "usage": `), "the error and the usage")
}

// Each choice that is open gets its finish, so that no client waits for one.
func TestCutStreamsOfSeveralChoicesFinishAllOfThem(t *testing.T) {
	a, b := text("a"), ofChoice(1, text("b"))
	index := regexp.MustCompile(`"index":(\d+),"delta":\{\},"finish_reason":"error"`)
	for in, want := range map[string]string{
		a + b: "0 1", a + b + finishChunk("stop", ""): "1", ofChoice(3, a): "3",
		a + ofChoice(63, delta("")) + ofChoice(64, delta("")): "0 63", ofChoice(70, delta("")): "0",
	} {
		for _, form := range ErrorFinishForms() {
			o := Options{ErrorFinish: form}
			out := repairWith(in, o)
			var got []string
			for _, m := range index.FindAllStringSubmatch(out, -1) {
				got = append(got, m[1])
			}
			equal(t, strings.Join(got, " "), want, "choices that finish")
			same(t, repairWith(out, o), out, "twice and once")
		}
	}
}

// Of several errors in a chunk, the last that is not empty counts and remains (contract section 3).
func TestErrorThatIsThereTwice(t *testing.T) {
	t.Parallel()
	said := `"error": {"message": "boom sk-abcdefghij", "type": "agent_error"}`
	for _, nothing := range []string{`null`, `""`, `{}`, `[]`, `false`} {
		for _, errors := range []string{
			said + `, "error": ` + nothing, `"error": ` + nothing + `, ` + said, `"error": {"message": "first sk-bcdefghijk"}, ` + said,
			said + `, "\u0065rror": ` + nothing, `"error": ` + nothing + `, "\u0065rr\u006fr"` + strings.TrimPrefix(said, `"error"`),
			`"error": 1, ` + said + `, "error": ` + nothing + `, "x": 1, "error": null`,
		} {
			for _, frame := range []string{
				finishChunk("error", `, `+errors), strings.Replace(finishChunk("error", ""), `{"id"`, `{`+errors+`, "id"`, 1),
				strings.Replace(text("y"), `"choices"`, errors+`, "choices"`, 1), `data: {` + errors + "}\n\n",
				`data: {` + strings.Replace(errors, `, "`, ",\ndata: \"", 1) + "}\n\n", named("error", `{`+errors+`}`),
			} {
				underAll(t, role()+text("x")+frame+doneFrame, func(_ Options, out string, v *view) {
					if !strings.Contains(out, `boom `+redacted) || strings.Contains(out, "sk-") || strings.Contains(out, "first") {
						t.Error("the error is lost, or a secret is not")
					}
					for _, e := range decode(out) {
						if strings.Count(strings.Join(keysInOrder(e.data), " ")+" ", "error ") > 1 {
							t.Errorf("two errors in %s", e.data)
						}
					}
					equal(t, strings.Join(v.finishes, " "), "error", "finishes")
				})
			}
		}
	}
}

// When Hermes 0.13 fails, it sends a chunk that has only choices.
func TestErrorFinishOfUpstreamGetsTheMembersItLacks(t *testing.T) {
	const choices = `"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]`
	const id, object, created, model = `"id":"chatcmpl-1",`, `"object":"chat.completion.chunk",`, `"created":1795164800,`, `"model":"hermes-agent",`
	for in, want := range map[string]string{
		`{` + choices + `}`:                                    `{` + id + object + created + model + choices,
		`{"id": "x", ` + choices + `, "model": null}`:          `{` + object + created + `"id": "x", ` + choices + `, "model": "hermes-agent"`,
		`{"id": "", "created": null, ` + choices + `}`:         `{` + object + model + `"id": "chatcmpl-1", "created": 1795164800, ` + choices,
		`{"object": "chat.completion.chunk", ` + choices + `}`: `{` + id + created + model + `"object": "chat.completion.chunk", ` + choices,
	} {
		out := repair(role() + text("x") + "data: " + in + "\n\n" + doneFrame)
		v := look(t, out)
		v.checkErrorFinish(t, CodeAgentError)
		contains(t, out, "data: "+want)
		same(t, repair(out), out, "twice and once")
		inline := repairWith(role()+text("x")+"data: "+in+"\n\n"+doneFrame, Options{ErrorFinish: ErrorFinishInline})
		contains(t, inline, in)
	}
	crash := `data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]` + zeroUsage + "}\n\n"
	if v := look(t, repair(role()+crash+doneFrame)); v.finish.ID == nil || *v.finish.ID != "chatcmpl-1" || v.finish.Model == nil {
		t.Errorf("a false stop: %+v", v.finish)
	}
	good := role() + text("x") + `data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}` + "\n\n" + doneFrame
	same(t, repair(good), good, "bytes of a good end")
}

// A request may be sent again only if no tool has started.
func TestShutdownAsksForTheRequestOnlyBeforeTools(t *testing.T) {
	for in, asks := range map[string]bool{
		role():                          true,
		role() + text("x"):              true,
		role() + markerChunk("💻", "ls"): false,
		role() + g1("t", "💻", "ls") + text("x"):         false,
		role() + g2Start("t", "💻", "l", "1"):            false,
		role() + text(strings.Repeat("a", 3000)):        false, // it may have started one
		role() + g1("_thinking", "💭", "hm") + text("x"): true,
	} {
		out, _ := run(in, Options{MaxFrame: 1000}, chatParams, inOne, CauseShutdown)
		v := look(t, out)
		v.checkErrorFinish(t, CodeShutdown)
		said := v.errors[0].Message
		if got := strings.Contains(said, "send the request again"); got != asks || !strings.Contains(said, "the agent may be running") {
			t.Errorf("%q after %s", said, in)
		}
	}
}

func inCRLF(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// A frame is complete at the CR of its blank line. If the stream ends there, the sidecar writes the LF that
// belongs to it before a frame of its own, once, and only if the framing is CRLF.
func TestEndBetweenCRAndLF(t *testing.T) {
	held := texts("a", "\n`💻 l")
	for _, in := range []string{
		role() + text("a"), role() + held, role() + held + comment, role() + text("a\n`💻 l`\nb"),
		role() + text("a") + finishChunk("stop", realUsage), role() + text("a") + toolOfUpstream,
	} {
		want := repair(inCRLF(in))
		if strings.Contains(strings.ReplaceAll(want, "\r\n", ""), "\r") {
			t.Errorf("a CR without its LF in %q", want)
		}
		torn, _ := anyCut(t, strings.TrimSuffix(inCRLF(in), "\n"), Options{}, chatParams, CauseEOF)
		same(t, torn, want, "outputs without the last LF")
		// With CR alone there is no LF to come.
		if in = strings.ReplaceAll(in, "\n", "\r"); strings.Contains(in, "b") || strings.Contains(in, "event:") || strings.Contains(in, "stop") {
			continue
		}
		begins(t, repair(in), in+"data: {\"error\"")
	}
	// A frame that ends with a CR whose LF does not come is whole: no LF is put after it.
	torn := strings.ReplaceAll(text("a"), "\n\n", "\r\n\r")
	for _, rest := range []string{stop(), finishChunk("stop", zeroUsage) + doneFrame, finishChunk("error", `, "error": {"message": "m"}`) + doneFrame, text("b")} {
		want := strings.TrimPrefix(repair(role()+text("a")+rest), role()+text("a"))
		out, _ := anyCut(t, role()+torn+rest, Options{}, chatParams, CauseEOF)
		same(t, out, role()+torn+want, "bytes")
	}
	// The events of tools are the same in every framing, in each form.
	in := turn(toolOfUpstream, text("x"))
	for _, form := range ProgressForms() {
		got := repairWith(inCRLF(in), Options{Progress: form})
		same(t, strings.ReplaceAll(got, "\r\n", "\n"), repairWith(in, Options{Progress: form}), string(form)+": bytes")
	}
}

// g3Error is the finish chunk of a modern Hermes that failed.
const g3Error = zeroUsage + `, "error": {"message": "boom \u00e9", "type": "RuntimeError"}, "hermes": {"completed": true, "partial": false, "failed": true, "error": "boom \u00e9", "error_code": "agent_error"}`

// The error finish repeats the message of an error that has been sent, as far as it is kept.
func TestLongErrorIsNotRepeated(t *testing.T) {
	for _, escape := range []string{"x", `\n`, "\u00e9", `\u00e9`, "💻", `\ud83d\udcbb`} {
		for n := range 13 {
			failure := `"error": {"message": "` + strings.Repeat("a", n) + strings.Repeat(escape, 2*maxMessage/len(escape)) + `"}`
			for _, in := range []string{
				"data: {" + failure + "}\n\n",
				`data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], ` + failure + "}\n\n", // and no hermes block
				`data: {"choices": [{"index": 1, "delta": {}}]}` + "\n\n" + // which the finish chunk leaves open
					`data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], ` + failure + "}\n\n",
			} {
				out := repair(role() + text("a") + in)
				if !strings.Contains(out, strings.TrimSuffix(failure[len(`"error": `):], "}")) {
					t.Fatalf("the error itself does not leave:\n%s", out)
				}
				block, _, _ := strings.Cut(out[strings.LastIndex(out, `"hermes":`):], "\n")
				_, said, _ := strings.Cut(block, `"error":`)
				said, _, _ = strings.Cut(said, `,"error_code"`)
				said = jsonspan.Unquote(said)
				if len(block) > maxMessage+200 || len(block) < maxMessage || said == "" || strings.ContainsRune(said, utf8.RuneError) {
					t.Fatalf("%d bytes of %q are repeated", len(block), escape)
				}
			}
		}
	}
}

// False stops by the first two rules of contract section 3: there is no answer, or it ends on a tool.
func TestFalseStops(t *testing.T) {
	pass := Options{EmptyAnswer: EmptyAnswerPass}
	rows := map[string]row{
		"a crash, inline": {in: role() + finishChunk("stop", zeroUsage) + doneFrame,
			o: Options{ErrorFinish: ErrorFinishInline}, story: "other finish done", end: CodeCrashed},
		"an error is not taken back": {in: turn(finishChunk("stop", zeroUsage) + text("late")),
			end: CodeCrashed},
		"nor is one of [DONE]": {in: turn(doneFrame + text("late")), end: CodeIncomplete},
		"after a large frame": {in: role() + text(strings.Repeat("a", 2000)) + finishChunk("stop", zeroUsage) + doneFrame,
			o: Options{MaxFrame: 1000}, out: passes},
		"after a large frame, usage": {in: turn(text(strings.Repeat("a", 2000))), o: Options{MaxFrame: 1000},
			out: passes},
		"a tool, then a large frame": {in: turn(markerChunk("💻", "ls"), text(strings.Repeat("a", 2000))),
			o: Options{MaxFrame: 1000}, end: "stop"},
		"white space after a tool": {in: turn(text("Let me see."), toolOfUpstream, text(" \n\n")),
			end: CodeEmpty},
		"another tool with the emoji": {in: turn(text("Noted."), markerChunk("🔍", "tea")), end: CodeEmpty},
		"a model with the emoji": {in: turn(text("Noted."), markerChunk("🧠", "ask them all")),
			end: CodeEmpty},
		"another tool by its name": {in: turn(text("Noted."), g1("web_search", "🔍", "tea")), end: CodeEmpty},
	}
	const some, two = `, "usage": {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}`, `, "usage": {"prompt_tokens": 0, "completion_tokens": 0}`
	for _, in := range []string{"", role(), role() + text(""), role() + text(" \n "), role() + reasoning(" "), role() + g1("_thinking", "💭", "hm")} {
		for _, z := range ZeroUsageValues() {
			rows[fmt.Sprintf("no usage, %s: %s", z, in)] = row{in: in + finishChunk("stop", zeroUsage) + doneFrame,
				o: Options{ZeroUsage: z}, end: CodeCrashed}
		}
		for _, usage := range []string{realUsage, some, two} {
			rows["no answer"+usage+in] = row{in: in + finishChunk("stop", usage) + doneFrame, end: CodeEmpty}
			rows["no answer, passed"+usage+in] = row{in: in + finishChunk("stop", usage) + doneFrame, o: pass,
				end: "stop"}
		}
	}
	// Other servers send their usage after the finish chunk, or none.
	for _, usage := range []string{"", `, "usage": null`, `, "usage": {}`, `, "usage": 5`} {
		for _, in := range []string{role(), role() + markerChunk("💻", "ls"), role() + text("a") + toolOfUpstream} {
			rows["another server"+usage+in] = row{in: in + finishChunk("stop", usage) + doneFrame,
				end: "stop"}
		}
	}
	said := map[string]bool{ // whether it is no answer after a tool
		text("x"): false, reasoning("hm"): true, delta(`"tool_calls": [{"index": 0}]`): false,
		delta(`"refusal": "no"`): false, delta(`"audio": {"data": "x"}`): false,
		texts("<think>", "hm", "</think>"): true, delta(`"content": [{"type": "text", "text": "x"}]`): false,
		delta(`"content": {"a": 1}`): false,
		// What Hermes sends late: an answer that was not streamed, and one that a plugin has rewritten.
		text("(empty)"): false, text("I reached the maximum iterations (90) but here is what I found."): false,
		text("\n\n[Response transformed after streaming]\nThere are **3** files.\n`💻 is no tool` here."): false,
	}
	for answer, none := range said {
		rows["an answer: "+answer] = row{in: turn(answer), end: "stop"}
		if !none {
			rows["an answer after a tool: "+answer] = row{in: turn(toolOfUpstream, answer), end: "stop"}
		}
	}
	for _, content := range []string{`[]`, `{}`, `null`, `5`} {
		rows["no answer: "+content] = row{in: turn(delta(`"content": ` + content)), end: CodeEmpty}
	}
	for _, reason := range []string{"length", "tool_calls", "content_filter"} {
		rows["zero usage, "+reason] = row{in: role() + finishChunk(reason, zeroUsage) + doneFrame,
			o: Options{ZeroUsage: ZeroUsageError}, out: passes}
	}
	for _, start := range toolStarts("terminal", "💻", "ls") {
		for usage, code := range map[string]string{realUsage: CodeEmpty, zeroUsage: CodeCrashed} {
			for _, before := range []string{"", text("Running."), text("a") + g2Start("memory", "🧠", "m", "call_0") + g2End("memory", "call_0")} {
				if start == markerChunk("💻", "ls") && strings.Contains(before, "event:") {
					continue // there it is an imitation
				}
				for _, then := range []string{"", text("\n\n"), reasoning("hm"), text("\n`📖 a`\n\n")} {
					for _, z := range ZeroUsageValues() {
						in := role() + before + start + then + finishChunk("stop", usage) + doneFrame
						rows[fmt.Sprintf("on a tool, %s: %s", z, in)] = row{in: in, o: Options{ZeroUsage: z, Imitations: ImitationsStrip},
							end: code}
					}
				}
			}
		}
	}
	check(t, rows)
	out := repair(role() + finishChunk("stop", zeroUsage) + doneFrame)
	_, hermes, _ := strings.Cut(out, `,"hermes":`)
	contains(t, out, strings.TrimSuffix(finishChunk("error", zeroUsage), "}\n\n")+`,"hermes":`+hermes)
}

// toolStarts are a tool of each generation, which ends where upstream can say so.
func toolStarts(tool, emoji, label string) []string {
	return []string{
		markerChunk(emoji, label), g1(tool, emoji, label),
		g2Start(tool, emoji, label, "call_1") + g2End(tool, "call_1"), g2Start(tool, emoji, label, "call_1"),
	}
}

// Hermes takes the text before housekeeping for its answer.
func TestStopOnHousekeepingIsAGoodEnd(t *testing.T) {
	rows, noted, ls := map[string]row{}, text("Noted."), g1("terminal", "💻", "ls")
	for _, c := range []struct{ tool, emoji, label string }{
		{"memory", "🧠", `+memory: "likes tea"`}, {"todo", "📋", "3 tasks"}, {"todo_list", "📋", "todo_list"},
		{"skill_manage", "📝", "x"}, {"session_search", "🔍", `recall: "tea"`},
	} {
		for i, start := range toolStarts(c.tool, c.emoji, c.label) {
			if i == 0 && c.tool == "todo_list" {
				continue // newer than markers
			}
			for in, end := range map[string]string{
				noted + start: "stop", noted + start + text(" \n"): "stop",
				noted + g1("memory", "🧠", "m") + start: "stop", ls + noted + start: "stop",
				noted + ls + start: CodeEmpty, noted + start + ls: CodeEmpty, start: CodeEmpty,
				text(" ") + start: CodeEmpty, reasoning("hm") + start: CodeEmpty,
			} {
				rows[c.tool+": "+in] = row{in: turn(in), o: Options{Imitations: ImitationsStrip}, end: end} // a marker after an event is text with auto
			}
			rows[c.tool+" without usage: "+start] = row{in: role() + noted + start + finishChunk("stop", zeroUsage),
				end: CodeCrashed}
		}
	}
	check(t, rows)
}

// Text without usage passes until the model has reported usage, unless the option says otherwise.
func TestZeroUsageWithText(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", zeroUsage) + doneFrame
	another := strings.ReplaceAll(in, "hermes-agent", "another")
	m := memory{}
	feed := func(in string, z ZeroUsage, memory UsageMemory, code string, warns bool) {
		t.Helper()
		p := chatParams
		p.Usage = memory
		out, sum := run(in, Options{ZeroUsage: z}, p, inOne, CauseEOF)
		if code == "" {
			same(t, out, in, "bytes")
		} else {
			look(t, out).checkErrorFinish(t, code)
		}
		if sum.Code != code || sum.ZeroUsagePassed != warns {
			t.Errorf("%+v, want the code %q and a warning: %v", sum, code, warns)
		}
	}
	feed(in, "", nil, "", true)
	feed(in, "", m, "", true)
	equal(t, len(m), 0, "models that report usage")
	feed(turn(text("x")), "", m, "", false)
	equal(t, m["hermes-agent"], true, "usage is reported")
	feed(in, "", m, CodeCrashed, false)
	feed(another, "", m, "", true)
	feed(in, ZeroUsagePass, m, "", true)
	feed(in, ZeroUsageError, nil, CodeCrashed, false)
	_, sum := run(role()+finishChunk("stop", realUsage)+doneFrame, Options{EmptyAnswer: EmptyAnswerPass}, chatParams, inOne, CauseEOF)
	equal(t, sum.ZeroUsagePassed, false, "an answer without text, but with usage, is warned of")
	for _, in := range []string{role() + text("x") + finishChunk("length", realUsage) + doneFrame, role() + text("x") + finishChunk("stop", "") + choicesChunk("", realUsage) + doneFrame} {
		m := memory{}
		feed(in, "", m, "", false)
		equal(t, m["hermes-agent"], true, "usage is reported by any chunk")
	}
}

// The memory is told of answers with text and without usage, unless the option decides, and whether upstream reports its failures.
func TestWhatTheMemoryIsTold(t *testing.T) {
	zero, status := finishChunk("stop", zeroUsage), named("hermes.status", `{}`)
	for _, c := range []struct {
		known memory
		o     Options
		tells map[string]string
	}{
		{memory{"hermes-agent": true}, Options{}, map[string]string{
			text("x") + zero + doneFrame: "missed hermes-agent", finishChunkWith(`"content": "x"`, "stop", zeroUsage) + doneFrame: "missed hermes-agent",
			zero + doneFrame:   "", // rule 1 needs no memory
			text("x") + stop(): "",
		}},
		{memory{}, Options{ZeroUsage: ZeroUsageError}, map[string]string{text("x") + zero: ""}},
		{memory{}, Options{ZeroUsage: ZeroUsagePass}, map[string]string{text("x") + zero: ""}},
		{memory{}, Options{}, map[string]string{
			text("x") + zero: "missed hermes-agent", text("x") + stop(): "", toolOfUpstream + text("x") + stop(): "",
			finishChunk("error", `, "error": {"message": "m"}`): "reports", finishChunk("length", `, "hermes": {"completed": false}`): "reports",
			finishChunk("error", ""): "", text("x") + finishChunk("stop", realUsage+`, "error": null`): "",
			named("hermes.status", `{"kind": "warn", "text": "t"}`) + status: "reports", named("other", `{"a": 1}`): "",
			named("approval.request", `{"command": "rm", "choices": ["once"]}`):  "reports",
			markerChunk("💻", "ls") + markerChunk("💻", "ls") + text("x") + stop(): "old", g1("terminal", "💻", "ls") + text("x") + stop(): "old",
			g1("_internal", "💻", "ls") + text("x") + stop(): "", text("a\n`💻 ls`\nb") + stop(): "",
			status + markerChunk("💻", "ls") + status: "reports old reports",
		}},
	} {
		for in, want := range c.tells {
			m := &observedMemory{memory: memory{}}
			for model := range c.known {
				m.Report(model)
			}
			p := chatParams
			p.Usage = m
			run(role()+in, c.o, p, inOne, CauseEOF)
			equal(t, strings.Join(m.told, " "), want, "what is told of "+in)
		}
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

// statusOf is a status as Hermes sends it.
func statusOf(s string) string {
	return named("hermes.status", `{"kind": "lifecycle", "text": `+asciiJSON(s)+`}`)
}

// A model that stays silent, live: Hermes 0.22.2 says so in one chunk, and stops.
func TestNoReplyOfHermes(t *testing.T) {
	in := readFile(t, "testdata/live-v0.22.2/empty.sse")
	check(t, map[string]row{"live": {in: in, end: CodeEmpty, content: look(t, in).content}})
	begins(t, look(t, in).content, "⚠️ No reply: scripted")
}

// What Hermes says in place of an answer is none, if it has said before that the model
// stays silent (contract section 3, rule 2). A model that writes the same has answered.
func TestNoReplyIsAnEmptyAnswer(t *testing.T) {
	const (
		silent  = "❌ Model returned no content after all retries. No fallback providers configured."
		noReply = "⚠️ No reply: scripted didn't produce a reply this time, even after retries. Send `continue` to try again, or switch models with /model."
	)
	retries := statusOf("⚠️ Empty response from model — retrying (1/3) in 7s") + statusOf("⚠️ Empty response from model — retrying (3/3) in 26s")
	tool := g2Start("terminal", "💻", "ls", "c") + g2End("terminal", "c")
	for name, c := range map[string]struct {
		in    string
		empty bool
	}{
		"as Hermes sends it":            {retries + statusOf(silent) + text(noReply), true},
		"with fallbacks":                {statusOf("❌ Model returned no content after all retries and fallback attempts.") + text(noReply), true},
		"after reasoning":               {reasoning("hm") + statusOf("⚠️ Model produced reasoning but no visible response after all retries. Returning empty.") + text(noReply), true},
		"after a tool":                  {tool + statusOf(silent) + text(noReply), true},
		"in another language":           {statusOf(silent) + text("⚠️ Keine Antwort: scripted hat diesmal nicht geantwortet."), true},
		"without the explanation":       {statusOf(silent) + text("(empty)"), true},
		"with keepalives, white space":  {text("\n\n") + statusOf(silent) + comment + text(noReply) + comment + text("\n"), true},
		"after statuses out of order":   {statusOf(silent) + retries + text(noReply), true},
		"after what is stripped":        {text("`💻 ls`\n") + statusOf(silent) + text(noReply), true},
		"with the status wrapped":       {strings.Replace(statusOf(silent), `{`, `{`+envelopeWritten+`,`, 1) + text(noReply), true},
		"between tags":                  {statusOf(silent) + text("<think>hm</think>"+noReply), true},
		"the model writes it":           {text(noReply), false},
		"after retries that helped":     {retries + text(noReply), false},
		"the status comes too late":     {text(noReply) + statusOf(silent), false},
		"after other text":              {text("Let me see.") + tool + statusOf(silent) + text(noReply), false},
		"after a fragment":              {statusOf(silent) + text("The answer is\n\n"+noReply), false},
		"with more text":                {statusOf(silent) + text(noReply) + text("But here is one."), false},
		"with much more text":           {statusOf(silent) + text(noReply) + text("But") + text(" here") + text(" is") + text(" one."), false},
		"in several deltas":             {statusOf(silent) + text("⚠️ No ") + text("reply: scripted"), false},
		"in quotes":                     {statusOf(silent) + text("Hermes said: "+noReply), false},
		"an answer after that status":   {statusOf(silent) + text("Here you are."), false},
		"with a tool call":              {statusOf(silent) + delta(`"tool_calls": [{"index": 0}]`) + text(noReply), false},
		"in an event of another name":   {named("other", `{"kind": "lifecycle", "text": `+asciiJSON(silent)+`}`) + text(noReply), false},
		"after text between two tags":   {statusOf(silent) + text("Well.\n\n<think>hm</think>"+noReply), false},
		"after text that has been held": {statusOf(silent) + text("`💻 l") + text("s\n"+noReply), false},
		"the text in a line of its own": {statusOf(silent) + text("\n"+noReply), false},
		"a status without text":         {named("hermes.status", `{"kind": "lifecycle", "text": 7}`) + text(noReply), false},
		"a status that says it in kind": {named("hermes.status", `{"kind": `+asciiJSON(silent)+`, "text": "x"}`) + text(noReply), false},
	} {
		for _, usage := range []string{realUsage, zeroUsage, ""} {
			for _, o := range []Options{{}, {Progress: ProgressBare}, {Progress: ProgressUnnamed}, {ErrorFinish: ErrorFinishInline}, {Imitations: ImitationsKeep}, {Reasoning: ReasoningDrop}, {EmptyAnswer: EmptyAnswerPass}} {
				in := role() + c.in + finishChunk("stop", usage) + doneFrame
				once, sum := anyCut(t, in, o, chatParams, CauseEOF)
				want := ""
				if c.empty && usage != "" && o.EmptyAnswer == "" && (o.Imitations == "" || name != "after what is stripped") {
					want = CodeEmpty
				}
				r := row{o: o, end: cmp.Or(want, "stop")}
				if o.Imitations == "" && o.Reasoning == "" { // the text stays
					r.content = cmp.Or(look(t, repairWith(in, Options{EmptyAnswer: EmptyAnswerPass})).content, nothing)
				}
				if r.compare(t, once, sum); t.Failed() {
					t.Fatalf("%s, %+v, usage %q:\n%s", name, o, usage, once)
				}
				if again := repairWith(once, o); o.Reasoning != ReasoningDrop {
					same(t, again, once, name+": twice and once")
				}
			}
		}
	}
}

// Each code has a message of its own, without an address.
func TestMessagesOfOurOwnNameNoAddress(t *testing.T) {
	seen := map[string]string{}
	for _, code := range []string{CodeAborted, CodeIncomplete, CodeTimeout, CodeCrashed, CodeEmpty, CodeAgentError, CodeShutdown} {
		m := Message(code)
		var e struct{ Error wireError }
		if err := json.Unmarshal(AppendError([]byte(" "), code, m), &e); err != nil || e.Error.code() != code || e.Error.Type != "upstream_error" || e.Error.Message != m {
			t.Errorf("%s is written as %+v (%v)", code, e, err)
		}
		if len(m) < len("the agent") || seen[m] != "" || strings.ToLower(m[:1]) != m[:1] || strings.ContainsAny(m, ":/") || strings.Contains(m, "127.") || strings.Contains(m, "localhost") {
			t.Errorf("%s says %q, as does %q", code, m, seen[m])
		}
		seen[m] = code
	}
}
