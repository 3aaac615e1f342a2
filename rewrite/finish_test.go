package rewrite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

var causeCodes = map[Cause]string{
	CauseEOF:      "upstream_incomplete",
	CauseAborted:  "upstream_aborted",
	CauseTimeout:  "upstream_timeout",
	CauseShutdown: "shutting_down",
}

func TestFinishAndDonePassByteForByte(t *testing.T) {
	for _, reason := range []string{"stop", "length", "tool_calls", "content_filter", "function_call"} {
		in := role() + text("x") + finishChunk(reason, realUsage) + doneFrame
		for cause := range causeCodes {
			out, sum := run(in, Options{}, chatParams, inOne, cause)
			same(t, out, in, reason+": bytes")
			if sum.Code != "" || sum.FinishReason != reason {
				t.Errorf("%s: %+v", reason, sum)
			}
		}
	}
}

func TestDoneIsAddedBehindAFinishChunk(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", realUsage)
	for cause := range causeCodes {
		out, sum := run(in, Options{}, chatParams, inOne, cause)
		same(t, out, in+doneFrame, "bytes")
		if sum.Code != "" {
			t.Errorf("%+v", sum)
		}
	}
}

func TestUsageChunkBehindTheFinishChunkPasses(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", "") + `data: {` + envelopeOfTests + `, "choices": []` + realUsage + "}\n\n" + doneFrame
	same(t, repair(in), in, "bytes")
}

func TestEndWithoutAFinishChunkIsAnErrorFinish(t *testing.T) {
	for cause, code := range causeCodes {
		out, sum := run(role()+text("x"), Options{}, chatParams, inOne, cause)
		look(t, out).checkErrorFinish(t, code)
		if !strings.HasPrefix(out, role()+text("x")) || sum.Code != code || sum.FinishReason != "error" {
			t.Errorf("%+v\n%s", sum, out)
		}
	}
}

func TestDoneWithoutAFinishChunkIsAnErrorFinish(t *testing.T) {
	for cause := range causeCodes {
		out, _ := run(role()+text("x")+doneFrame, Options{}, chatParams, inOne, cause)
		look(t, out).checkErrorFinish(t, "upstream_incomplete")
	}
}

func TestDoneLeavesWhenItComes(t *testing.T) {
	s := New(&Options{}, chatParams)
	out := s.Feed(nil, []byte(role()+text("x")+doneFrame), epoch)
	look(t, string(out)).checkErrorFinish(t, "upstream_incomplete")
	if !s.Done() || !s.Finished() {
		t.Errorf("done %v, finished %v", s.Done(), s.Finished())
	}
}

func TestErrorFinishIsWrittenAsInTheContract(t *testing.T) {
	out := repair(role() + text("x"))
	message, err := json.Marshal(Message(CodeIncomplete))
	if err != nil {
		t.Fatal(err)
	}
	want := role() + text("x") +
		`data: {"error":{"message":` + string(message) + `,"type":"upstream_error","param":null,"code":"upstream_incomplete"}}` + "\n\n" +
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795164800,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"error"}],` +
		`"hermes":{"completed":false,"partial":true,"failed":true,"error":` + string(message) + `,"error_code":"agent_error"}}` + "\n\n" + doneFrame
	same(t, strings.ReplaceAll(out, `\u0027`, "'"), strings.ReplaceAll(want, `\u0027`, "'"), "bytes")
}

func TestErrorFinishCarriesKnownUsage(t *testing.T) {
	in := role() + text("x") + `data: {` + envelopeOfTests + `, "choices": []` + realUsage + "}\n\n"
	if out := repair(in); !strings.Contains(out, `"finish_reason":"error"}],"usage":{"prompt_tokens": 1234, "completion_tokens": 56, "total_tokens": 1290},"hermes":`) {
		t.Errorf("no usage in\n%s", out)
	}
	if out := repair(role() + text("x")); strings.Contains(out, `"usage"`) {
		t.Errorf("usage in\n%s", out)
	}
}

func TestErrorFinishBeforeAnyChunkUsesTheParams(t *testing.T) {
	v := look(t, repair(""))
	v.checkErrorFinish(t, "upstream_incomplete")
	if *v.finish.ID != "chatcmpl-none" || *v.finish.Created != 1700000000 || *v.finish.Object != "chat.completion.chunk" || *v.finish.Model == "" {
		t.Errorf("%+v", v.finish)
	}
}

func TestPartialSaysThatTextOrReasoningWasSent(t *testing.T) {
	for in, want := range map[string]bool{
		"":                                 false,
		role():                             false,
		role() + text(" \n\t\u00a0"):       false,
		role() + text("x"):                 true,
		role() + reasoning("x"):            true,
		role() + delta(`"reasoning": "x"`): true,
		role() + reasoning(" "):            false,
		role() + markerChunk("💻", "ls"):    false,
		role() + text("`💻 ls`"):            false,
		role() + text("`💻 ls"):             true,
		role() + text("`💻 ls`\nx"):         true,
	} {
		if h := look(t, repair(in)).finish.Hermes; h == nil || h.Partial == nil || *h.Partial != want {
			t.Errorf("%q: partial = %v, want %v", in, h.Partial, want)
		}
	}
}

