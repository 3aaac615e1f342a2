package rewrite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

// explained repairs in and returns its steps, their bytes copied.
func explained(in string, o Options, p Params, cut cutter, cause Cause) (steps []Step, out string) {
	p.Explain = func(s Step) {
		s.In, s.Out = append([]byte(nil), s.In...), append([]byte(nil), s.Out...)
		s.Notes = append([]Note(nil), s.Notes...)
		steps = append(steps, s)
	}
	out, _ = run(in, o, p, cut, cause)
	return steps, out
}

// TestStepsAreTheStream: the steps are the bytes that come in and leave, and a step that changes bytes has a
// note.
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

// Each change to a piece of the stream has one note.
func TestNotesNameTheRule(t *testing.T) {
	chat, none, asking := chatParams, Params{}, chatParams
	asking.Approvals, asking.Split = &desk{answer: byReply}, func(out []byte) []byte { return out[:0] }
	boom := "data: {\"error\": {\"message\": \"m\"}}\n\n"
	for name, c := range map[string]struct {
		in   string
		p    Params
		want []string // section and beginning of the text of the notes, in order; one that ends with … is among others
	}{
		"a marker":               {markerChunk("💻", "ls") + text("Hi") + stop(), chat, []string{"1 a tool marker", "2 tool terminal starts: its marker", "2 tool terminal has ended: what follows"}},
		"an imitation":           {texts("a\n`💻 l", "s`\n", "b") + stop(), chat, []string{"1 may be an imitated", "1 an imitated marker"}},
		"imitations":             {text("a\n`💻 x`\n`💻 y`\n`💻 z`\nb") + stop(), chat, []string{"1 an imitated marker"}},
		"none":                   {texts("a\n`💻 l", "s\n", "b") + stop(), chat, []string{"1 may be an imitated", "1 what was held back"}},
		"reasoning":              {texts("<thi", "nk>", "a", "</think>", "b") + stop(), chat, []string{"4 may be a tag", "4 an opening tag", "4 reasoning", "4 a closing tag"}},
		"a false stop":           {finishChunk("stop", zeroUsage) + doneFrame, chat, []string{"3 a false stop: no answer"}},
		"an error of upstream's": {finishChunk("error", realUsage+`, "error": {"message": "sk-123456"}`) + doneFrame, chat, []string{"3 a secret", "3 upstream says"}},
		"a cut frame":            {role() + `data: {"id`, chat, []string{"3 a frame that was cut", "3 error finish, code upstream_incomplete", "3 [DONE] is added"}},
		"a duplicate": {g2Start("t", "💻", "l", "1") + g2Start("t", "💻", "l", "1") + g2End("t", "2") + g2Start("_t", "💻", "l", "3") + stop(), chat,
			[]string{"2 tool t starts: upstream", "2 a named event", "2 a tool that has started", "2 the end of a tool that is not", "2 a tool event of an internal", "3 a false stop: no answer", "2 tool t has ended: the stream ends"}},
		"after an error":             {finishChunk("error", realUsage) + doneFrame + text("x"), chat, []string{"3 upstream says", "3 after the error"}},
		"a tool after the finish":    {finishChunk("stop", realUsage) + g2Start("t", "💻", "l", "1"), chat, []string{"2 after the finish chunk…"}},
		"an orphan without an id":    {named(progressEvent, `{"tool": "t", "status": "completed"}`), chat, []string{"2 not open…"}},
		"no blank line":              {strings.TrimSuffix(text("a"), "\n"), chat, []string{"3 blank line…"}},
		"what is after the end":      {stop() + ": c\n", chat, []string{"0 passes…"}},
		"a frame that is too large":  {role() + "data: " + strings.Repeat("x", 500) + "\n\n", chat, []string{"0 max_frame…"}},
		"no JSON":                    {role() + "data: {\"a\n\n", chat, []string{"0 JSON…"}},
		"text without usage":         {text("a") + finishChunk("stop", zeroUsage), chat, []string{"3 0/0/0…"}},
		"an error frame":             {role() + boom, chat, []string{"3 error…"}},
		"a stop after it":            {role() + boom + stop(), chat, []string{"3 stop after…"}},
		"a stop on a tool":           {g1("terminal", "💻", "l") + finishChunk("stop", zeroUsage), chat, []string{"3 false stop…"}},
		"[DONE] is missing":          {text("a") + finishChunk("stop", realUsage), chat, []string{"3 [DONE]…"}},
		"white space after a tag":    {text("<think>a</think> \n b") + stop(), chat, []string{"4 white space…"}},
		"a part of a closing tag":    {text("<think>a</thi") + text("nk>b") + stop(), chat, []string{"4 may be a closing tag…"}},
		"an approval":                {waits("x"), asking, []string{"2 a request for approval: the answer asks the user…"}},
		"the end of an answer":       {waits("x"), asking, []string{"2 the answer ends here; what follows is the answer to the reply…"}},
		"another stream that is cut": {created(0, `"id": "r"`), none, []string{contract.SectionOther + " cut…"}},
	} {
		steps, _ := explained(c.in, Options{MaxFrame: 400}, c.p, inOne, CauseEOF)
		var got []string
		for _, s := range steps {
			seen := map[string]bool{}
			for _, n := range s.Notes {
				if seen[n.Text] {
					t.Errorf("%s: %q stands twice in a step", name, n.Text)
				}
				seen[n.Text] = true
				got = append(got, n.Section+" "+n.Text)
			}
		}
		ok := len(got) == len(c.want)
		for i := range got {
			ok = ok && strings.HasPrefix(got[i], c.want[i])
		}
		if one, among := strings.CutSuffix(c.want[0], "…"); among {
			section, says, _ := strings.Cut(one, " ")
			ok = slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, section+" ") && strings.Contains(n, says) })
		}
		if !ok {
			t.Errorf("%s: notes %q, want %q", name, got, c.want)
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

// A step says whether text is held back, until the text has left or the stream has ended.
func TestStepsSayWhatIsHeld(t *testing.T) {
	for in, want := range map[string]string{
		role() + text("a") + text("\n`💻 l") + ": c\n\n" + text("s`\n") + text("b"): "- - held held - - end",
		role() + text("a\n`💻 l"): "- held end", role() + text("a") + stop(): "- - - - end",
		inCRLF(role() + text("a\n`💻 l")): "- - held held end",
	} {
		steps, _ := explained(in, Options{}, chatParams, inOne, CauseAborted)
		var got []string
		for _, s := range steps {
			step := map[bool]string{false: "-", true: "held"}[s.Held]
			if len(s.In) == 0 {
				step = strings.TrimPrefix(step+" end", "- ")
			}
			got = append(got, step)
		}
		same(t, strings.Join(got, " "), want, "steps")
	}
}

// OnTool gets the tool events that the client gets (see FuzzLifecycle), and who has said so.
func TestToolsAreTold(t *testing.T) {
	ls, trust, off := markerChunk("💻", "ls"), Options{Imitations: ImitationsTrust}, Options{Progress: ProgressOff}
	for _, c := range []struct {
		in    string
		o     Options
		cause Cause
		want  string
	}{
		{ls + markerChunk("📖", "a") + text("Hi") + stop(), Options{}, CauseEOF, "terminal running marker, read_file running marker, terminal completed inferred, read_file completed inferred"},
		{ls, Options{}, CauseAborted, "terminal running marker, terminal completed end"},
		{toolOfUpstream + stop(), Options{}, CauseEOF, "t running upstream, t completed upstream"},
		{g1("terminal", "💻", "ls") + text("Hi") + stop(), Options{}, CauseEOF, "terminal running upstream, terminal completed inferred"},
		{texts("a\n`💻 ls`\nb") + stop(), trust, CauseEOF, "terminal running imitation, terminal completed inferred"},
		{ls + text("Hi") + stop(), off, CauseEOF, "terminal running marker, terminal completed inferred"}, // not shown to the client
		{g2Start("_x", "💻", "ls", "1") + g2End("_x", "1") + stop(), Options{}, CauseEOF, ""},
	} {
		var told []string
		p := chatParams
		p.OnTool = func(e ToolEvent) {
			told = append(told, fmt.Sprint(e.Name, map[bool]string{false: " running ", true: " completed "}[e.Completed], e.Source))
		}
		run(c.in, c.o, p, oneByte, c.cause)
		same(t, strings.Join(told, ", "), c.want, c.in)
	}
}

func TestSourcesTellStartsOrEnds(t *testing.T) {
	want := map[ToolSource][2]bool{
		contract.SourceUpstream: {true, true}, contract.SourceMarker: {true, false}, contract.SourceImitation: {true, false}, contract.SourceInferred: {false, true}, contract.SourceEnd: {false, true},
	}
	equal(t, len(ToolSources()), len(want), "sources")
	for _, s := range ToolSources() {
		equal(t, [2]bool{s.Tells(false), s.Tells(true)}, want[s], s)
	}
}
