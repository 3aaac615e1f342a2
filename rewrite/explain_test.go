package rewrite

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
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
		{"an error of upstream's", finishChunk("error", realUsage+`, "error": {"message": "sk-123456"}`) + doneFrame, []string{"3 a secret", "3 upstream says"}},
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