func TestErrorFinishOrderIsHeldTextCompletedErrorFinishDone(t *testing.T) {
	in := g2Start("terminal", "💻", "ls", "call_1") + text("a\n`💻 ls")
	if got, want := look(t, repair(in)).story(), "running text completed error finish done"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestErrorFinishInlineTakesOneChunk(t *testing.T) {
	o := Options{ErrorFinish: ErrorFinishInline}
	for cause, code := range causeCodes {
		out, _ := run(role()+text("x"), o, chatParams, inOne, cause)
		v := look(t, out)
		if len(v.errors) != 0 || v.story() != "other text finish done" || v.finishes[0] != "error" {
			t.Errorf("%s", v.story())
		}
		var e wireError
		if err := json.Unmarshal(v.finish.Error, &e); err != nil || e.code() != code || e.Message == "" || e.Type != "upstream_error" {
			t.Errorf("error = %s (%v)", v.finish.Error, err)
		}
		if h := v.finish.Hermes; h == nil || !*h.Failed || *h.ErrorCode != "agent_error" || *h.Error != e.Message {
			t.Errorf("hermes block of %s", out)
		}
	}
}

// False stop: the first rule.

// False stop: the second rule.

// False stop: the third rule.

func TestSecondFinishChunkPasses(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", "") + finishChunk("stop", realUsage) + doneFrame
	same(t, repair(in), in, "bytes")
}

func TestStreamsOfSeveralChoicesPassByteForByte(t *testing.T) {
	choice := func(i int, delta, finish string) string {
		return fmt.Sprintf(`data: {`+envelopeOfTests+`, "choices": [{"index": %d, "delta": %s, "finish_reason": %s}]}`+"\n\n", i, delta, finish)
	}
	in := choice(0, `{"role": "assistant", "content": ""}`, "null") + choice(1, `{"role": "assistant", "content": ""}`, "null") +
		choice(0, `{"content": "a"}`, "null") + choice(1, `{"content": "b\n`+"`💻 ls`"+`\n"}`, "null") +
		choice(0, `{}`, `"stop"`) + choice(1, `{"content": "c"}`, "null") + choice(1, `{}`, `"stop"`)
	zero := `data: {` + envelopeOfTests + `, "choices": []` + zeroUsage + "}\n\n"
	same(t, repair(in+zero+doneFrame), in+zero+doneFrame, "bytes")
	// The first choice's finish does not finish the second.
	cut := in[:strings.LastIndex(in, "data: ")]
	v := look(t, repair(cut))
	if len(v.errors) != 1 || v.errors[0].code() != "upstream_incomplete" {
		t.Errorf("errors %+v", v.errors)
	}
}

// Frames that are cut.

func TestFrameCutInTheMiddleIsDropped(t *testing.T) {
	for _, tail := range []string{"d", "data", "data:", "data: ", `data: {"id": "chatcmpl-1", "cho`, text("lost")[:60], ": keepal", "event: hermes.tool.progress\n", "event: hermes.tool.progress\ndata: {\"tool\": ", "data: [DON", "data: 12"} {
		out := repair(role() + text("x") + tail)
		same(t, out, repair(role()+text("x")), tail+": outputs")
	}
}

func TestLastFrameThatLacksItsBlankLineCounts(t *testing.T) {
	for _, f := range []string{text("last"), g2Start("terminal", "💻", "ls", "call_1"), markerChunk("💻", "ls"), finishChunk("stop", realUsage), finishChunk("stop", zeroUsage), doneFrame} {
		want := repair(role() + text("x") + f)
		for _, tail := range []string{strings.TrimSuffix(f, "\n\n"), strings.TrimSuffix(f, "\n")} {
			same(t, repair(role()+text("x")+tail), want, "outputs")
		}
	}
}

func TestCutInsideAnUnexaminedFrameIsFollowedByABlankLine(t *testing.T) {
	long := "data: " + strings.Repeat("x", 2000)
	out := repairWith(role()+text("x")+long, Options{MaxFrame: 1000})
	if !strings.HasPrefix(out, role()+text("x")+long+"\n\ndata: {\"error\"") {
		t.Errorf("%s", out)
	}
	events := decode(out)
	if n := len(events); n != 6 || !strings.HasPrefix(events[3].data, `{"error"`) {
		t.Errorf("%d events: %q", n, events)
	}
}

func TestNothingLeavesBehindTheEnd(t *testing.T) {
	s := New(&Options{}, chatParams)
	s.Finish(nil, CauseEOF)
	if out := s.Feed(nil, []byte(role()), epoch); len(out) > 0 {
		t.Errorf("Feed: %q", out)
	}
	if out := s.Finish(nil, CauseAborted); len(out) > 0 {
		t.Errorf("Finish: %q", out)
	}
}

func TestFeedAndFinishAppend(t *testing.T) {
	s := New(&Options{}, chatParams)
	out := s.Feed([]byte("a"), []byte(role()), epoch)
	out = s.Keepalive(out)
	out = s.Finish(out, CauseEOF)
	if !strings.HasPrefix(string(out), "a"+role()+"data: {") {
		t.Errorf("%q", out)
	}
}

func TestSummaryOfAGoodEnd(t *testing.T) {
	sum := repairSummary(role()+text("x")+keepalive+stop(), Options{})
	want := Summary{ID: "chatcmpl-1", Model: "hermes-agent", FinishReason: "stop", Frames: 4, Chunks: 3, InputTokens: 1234, OutputTokens: 56}
	if sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
}

func TestCodesAreThoseOfTheContract(t *testing.T) {
	for cause, code := range causeCodes {
		if cause.Code() != code {
			t.Errorf("%d: %s, want %s", cause, cause.Code(), code)
		}
	}
	got := string(AppendError([]byte("x"), CodeTimeout, Message(CodeTimeout)))
	var e struct{ Error wireError }
	if err := json.Unmarshal([]byte(got[1:]), &e); err != nil || e.Error.code() != "upstream_timeout" || e.Error.Type != "upstream_error" || e.Error.Message != Message(CodeTimeout) {
		t.Errorf("%s (%v)", got, err)
	}
}

func TestParamsIDIsQuotedAsJSON(t *testing.T) {
	out, _ := run("", Options{}, Params{Active: true, ID: always("a\x01\x7f\u200b\U000e0001é")}, inOne, CauseEOF)
	look(t, out).checkErrorFinish(t, "upstream_incomplete")
}

// Each choice that is open gets its finish, so that nobody waits for one; and a second
// sidecar finds the stream complete.
func TestCutStreamsOfSeveralChoicesFinishAllOfThem(t *testing.T) {
	of := func(i int, delta, finish string) string {
		return fmt.Sprintf(`data: {%s, "choices": [{"index": %d, "delta": {%s}, "finish_reason": %s}]}`, envelopeOfTests, i, delta, finish) + "\n\n"
	}
	for in, want := range map[string]string{
		of(0, `"content": "a"`, "null") + of(1, `"content": "b"`, "null"):                       "0 1",
		of(0, `"content": "a"`, "null") + of(1, `"content": "b"`, "null") + of(0, "", `"stop"`): "1",
		of(3, `"content": "a"`, "null"):                                                         "3",
		of(0, `"content": "a"`, "null") + of(63, "", "null") + of(64, "", "null"):               "0 63",
		of(70, "", "null"): "0",
	} {
		for _, form := range ErrorFinishForms() {
			o := Options{ErrorFinish: form}
			out := repairWith(in, o)
			var got []string
			for _, e := range decode(out) {
				var c struct {
					Choices []struct {
						Index        int
						FinishReason string `json:"finish_reason"`
					}
				}
				_ = json.Unmarshal([]byte(e.data), &c)
				for _, choice := range c.Choices {
					if choice.FinishReason == "error" {
						got = append(got, fmt.Sprint(choice.Index))
					}
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("choices %v finish, want %s, of %s", got, want, in)
			}
			same(t, repairWith(out, o), out, "twice and once")
		}
	}
}

func TestNoChoiceSaysStopBehindAnError(t *testing.T) {
	in := role() + `data: {"error": {"message": "m"}}` + "\n\n" +
		`data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {}, "finish_reason": "length"}, {"index": 2, "delta": {}, "finish_reason": "stop"}]}` + "\n\n" + doneFrame
	if v := look(t, repair(in)); strings.Join(v.finishes, " ") != "error length error" {
		t.Errorf("finish reasons %q", v.finishes)
	}
}

// The writer of Hermes 0.13 sends a chunk of nothing but choices when it fails.
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
		if !strings.Contains(out, "data: "+want) {
			t.Errorf("%s becomes\n%s\nwant %s", in, out, want)
		}
		same(t, repair(out), out, "twice and once")
		inline := repairWith(role()+text("x")+"data: "+in+"\n\n"+doneFrame, Options{ErrorFinish: ErrorFinishInline})
		if !strings.Contains(inline, in) {
			t.Errorf("inline: %s becomes\n%s", in, inline)
		}
	}
	crash := `data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]` + zeroUsage + "}\n\n"
	if v := look(t, repair(role()+crash+doneFrame)); v.finish.ID == nil || *v.finish.ID != "chatcmpl-1" || v.finish.Model == nil {
		t.Errorf("a false stop: %+v", v.finish)
	}
	good := role() + text("x") + `data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}` + "\n\n" + doneFrame
	same(t, repair(good), good, "bytes of a good end")
}

