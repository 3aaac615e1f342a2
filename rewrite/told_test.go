package rewrite

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

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
	want := map[ToolSource][2]bool{
		contract.SourceUpstream: {true, true}, contract.SourceMarker: {true, false}, contract.SourceImitation: {true, false}, contract.SourceInferred: {false, true}, contract.SourceEnd: {false, true},
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
		if got := jsonspan.HasText([]byte(inner)); got != want {
			t.Errorf("%q: text is %v, want %v", inner, got, want)
		}
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
