package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// explained repairs in and returns its steps, their bytes copied.
func explained(in string, o Options, p Params, cut cutter, cause Cause) (steps []Step, out string) {
	p.Explain = func(s Step) {
		s.In, s.Out = append([]byte(nil), s.In...), append([]byte(nil), s.Out...)
		s.Notes = append([]contract.Note(nil), s.Notes...)
		steps = append(steps, s)
	}
	out, _ = run(in, o, p, cut, cause)
	return steps, out
}

// TestStepsAreTheStream: what is explained is what comes in and what leaves, and
// what changes without a note is nothing.
func TestStepsAreTheStream(t *testing.T) {
	for _, r := range recordings(t) {
		p := r.params()
		for _, o := range []Options{{}, {Progress: ProgressBare, ErrorFinish: ErrorFinishInline}, {Imitations: ImitationsTrust, Reasoning: ReasoningDrop}} {
			for _, in := range []string{r.body, r.body[:len(r.body)*3/4]} {
				steps, out := explained(in, o, p, atRandom(5, 200), CauseAborted)
				var ins, outs strings.Builder
				held := false
				for _, s := range steps {
					ins.Write(s.In)
					outs.Write(s.Out)
					if len(s.Notes) == 0 && string(s.In) != string(s.Out) && !s.Held && !held {
						t.Errorf("%s: %q becomes %q without a note", r.name(), s.In, s.Out)
					}
					held = s.Held
				}
				same(t, outs.String(), out, r.name()+": what leaves")
				if !strings.HasPrefix(in, ins.String()) || len(in)-len(ins.String()) > len(frames(in)[len(frames(in))-1]) {
					t.Errorf("%s: what is explained is not what came in", r.name())
				}
				same(t, out, func() string { out, _ := run(in, o, p, inOne, CauseAborted); return out }(), r.name()+": explained and not")
			}
		}
	}
}