func TestErrorFrameLeavesBehindHeldText(t *testing.T) {
	for held, want := range map[string]string{"a\n`💻 ls": "a\n`💻 ls", "a\n`💻 ls`": "a\n"} {
		v := look(t, repair(role()+text(held)+`data: {"error": {"message": "m"}}`+"\n\n"+finishChunk("error", "")+doneFrame))
		if v.story() != "other text error finish done" || v.content != want {
			t.Errorf("%s, content %q", v.story(), v.content)
		}
	}
}

// To send a request again is safe only where no tool has started.
func TestShutdownAsksForTheRequestOnlyBeforeTools(t *testing.T) {
	for in, asks := range map[string]bool{
		role():                          true,
		role() + text("x"):              true,
		role() + markerChunk("💻", "ls"): false,
		role() + g1("t", "💻", "ls") + text("x"):         false,
		role() + g2Start("t", "💻", "l", "1"):            false,
		role() + text(strings.Repeat("a", 3000)):        false, // nobody knows what was in it
		role() + g1("_thinking", "💭", "hm") + text("x"): true,
	} {
		out, _ := run(in, Options{MaxFrame: 1000}, chatParams, inOne, CauseShutdown)
		v := look(t, out)
		v.checkErrorFinish(t, CodeShutdown)
		said := v.errors[0].Message
		if got := strings.Contains(said, "send the request again"); got != asks || !strings.Contains(said, "the agent may be running") {
			t.Errorf("%q behind %s", said, in)
		}
	}
}
