package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// Of 64 choices is known which have ended; those beyond end with the others (contract
// section 7), and a number that is none is nobody's.
func TestWhichChoicesHaveEnded(t *testing.T) {
	choice := func(index int, content, finish string) string {
		return chunkFrameOf(fmt.Sprintf(`{"index": %d, "delta": {%s}, "finish_reason": %s}`, index, content, finish))
	}
	says := func(index int) string { return choice(index, `"content": "x"`, "null") }
	ends := func(index int) string { return choice(index, "", `"stop"`) }
	for name, c := range map[string]struct{ in, code string }{
		"the 64th goes on":           {says(0) + says(63) + ends(0), CodeIncomplete},
		"the 64th ends":              {says(0) + says(63) + ends(63) + ends(0), ""},
		"the 65th goes on":           {says(0) + says(64) + ends(0), ""},
		"the 65th ends, not the 1st": {says(0) + ends(64), CodeIncomplete},
		"below zero":                 {says(0) + says(-1) + ends(0), ""},
		"below zero ends":            {says(0) + ends(-1), CodeIncomplete},
	} {
		if _, sum := run(role()+c.in+doneFrame, Options{}, chatParams, inOne, CauseEOF); sum.Code != c.code {
			t.Errorf("%s: code %q, want %q", name, sum.Code, c.code)
		}
	}
}

// chunkFrameOf returns a chunk with the choice.
func chunkFrameOf(choice string) string {
	return `data: {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795164800, "model": "hermes-agent", "choices": [` + choice + "]}\n\n"
}

// A named event is one that another sidecar has wrapped only when it says nothing but
// what that adds: else it is a chunk, or an event of its own.
func TestWhatIsNoWrappedEvent(t *testing.T) {
	chunk := func(choice string) string {
		return strings.TrimSuffix(strings.TrimPrefix(chunkFrameOf(choice), "data: "), "\n\n")
	}
	for name, c := range map[string]struct{ data, code string }{
		"a finish": {chunk(`{"index": 0, "delta": {}, "finish_reason": "stop"}`), ""},
		"text":     {chunk(`{"index": 0, "delta": {"content": "y"}, "finish_reason": "stop"}`), ""},
		"none":     {chunk(`{"index": 0, "delta": {}, "finish_reason": null}`), CodeIncomplete},
	} {
		if _, sum := run(role()+text("x")+named("message", c.data)+doneFrame, Options{}, chatParams, inOne, CauseEOF); sum.Code != c.code {
			t.Errorf("%s: code %q, want %q", name, sum.Code, c.code)
		}
	}
	const own = `"choices": [{"index": 0, "delta": {}, "finish_reason": null}]}`
	want := named("hermes.status", `{`+envelopeWritten+`,"hermes_object": "x", "hermes_`+own[1:])
	if out := repair(role() + named("hermes.status", `{"object": "x", `+own) + text("x") + stop()); !strings.Contains(out, want) {
		t.Errorf("no envelope in\n%s", out)
	}
	// Text in such an event is repaired as in any.
	marker := named("message", chunk(`{"index": 0, "delta": {"content": "\n`+"`💻 ls`"+`\n"}, "finish_reason": null}`))
	if out := repair(role() + text("x") + marker + text("y") + stop()); strings.Contains(out, "💻 ls`") {
		t.Errorf("a marker is left in\n%s", out)
	}
}

// A frame that ends with a CR whose LF does not come is whole: no LF is put after it.
func TestAFrameThatEndsWithACRAlone(t *testing.T) {
	torn := strings.ReplaceAll(text("a"), "\n\n", "\r\n\r")
	for _, rest := range []string{stop(), finishChunk("stop", zeroUsage) + doneFrame, finishChunk("error", `, "error": {"message": "m"}`) + doneFrame, text("b")} {
		want, found := strings.CutPrefix(repair(role()+text("a")+rest), role()+text("a"))
		if !found {
			t.Fatalf("%q is no longer as it was", want)
		}
		for _, cut := range []cutter{inOne, oneByte} {
			out, _ := run(role()+torn+rest, Options{}, chatParams, cut, CauseEOF)
			same(t, out, role()+torn+want, "bytes")
		}
	}
}

// The events of tools are the same in every framing, in each form.
func TestToolEventsInCRLF(t *testing.T) {
	in := role() + g2Start("t", "💻", "l", "1") + g2End("t", "1")
	for _, form := range ProgressForms() {
		want := repairWith(in+text("x")+stop(), Options{Progress: form})
		got := repairWith(strings.ReplaceAll(in+text("x")+stop(), "\n", "\r\n"), Options{Progress: form})
		same(t, strings.ReplaceAll(got, "\r\n", "\n"), want, string(form)+": bytes")
	}
}

// What is half a tag before something that is no text is none, and says nothing of the
// text after it.
func TestHalfATagBeforeATool(t *testing.T) {
	tool := g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1")
	for _, c := range []struct{ before, behind, content, reasoning string }{
		{"<think>x`</", "</think>`answer", "`answer", "x`</"},
		{"<think>x`</think", "y</think>answer", "answer", "x`</thinky"},
		{"<think>x</thi", "nk></think>answer", "answer", "x</think>"},
		{"<think>```\nx\n``</", "`</think>answer", "", "```\nx\n``</`</think>answer"},
		{"<thi", "nk>a</think>b", "<think>a</think>b", ""},
		{"<", "think>a", "<think>a", ""},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			out, _ := run(role()+text(c.before)+tool+text(c.behind)+stop(), Options{}, chatParams, cut, CauseEOF)
			v := look(t, out)
			same(t, v.content, c.content, c.before+": contents")
			same(t, v.reasoning, c.reasoning, c.before+": reasonings")
		}
	}
}

// Errors whose name is escaped, or that stand twice, are looked at as well, in each
// kind of stream.
func TestTwinsOfErrorsInOtherStreams(t *testing.T) {
	for name, p := range map[string]Params{"responses": {Responses: true}, "run": {RunID: "run_1"}, "session": sessionParams} {
		for _, members := range []string{`"error": "%s", "error": "x"`, `"error": "x", "error": "%s"`, `"\u0065rror": "%s"`, `"err\u006fr": "%s", "error": null`} {
			frame := func(s string) string {
				data := `{"type": "response.created", "run_id": "run_1", "event": "x", ` + strings.ReplaceAll(members, "%s", s) + "}"
				if name == "session" {
					return named("error", data)
				}
				return "data: " + data + "\n\n"
			}
			out, _ := run(frame("sk-abcdef"), Options{}, p, inOne, CauseEOF)
			if want := frame(redacted); !strings.HasPrefix(out, want) {
				t.Errorf("%s: %s becomes\n%s", name, frame("sk-abcdef"), out)
			}
		}
	}
}
