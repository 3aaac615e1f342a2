package rewrite

import (
	"fmt"
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
		for _, cut := range []cutter{whole, oneByte} {
			torn, _ := run(strings.TrimSuffix(c.in, "\n"), Options{}, chat, cut, CauseEOF)
			ended, _ := run(c.in, Options{}, chat, cut, CauseEOF)
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
		{"[DONE] between spaces", good + finish + "data:  [DONE] ", good + finish + "data:  [DONE] \n\n"},
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
		for _, cut := range []cutter{whole, oneByte} {
			out, sum := run(c.in, Options{}, chat, cut, CauseAborted)
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

// Nothing leaves behind the end, whoever asks.
func TestNothingLeavesBehindFinish(t *testing.T) {
	for _, in := range []string{role() + text("a"), role() + text("a") + stop(), ""} {
		for _, p := range []Params{chat, {}} {
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

// The summary counts what came and names what it was.
func TestSummaryOfAStream(t *testing.T) {
	o := Options{MaxFrame: 400}
	s := New(&o, chat)
	var out []byte
	out = s.Keepalive(out)
	if sum := s.Summary(); sum != (Summary{Keepalives: 1}) || s.Frames() != 0 || s.Chunks() != 0 {
		t.Errorf("before the first chunk: %+v, %d frames, %d chunks", sum, s.Frames(), s.Chunks())
	}
	later := strings.NewReplacer("chatcmpl-1", "chatcmpl-\\u0032", "hermes-agent", "m")
	in := role() + markerChunk("💻", "ls") + ": c\n\n" + named("x", "{}") + "id: 1\n\n" + later.Replace(text("a\n`💻 x`\nb")) +
		"data: " + strings.Repeat("x", 500) + "\n\n" + later.Replace(finishChunk("stop", realUsage)) + doneFrame
	for i := range len(in) { // the large frame in many parts is one
		out = s.Feed(out, []byte(in[i:i+1]), epoch)
	}
	s.Finish(out, CauseEOF)
	want := Summary{
		ID: "chatcmpl-2", Model: "m", FinishReason: "stop", Frames: 6, Chunks: 4, Tools: 1, Markers: 1, Imitations: 1, Unexamined: 1, Keepalives: 1,
		InputTokens: 1234, OutputTokens: 56,
	}
	sum := s.Summary()
	sum.UsageReported = false
	if sum != want || s.Frames() != 7 || s.Chunks() != 4 {
		t.Errorf("%+v\nwant %+v; %d frames, %d chunks", sum, want, s.Frames(), s.Chunks())
	}
	other := New(&Options{}, Params{})
	other.Feed(nil, []byte("data: 1\n\n: c\n\ndata: 2\n\n"), epoch)
	if other.Chunks() != 2 || other.Frames() != 2 {
		t.Errorf("%d events, %d frames", other.Chunks(), other.Frames())
	}
}

func TestFrameLimitHasADefaultAndAnEnd(t *testing.T) {
	for size, want := range map[int]int{0: DefaultMaxFrame, -1: DefaultMaxFrame, 1: 1, 1 << 30: 1 << 30, 1<<30 + 1: 1 << 30} {
		if got := (&Options{MaxFrame: size}).FrameLimit(); got != want {
			t.Errorf("max_frame %d is %d, want %d", size, got, want)
		}
	}
}

// What is held back is said to be, and no longer once it has left or the stream has
// ended.
func TestStepsSayWhatIsHeld(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{role() + text("a") + text("\n`💻 l") + ": c\n\n" + text("s`\n") + text("b"), "- - held held - - end"},
		{role() + text("a\n`💻 l"), "- held end"},
		{role() + text("a") + stop(), "- - - - end"},
		{inCRLF(role() + text("a\n`💻 l")), "- - held held end"},
	} {
		steps, _ := explained(c.in, Options{}, chat, whole, CauseAborted)
		var got []string
		for _, s := range steps {
			switch {
			case len(s.In) == 0 && s.Held:
				got = append(got, "held at the end")
			case len(s.In) == 0:
				got = append(got, "end")
			case s.Held:
				got = append(got, "held")
			default:
				got = append(got, "-")
			}
		}
		same(t, strings.Join(got, " "), c.want, "steps")
	}
}

// A note stands once in a step, however often it holds.
func TestNotesStandOnce(t *testing.T) {
	steps, _ := explained(text("a\n`💻 x`\n`💻 y`\n`💻 z`\nb")+stop(), Options{}, chat, whole, CauseEOF)
	for _, s := range steps {
		for i, n := range s.Notes {
			for _, other := range s.Notes[:i] {
				if n == other {
					t.Errorf("%q is noted twice", n.Text)
				}
			}
		}
	}
	if len(steps[0].Notes) == 0 || len(steps[1].Notes) != 0 {
		t.Errorf("notes %q, then %q", steps[0].Notes, steps[1].Notes)
	}
}

func TestSourcesTellStartsOrEnds(t *testing.T) {
	want := map[ToolSource][2]bool{
		SourceUpstream: {true, true}, SourceMarker: {true, false}, SourceImitation: {true, false}, SourceInferred: {false, true}, SourceEnd: {false, true},
	}
	if len(ToolSources()) != len(want) {
		t.Errorf("sources %v", ToolSources())
	}
	for _, s := range ToolSources() {
		if got := [2]bool{s.Tells(false), s.Tells(true)}; got != want[s] {
			t.Errorf("%s tells starts and ends: %v, want %v", s, got, want[s])
		}
	}
}

func TestProgressOfAHeader(t *testing.T) {
	for value, want := range map[string]Progress{
		"": "", "envelope": ProgressEnvelope, " Bare\t": ProgressBare, "UNNAMED": ProgressUnnamed, "comment": ProgressComment, "off": ProgressOff, "none": "", "bare,off": "",
	} {
		if got := ProgressOf(value); got != want {
			t.Errorf("%q asks for %q, want %q", value, got, want)
		}
	}
}

func TestReasoningAndEmptyAnswerListTheirValuesDefaultFirst(t *testing.T) {
	if got := fmt.Sprint(ReasoningValues(), EmptyAnswerValues()); got != "[extract keep drop] [error pass]" {
		t.Error(got)
	}
}

// A label tells tools apart only where it is written as the tool writes it.
func TestLabelsThatTellTools(t *testing.T) {
	for label, want := range map[string]string{
		`+user: "x"`: "memory", `~user: "x"`: "memory", `-user: "x"`: "memory", `+u: "`: "memory",
		`+: "x"`: "mixture_of_agents", `+a b: "x"`: "mixture_of_agents", "+a\tb: \"x\"": "mixture_of_agents", `+user: x`: "mixture_of_agents", `*user: "x"`: "mixture_of_agents", `user: "x"`: "mixture_of_agents", "+": "mixture_of_agents",
	} {
		if s := look(t, repair(markerChunk("🧠", label)+text("y")+stop())).starts(); len(s) != 1 || s[0].tool != want {
			t.Errorf("🧠 %s: %+v, want %s", label, s, want)
		}
	}
	for label, want := range map[string]string{
		`recall: "x`: "session_search", `recall: x`: "web_search", `x recall: "x"`: "web_search", `recall`: "web_search", "session\\u005fsearch": "session_search",
	} {
		in := strings.ReplaceAll(markerChunk("🔍", label), `\\u`, `\u`)
		if s := look(t, repair(in+text("y")+stop())).starts(); len(s) != 1 || s[0].tool != want {
			t.Errorf("🔍 %s: %+v, want %s", label, s, want)
		}
	}
}

// White space is what the standard says it is, and nothing beside it.
func TestWhatIsNoSpaceIsText(t *testing.T) {
	for inner, want := range map[string]bool{
		`\b`: true, `\u0008`: true, `\u000e`: true, `\u001f`: true, `!`: true, `\u007f`: true, `\u0080`: true, `\u00a1`: true,
		`\t`: false, `\u0009`: false, `\n\u000B\f\u000c\r\u000D`: false, "\u2028\u3000": false, `\/`: true, `\u00A0`: false, `\u00a0`: false,
	} {
		if got := hasText([]byte(inner)); got != want {
			t.Errorf("%q: text is %v, want %v", inner, got, want)
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

// Whatever is done to a piece of the stream, a note of that piece says so.
func TestNotesOfWhatIsDone(t *testing.T) {
	const think = "<think>a</think> \n b"
	large := "data: " + strings.Repeat("x", 500) + "\n\n"
	failed := named("response.created", `{"type": "response.created", "sequence_number": 0, "response": {"id": "r"}}`)
	for _, c := range []struct {
		name, in, section, says string
		p                       Params
	}{
		{"a tool behind the finish", finishChunk("stop", realUsage) + g2Start("t", "💻", "l", "1"), "2", "behind the finish chunk", chat},
		{"an orphan without an id", named("hermes.tool.progress", `{"tool": "t", "status": "completed"}`), "2", "not open", chat},
		{"a frame without its blank line", strings.TrimSuffix(text("a"), "\n"), "3", "blank line", chat},
		{"what is behind the end", stop() + ": c\n", "0", "passes", chat},
		{"a frame that is too large", role() + large, "0", "max_frame", chat},
		{"no JSON", role() + "data: {\"a\n\n", "0", "JSON", chat},
		{"text without usage", text("a") + finishChunk("stop", zeroUsage), "3", "0/0/0", chat},
		{"an error frame", role() + "data: {\"error\": {\"message\": \"m\"}}\n\n", "3", "error", chat},
		{"a stop behind it", role() + "data: {\"error\": {\"message\": \"m\"}}\n\n" + stop(), "3", "stop behind", chat},
		{"a stop on a tool", g1("terminal", "💻", "l") + finishChunk("stop", zeroUsage), "3", "false stop", chat},
		{"[DONE] is lacking", text("a") + finishChunk("stop", realUsage), "3", "[DONE]", chat},
		{"white space behind a tag", text(think) + stop(), "4", "white space", chat},
		{"a part of a closing tag", text("<think>a</thi") + text("nk>b") + stop(), "4", "may be a closing tag", chat},
		{"another stream that is cut", failed, "other streams", "cut", Params{}},
	} {
		steps, _ := explained(c.in, Options{MaxFrame: 400}, c.p, whole, CauseEOF)
		found := false
		for _, s := range steps {
			for _, n := range s.Notes {
				found = found || n.Section == c.section && strings.Contains(n.Text, c.says)
			}
		}
		if !found {
			t.Errorf("%s: no note of section %s says %q: %v", c.name, c.section, c.says, steps)
		}
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
