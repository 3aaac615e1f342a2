package rewrite

import (
	"strings"
	"testing"
)

func inCRLF(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// A frame is complete at the CR of its blank line. Where the stream ends there, the LF
// that belongs to it is the sidecar's to write before a frame of its own, once, and
// only where the framing is CRLF.
func TestEndBetweenCRAndLF(t *testing.T) {
	ends := repair(role())[len(role()):]
	held := texts("a", "\n`💻 l")
	for _, c := range []struct{ name, in, want string }{
		{"an untouched frame", inCRLF(role() + text("a")), inCRLF(role() + text("a"))},
		{"a held frame", inCRLF(role() + held), inCRLF(role() + held)},
		{"an edited frame", inCRLF(role() + text("a\n`💻 l`\nb")), inCRLF(role() + text("a\nb"))},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			torn, _ := run(strings.TrimSuffix(c.in, "\n"), Options{}, chatParams, cut, CauseEOF)
			ended, _ := run(c.in, Options{}, chatParams, cut, CauseEOF)
			same(t, torn, ended, c.name+": without the LF and with it")
			if !strings.HasPrefix(ended, c.want) {
				t.Errorf("%s: want %q in\n%q", c.name, c.want, ended)
			}
		}
	}
	// With CR alone there is no LF to come.
	for _, in := range []string{role() + text("a"), role() + held} {
		in = strings.ReplaceAll(in, "\n", "\r")
		out := repair(in)
		if !strings.HasPrefix(out, in+"data: {\"error\"") {
			t.Errorf("behind CRs: %q", out[len(in):])
		}
	}
	if !strings.HasPrefix(ends, `data: {"error"`) {
		t.Errorf("%q", ends)
	}
}

// A last frame that lacks only its blank line counts; one that was cut does not
// (contract section 3).
func TestWhatStandsBehindTheLastBlankLine(t *testing.T) {
	finish := finishChunk("stop", realUsage)
	good := role() + text("a")
	for _, c := range []struct{ name, in, want string }{
		{"a finish chunk without a line end", good + strings.TrimSuffix(finish, "\n\n"), good + finish + doneFrame},
		{"a finish chunk without its blank line", good + strings.TrimSuffix(finish, "\n"), good + finish + doneFrame},
		{"[DONE] without a line end", good + finish + "data: [DONE]", good + finish + doneFrame},
		{"[DONE] without its blank line", good + finish + "data: [DONE]\n", good + finish + doneFrame},
		{"[DONE] between spaces", good + finish + "data:  [DONE] ", good + finish + doneFrame},
		{"a part of [DONE]", good + finish + "data: [DONE", good + finish + doneFrame},
		{"another array", good + finish + "data: [1]", good + finish + doneFrame},
		{"a number", good + finish + "data: 17", good + finish + doneFrame},
		{"an object that is not well formed", good + finish + `data: {"a": nul}`, good + finish + doneFrame},
		{"a comment behind the finish", good + finish + ": c\n", good + finish + doneFrame},
		{"a comment behind [DONE]", good + stop() + ": c\n", good + stop() + ": c\n"},
		{"comments behind [DONE]", good + stop() + ": c\n:\n", good + stop() + ": c\n:\n"},
		{"a comment that is cut behind [DONE]", good + stop() + ": c", good + stop()},
		{"comments, the last one cut", good + stop() + ": c\n: d", good + stop()},
		{"a field behind [DONE]", good + stop() + ": c\nid: 1\n", good + stop()},
		{"a frame that is cut behind [DONE]", good + stop() + "data: x", good + stop()},
		{"CRLF, no blank line", inCRLF(good) + strings.TrimSuffix(inCRLF(finish), "\r\n"), inCRLF(good) + strings.TrimSuffix(inCRLF(finish), "\r\n") + "\n" + doneFrame},
		{"an id line behind the data", good + strings.TrimSuffix(finish, "\n") + "id: 1\n", good + strings.TrimSuffix(finish, "\n") + "id: 1\n\n" + doneFrame},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			out, sum := run(c.in, Options{}, chatParams, cut, CauseAborted)
			same(t, out, c.want, c.name)
			if sum.Code != "" || sum.FinishReason != "stop" {
				t.Errorf("%s: %+v", c.name, sum)
			}
		}
	}
	// Here what is cut decides: there is no finish chunk.
	for _, tail := range []string{finish[:len(finish)-5], strings.TrimSuffix(finish, "\n") + "event: mess", strings.TrimSuffix(finish, "\n") + "id"} {
		look(t, repair(good+tail)).checkErrorFinish(t, CodeIncomplete)
	}
}

// Nothing leaves after the end, whoever asks.
func TestNothingLeavesBehindFinish(t *testing.T) {
	for _, in := range []string{role() + text("a"), role() + text("a") + stop(), ""} {
		for _, p := range []Params{chatParams, {}} {
			s := New(&Options{}, p)
			out := s.Finish(s.Feed(nil, []byte(in), epoch), CauseEOF)
			n := len(out)
			out = s.Finish(out, CauseAborted)
			out = s.Feed(out, []byte(text("b")), epoch)
			out = s.Keepalive(out)
			out = s.Finish(out, CauseEOF)
			if len(out) != n {
				t.Errorf("behind the end of %q: %q", in, out[n:])
			}
		}
	}
}