func TestNotesNameTheRule(t *testing.T) {
	const cut = `data: {"id`
	for _, c := range []struct {
		name, in string
		want     []string // section and beginning of the text of the notes, in order
	}{
		{"a marker", markerChunk("💻", "ls") + text("Hi") + stop(), []string{"1 a tool marker", "2 tool terminal starts: its marker", "2 tool terminal has ended: what comes"}},
		{"an imitation", texts("a\n`💻 l", "s`\n", "b") + stop(), []string{"1 may be an imitated", "1 an imitated marker"}},
		{"none", texts("a\n`💻 l", "s\n", "b") + stop(), []string{"1 may be an imitated", "1 what was held back"}},
		{"reasoning", texts("<thi", "nk>", "a", "</think>", "b") + stop(), []string{"4 may be a tag", "4 an opening tag", "4 reasoning", "4 a closing tag"}},
		{"a false stop", finishChunk("stop", zeroUsage) + doneFrame, []string{"3 a false stop: no answer"}},
		{"an error of upstream's", finishChunk("error", realUsage+`, "error": {"message": "sk-123456"}`) + doneFrame, []string{"3 upstream says"}},
		{"a cut frame", role() + cut, []string{"3 a frame that was cut", "3 error finish, code upstream_incomplete", "3 [DONE] is added"}},
		{"a duplicate", g2Start("t", "💻", "l", "1") + g2Start("t", "💻", "l", "1") + g2End("t", "2") + g2Start("_t", "💻", "l", "3") + stop(),
			[]string{"2 tool t starts: upstream", "2 a named event", "2 a tool that has started", "2 the end of a tool that is not", "2 a tool event of an internal", "3 a false stop: no answer", "2 tool t has ended: the stream ends"}},
		{"behind an error", finishChunk("error", realUsage) + doneFrame + text("x"), []string{"3 upstream says", "3 after the error"}},
	} {
		steps, _ := explained(c.in, Options{}, chatParams, inOne, CauseEOF)
		var got []string
		for _, s := range steps {
			for _, n := range s.Notes {
				got = append(got, n.Section+" "+n.Text)
			}
		}
		ok := len(got) == len(c.want)
		for i := range got {
			ok = ok && strings.HasPrefix(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: notes %q, want %q", c.name, got, c.want)
		}
	}
}

// The summary counts what came and names what it was.
func TestSummaryOfAStream(t *testing.T) {
	o := Options{MaxFrame: 400}
	s := New(&o, chatParams)
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

// What is held back is said to be, and no longer once it has left or the stream has
// ended.
func TestStepsSayWhatIsHeld(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{role() + text("a") + text("\n`💻 l") + ": c\n\n" + text("s`\n") + text("b"), "- - held held - - end"},
		{role() + text("a\n`💻 l"), "- held end"},
		{role() + text("a") + stop(), "- - - - end"},
		{inCRLF(role() + text("a\n`💻 l")), "- - held held end"},
	} {
		steps, _ := explained(c.in, Options{}, chatParams, inOne, CauseAborted)
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
	steps, _ := explained(text("a\n`💻 x`\n`💻 y`\n`💻 z`\nb")+stop(), Options{}, chatParams, inOne, CauseEOF)
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
	want := map[contract.ToolSource][2]bool{
		contract.SourceUpstream: {true, true}, contract.SourceMarker: {true, false}, contract.SourceImitation: {true, false}, contract.SourceInferred: {false, true}, contract.SourceEnd: {false, true},
	}
	equal(t, len(ToolSources()), len(want), "sources")
	for _, s := range ToolSources() {
		equal(t, [2]bool{s.Tells(false), s.Tells(true)}, want[s], s)
	}
}

func TestProgressOfAHeader(t *testing.T) {
	for value, want := range map[string]Progress{
		"": "", "envelope": ProgressEnvelope, " Bare\t": ProgressBare, "UNNAMED": ProgressUnnamed, "comment": ProgressComment, "off": ProgressOff, "none": "", "bare,off": "",
	} {
		equal(t, ProgressOf(value), want, value)
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
		`recall: "x`: "session_search", `recall: x`: "web_search", `x recall: "x"`: "web_search", `recall`: "web_search", "session\\u005fsearch": "session_search", "\\u0073ession_search": "session_search",
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
		equal(t, jsonspan.HasText([]byte(inner)), want, inner)
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
		{"a tool behind the finish", finishChunk("stop", realUsage) + g2Start("t", "💻", "l", "1"), "2", "after the finish chunk", chatParams},
		{"an orphan without an id", named("hermes.tool.progress", `{"tool": "t", "status": "completed"}`), "2", "not open", chatParams},
		{"a frame without its blank line", strings.TrimSuffix(text("a"), "\n"), "3", "blank line", chatParams},
		{"what is behind the end", stop() + ": c\n", "0", "passes", chatParams},
		{"a frame that is too large", role() + large, "0", "max_frame", chatParams},
		{"no JSON", role() + "data: {\"a\n\n", "0", "JSON", chatParams},
		{"text without usage", text("a") + finishChunk("stop", zeroUsage), "3", "0/0/0", chatParams},
		{"an error frame", role() + "data: {\"error\": {\"message\": \"m\"}}\n\n", "3", "error", chatParams},
		{"a stop behind it", role() + "data: {\"error\": {\"message\": \"m\"}}\n\n" + stop(), "3", "stop after", chatParams},
		{"a stop on a tool", g1("terminal", "💻", "l") + finishChunk("stop", zeroUsage), "3", "false stop", chatParams},
		{"[DONE] is lacking", text("a") + finishChunk("stop", realUsage), "3", "[DONE]", chatParams},
		{"white space behind a tag", text(think) + stop(), "4", "white space", chatParams},
		{"a part of a closing tag", text("<think>a</thi") + text("nk>b") + stop(), "4", "may be a closing tag", chatParams},
		{"another stream that is cut", failed, contract.SectionOther, "cut", Params{}},
	} {
		steps, _ := explained(c.in, Options{MaxFrame: 400}, c.p, inOne, CauseEOF)
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

// Every error tells the client something of its own.
func TestMessagesOfCodes(t *testing.T) {
	seen := map[string]string{}
	for _, code := range []string{CodeAborted, CodeIncomplete, CodeTimeout, CodeCrashed, CodeEmpty, CodeAgentError, CodeShutdown} {
		m := Message(code)
		if len(m) < len("the agent") || seen[m] != "" || strings.ToLower(m[:1]) != m[:1] {
			t.Errorf("%s says %q, as does %q", code, m, seen[m])
		}
		seen[m] = code
	}
}

// A stream tells how far it is.
func TestStreamTellsWhetherItIsDone(t *testing.T) {
	s := New(&Options{}, chatParams)
	tells := func(finished, done, guarded bool) {
		t.Helper()
		if s.Finished() != finished || s.Done() != done || s.Guarded() != guarded {
			t.Errorf("finished %v, done %v, guarded %v", s.Finished(), s.Done(), s.Guarded())
		}
	}
	tells(false, false, true)
	s.Feed(nil, []byte(role()+text("a")), epoch)
	tells(false, false, true)
	s.Feed(nil, []byte(finishChunk("stop", realUsage)), epoch)
	tells(true, false, true)
	s.Feed(nil, []byte(doneFrame), epoch)
	tells(true, true, true)

	s = New(&Options{}, Params{})
	tells(false, false, false)
	s.Feed(nil, []byte("data: 1\n\n"), epoch)
	tells(false, false, false)
	s.Feed(nil, []byte(created(0, responseOfTests)), epoch)
	tells(false, false, true)
	s.Feed(nil, []byte(named("response.completed", `{"type":"response.completed","sequence_number":1,"response":{}}`)), epoch)
	tells(false, true, true)

	s = New(&Options{}, Params{})
	s.Feed(nil, []byte(role()), epoch)
	tells(false, false, true)
}

// told repairs in and returns the tool events that were told, one a line.
func told(in string, o Options, cause Cause) (string, Summary) {
	var b strings.Builder
	p := chatParams
	p.OnTool = func(e ToolEvent) {
		status := "running"
		if e.Completed {
			status = "completed"
		}
		fmt.Fprintf(&b, "%s %s %s\n", e.Name, status, e.Source)
	}
	_, sum := run(in, o, p, oneByte, cause)
	return b.String(), sum
}

func TestToolsAreTold(t *testing.T) {
	for _, c := range []struct {
		name, in string
		o        Options
		cause    Cause
		want     string
	}{
		{"markers and text", markerChunk("💻", "ls") + markerChunk("📖", "a") + text("Hi") + stop(), Options{}, CauseEOF,
			"terminal running marker\nread_file running marker\nterminal completed inferred\nread_file completed inferred\n"},
		{"a crash", markerChunk("💻", "ls"), Options{}, CauseAborted, "terminal running marker\nterminal completed end\n"},
		{"upstream's own", g2Start("terminal", "💻", "ls", "1") + g2End("terminal", "1") + stop(), Options{}, CauseEOF,
			"terminal running upstream\nterminal completed upstream\n"},
		{"upstream's starts", g1("terminal", "💻", "ls") + text("Hi") + stop(), Options{}, CauseEOF,
			"terminal running upstream\nterminal completed inferred\n"},
		{"trusted", texts("a\n`💻 ls`\nb") + stop(), Options{Imitations: ImitationsTrust}, CauseEOF,
			"terminal running imitation\nterminal completed inferred\n"},
		{"not shown to the client", markerChunk("💻", "ls") + text("Hi") + stop(), Options{Progress: ProgressOff}, CauseEOF,
			"terminal running marker\nterminal completed inferred\n"},
		{"internal", g2Start("_x", "💻", "ls", "1") + g2End("_x", "1") + stop(), Options{}, CauseEOF, ""},
	} {
		got, _ := told(c.in, c.o, c.cause)
		same(t, got, c.want, c.name)
	}
}

// TestToolsToldAreThoseSent over the recordings: the client sees the same.
func TestToolsToldAreThoseSent(t *testing.T) {
	for _, r := range chats(t) {
		for _, cause := range []Cause{CauseEOF, CauseAborted} {
			body := r.body[:len(r.body)*2/3]
			got, _ := told(body, Options{}, cause)
			out, _ := run(body, Options{}, chatParams, inOne, cause)
			var want strings.Builder
			for _, e := range look(t, out).tools {
				fmt.Fprintf(&want, "%s %s\n", e.tool, e.status)
			}
			var sent strings.Builder
			for line := range strings.Lines(got) {
				f := strings.Fields(line)
				fmt.Fprintf(&sent, "%s %s\n", f[0], f[1])
			}
			same(t, sent.String(), want.String(), r.name())
		}
	}
}

func TestSummaryHasTheTokens(t *testing.T) {
	_, sum := told(text("Hi")+stop(), Options{}, CauseEOF)
	if sum.InputTokens != 1234 || sum.OutputTokens != 56 {
		t.Errorf("tokens: %d, %d", sum.InputTokens, sum.OutputTokens)
	}
	_, sum = told(text("Hi")+finishChunk("stop", `, "usage": {"prompt_tokens": -1, "completion_tokens": "x", "total_tokens": 1e99}`)+doneFrame, Options{}, CauseEOF)
	if sum.InputTokens != 0 || sum.OutputTokens != 0 {
		t.Errorf("tokens of no numbers: %d, %d", sum.InputTokens, sum.OutputTokens)
	}
}