func TestFrameLimitHasADefaultAndAnEnd(t *testing.T) {
	for size, want := range map[int]int{0: DefaultMaxFrame, -1: DefaultMaxFrame, 1: 1, 1 << 30: 1 << 30, 1<<30 + 1: 1 << 30} {
		if got := (&Options{MaxFrame: size}).FrameLimit(); got != want {
			t.Errorf("max_frame %d is %d, want %d", size, got, want)
		}
	}
}

// A frame has all its lines, however many.
func TestFrameOfHundredsOfLines(t *testing.T) {
	for _, n := range []int{2, 3, 4, 254, 255, 256, 257, 258, 259} {
		chunk := strings.TrimSuffix(finishChunk("stop", zeroUsage), "\n\n")
		i := strings.Index(chunk, `"choices"`)
		in := role() + chunk[:i] + strings.Repeat("\ndata: ", n-1) + chunk[i:] + "\n\n" + doneFrame
		look(t, repair(in)).checkErrorFinish(t, CodeCrashed)
	}
}

// An error that has been sent stands before the text of the finish chunk as it is: that
// stays where it was.
func TestTextOfAFinishChunkBehindAnErrorFrame(t *testing.T) {
	failed := role() + "data: {\"error\": {\"message\": \"boom\"}}\n\n"
	last := strings.Replace(text("bye"), `"finish_reason": null`, `"finish_reason": "stop"`, 1)
	out := repair(failed + last + doneFrame)
	v := look(t, out)
	if v.content != "bye" || len(v.errors) != 1 || v.finishes[0] != "error" || strings.Count(out, `"delta"`) != 2 {
		t.Errorf("content %q, errors %v, finish %v:\n%s", v.content, v.errors, v.finishes, out)
	}
}

// An error of upstream's is said once, in either form of the finish.
func TestErrorBeforeACutIsSaidOnce(t *testing.T) {
	for _, form := range ErrorFinishForms() {
		out := repairWith(role()+text("a")+"data: {\"error\": {\"message\": \"boom\"}}\n\n", Options{ErrorFinish: form})
		if strings.Count(out, `"message"`) != 1 || strings.Count(out, `"error": {`)+strings.Count(out, `"error":{`) != 1 || strings.Count(out, `"finish_reason":"error"`) != 1 {
			t.Errorf("%s:\n%s", form, out)
		}
	}
}

// Behind an error finish the usage still comes: a chunk without choices takes nothing
// back.
func TestUsageBehindAnErrorFinish(t *testing.T) {
	alone := `data: {` + envelopeOfTests + `, "choices": []` + realUsage + "}\n\n"
	for name, in := range map[string]string{
		"upstream's":   finishChunk("error", `, "error": {"message": "boom"}`),
		"a false stop": finishChunk("stop", zeroUsage),
	} {
		in = role() + in
		if out := repair(in + alone + text("late") + ": c\n\n"); strings.Count(out, alone) != 1 || strings.Contains(out, "late") || !strings.Contains(out, ": c\n\n") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}

// A line that was held back leaves byte for byte in CRLF as well, when it turns out to
// be text.
func TestHeldLinesInCRLF(t *testing.T) {
	for _, in := range []string{
		role() + texts("a", "\n`💻 l", "s x\n", "b") + stop(),
		role() + text("`💻 l") + ": c\n\n" + text("s") + delta("") + text("\n") + stop(),
		role() + text("<th") + ": c\n\n" + text("e>") + stop(),
	} {
		in = inCRLF(in)
		for _, cut := range []cutter{inOne, oneByte, byFrame(in)} {
			out, _ := run(in, Options{}, chatParams, cut, CauseEOF)
			same(t, out, in, "bytes")
		}
	}
}

// The text of any choice ends tools, and is a part of an answer.
func TestTextOfAnotherChoiceIsEvidence(t *testing.T) {
	other := func(s string) string { return strings.Replace(text(s), `"index": 0`, `"index": 1`, 1) }
	out := repair(role() + markerChunk("💻", "ls") + other(" \n") + other("x"))
	i, j := strings.Index(out, `"status":"completed"`), strings.Index(out, `"content": "x"`)
	if i < 0 || i > j || strings.Index(out, `"content": " \n"`) > i {
		t.Errorf("the tool does not end between the white space and the text:\n%s", out)
	}
	if v := look(t, out); v.finish.Hermes == nil || !*v.finish.Hermes.Partial {
		t.Error("what has been sent is not partial")
	}
}

// What is dropped is dropped with its line ends.
func TestFramesBehindDoneInCRLF(t *testing.T) {
	for _, late := range []string{"data: {\"a\n\n", "data: x\n\n", doneFrame, text("late"), named("x", "{}"), "data: {\"error\": {\"message\": \"m\"}}\n\n"} {
		good := inCRLF(role() + text("a") + stop())
		for _, cut := range []cutter{inOne, oneByte} {
			out, _ := run(good+inCRLF(late)+": c\r\n\r\n", Options{}, chatParams, cut, CauseEOF)
			same(t, out, good+": c\r\n\r\n", "what leaves with "+late)
		}
	}
}
