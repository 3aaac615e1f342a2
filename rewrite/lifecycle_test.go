package rewrite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// bodies of tool events as contract section 2 has them.
const (
	envelopeWritten = `"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795164800,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":null}]`
	envelopeKeys    = "id object created model choices"
)

func TestDerivedIDsAreUniqueAndTheSameOnEveryReplica(t *testing.T) {
	var in strings.Builder
	in.WriteString(role())
	for i := range 200 {
		in.WriteString(markerChunk("💻", "the same label"))
		if i%3 == 0 {
			in.WriteString(text("\n\nx"))
		}
	}
	in.WriteString(text("x") + stop())
	a := look(t, repair(in.String()))
	b, _ := run(in.String(), Options{}, Params{Active: true, ID: always("another"), Created: 5}, oneByte, CauseEOF)
	a.checkLifecycle(t)
	seen := map[string]bool{}
	for i, e := range look(t, b).tools {
		if e.id != a.tools[i].id {
			t.Fatalf("two replicas derive %s and %s", a.tools[i].id, e.id)
		}
		seen[e.id] = true
	}
	if len(seen) != 200 {
		t.Errorf("%d ids, want 200", len(seen))
	}
	other := look(t, repair(strings.ReplaceAll(in.String(), "chatcmpl-1", "chatcmpl-2")))
	if seen[other.tools[0].id] {
		t.Errorf("two completions share the id %s", other.tools[0].id)
	}
}

func TestG0AndG1DeriveTheSameID(t *testing.T) {
	a := look(t, repair(role()+markerChunk("💻", "ls")+text("x")+stop())).tools[0].id
	b := look(t, repair(role()+g1("terminal", "💻", "ls")+text("x")+stop())).tools[0].id
	if a != b {
		t.Errorf("%s and %s for the same ordinal of the same completion", a, b)
	}
}

// story returns the order of what leaves.
func story(t *testing.T, in string) string {
	t.Helper()
	v := look(t, repair(in))
	v.checkLifecycle(t)
	return v.story()
}

func TestTextCompletesToolsWithoutIDs(t *testing.T) {
	for _, start := range []string{markerChunk("💻", "ls"), g1("terminal", "💻", "ls")} {
		if got := story(t, start+text("x")+stop()); got != "running completed text finish done" {
			t.Errorf("text: %s", got)
		}
		if got := story(t, start+reasoning("x")+text("y")+stop()); got != "running completed reasoning text finish done" {
			t.Errorf("reasoning: %s", got)
		}
		if got := story(t, start+delta(`"reasoning": "x"`)+text("y")+stop()); got != "running completed reasoning text finish done" {
			t.Errorf("reasoning: %s", got)
		}
		if got := story(t, start+text("\n\n")+text(" \t\u00a0")+text("x")+stop()); got != "running text text completed text finish done" {
			t.Errorf("white space: %s", got)
		}
		if got := story(t, start+reasoning(" \n")+delta("")+keepalive+text("x")+stop()); got != "running reasoning other completed text finish done" {
			t.Errorf("white space as reasoning: %s", got)
		}
	}
}

func TestToolsWithoutIDsRunInParallelInsideTheWindow(t *testing.T) {
	for _, start := range []func(label string) string{
		func(label string) string { return markerChunk("💻", label) },
		func(label string) string { return g1("terminal", "💻", label) },
	} {
		for _, test := range []struct {
			window, between time.Duration
			want            string
		}{
			{0, 0, "running running completed completed text finish done"},
			{0, 499 * time.Millisecond, "running running completed completed text finish done"},
			{0, 500 * time.Millisecond, "running completed running completed text finish done"},
			{0, time.Hour, "running completed running completed text finish done"},
			{time.Second, 999 * time.Millisecond, "running running completed completed text finish done"},
			{time.Second, time.Second, "running completed running completed text finish done"},
			{-1, 0, "running completed running completed text finish done"},
		} {
			s := New(&Options{ParallelWindow: test.window}, chatParams)
			out := s.Feed(nil, []byte(start("a")), epoch)
			out = s.Feed(out, []byte(start("b")), epoch.Add(test.between))
			out = s.Feed(out, []byte(text("x")+stop()), epoch.Add(time.Hour))
			v := look(t, string(s.Finish(out, CauseEOF)))
			v.checkLifecycle(t)
			if v.story() != test.want {
				t.Errorf("window %v, starts %v apart: %s, want %s", test.window, test.between, v.story(), test.want)
			}
		}
	}
}

func TestWindowBeginsAtThePreviousStart(t *testing.T) {
	s := New(&Options{}, chatParams)
	var out []byte
	for i := range 5 {
		out = s.Feed(out, []byte(markerChunk("💻", fmt.Sprint(i))), epoch.Add(time.Duration(i)*400*time.Millisecond))
	}
	out = s.Finish(s.Feed(out, []byte(text("x")+stop()), epoch.Add(time.Hour)), CauseEOF)
	v := look(t, string(out))
	if want := strings.Repeat("running ", 5) + strings.Repeat("completed ", 5) + "text finish done"; v.story() != want {
		t.Errorf("%s, want %s", v.story(), want)
	}
}

func TestNothingIsInferredFromTextOnG2(t *testing.T) {
	in := g2Start("terminal", "💻", "a", "call_1") + text("x") + reasoning("y") + g2Start("terminal", "💻", "b", "call_2") + text("z") +
		g2End("terminal", "call_2") + g2End("terminal", "call_1") + text("end") + stop()
	if got, want := story(t, in), "running text reasoning running text completed completed text finish done"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s := New(&Options{}, chatParams)
	out := s.Feed(nil, []byte(g2Start("terminal", "💻", "a", "call_1")), epoch)
	out = s.Feed(out, []byte(g2Start("terminal", "💻", "b", "call_2")), epoch.Add(time.Hour))
	if v := look(t, string(out)); v.story() != "running running" {
		t.Errorf("%s: a further start has completed a tool with an id", v.story())
	}
}

func TestTheEndOfTheStreamCompletesTheRest(t *testing.T) {
	for name, starts := range map[string]string{
		"G0": markerChunk("💻", "a") + markerChunk("📖", "b"),
		"G1": g1("terminal", "💻", "a") + g1("read_file", "📖", "b"),
		"G2": g2Start("terminal", "💻", "a", "call_1") + g2Start("read_file", "📖", "b", "call_2"),
	} {
		for end, want := range map[string]string{
			"":                                  "running running completed completed error finish done",
			doneFrame:                           "running running completed completed error finish done",
			finishChunk("stop", zeroUsage):      "running running completed completed error finish done",
			finishChunk("length", realUsage):    "running running completed completed finish done",
			finishChunk("error", zeroUsage):     "running running completed completed error finish done",
			`data: {"error": "boom"}` + "\n\n":  "running running completed completed error finish done",
			finishChunk("tool_calls", "") + " ": "running running completed completed finish done",
		} {
			v := look(t, repair(starts+strings.TrimSuffix(end, " ")))
			v.checkLifecycle(t)
			if v.story() != want {
				t.Errorf("%s, %q: %s, want %s", name, end, v.story(), want)
			}
		}
	}
}

func TestCompletedKeepTheOrderOfTheStarts(t *testing.T) {
	v := look(t, repair(markerChunk("💻", "a")+markerChunk("📖", "b")+markerChunk("🐍", "c")+text("x")+stop()))
	for i := range 3 {
		if v.tools[i].id != v.tools[i+3].id || v.tools[i].tool != v.tools[i+3].tool {
			t.Errorf("start %d is %+v, end %d is %+v", i, v.tools[i], i, v.tools[i+3])
		}
	}
}

func TestDuplicatesCollapse(t *testing.T) {
	a, b := g2Start("terminal", "💻", "a", "call_1"), g2End("terminal", "call_1")
	in := role() + a + a + b + b + a + b + text("x") + stop()
	same(t, repairWith(in, Options{Progress: ProgressBare}), role()+a+b+text("x")+stop(), "bytes")
}

func TestOrphansAreDropped(t *testing.T) {
	in := role() + g2End("terminal", "call_9") + text("x") + g2End("terminal", "call_8") + stop()
	same(t, repair(in), role()+text("x")+stop(), "bytes")
}

func TestInternalToolsAreDropped(t *testing.T) {
	in := role() + g1("_thinking", "💭", "hm") + g2Start("_x", "💭", "hm", "call_1") + g2End("_x", "call_1") + text("x") + stop()
	for _, form := range ProgressForms() {
		same(t, repairWith(in, Options{Progress: form}), role()+text("x")+stop(), string(form)+": bytes")
	}
}

func TestInternalToolsDoNotCompleteOthers(t *testing.T) {
	s := New(&Options{}, chatParams)
	out := s.Feed(nil, []byte(g1("terminal", "💻", "a")), epoch)
	out = s.Feed(out, []byte(g1("_thinking", "💭", "hm")), epoch.Add(time.Hour))
	if v := look(t, string(out)); v.story() != "running" {
		t.Errorf("%s", v.story())
	}
}

func TestToolEventsBehindTheFinishChunkAreDropped(t *testing.T) {
	in := role() + text("x") + finishChunk("stop", realUsage)
	late := g2Start("terminal", "💻", "a", "call_1") + g2End("terminal", "call_1")
	same(t, repair(in+late+doneFrame), in+doneFrame, "bytes")
}

func TestToolFieldsInAPlainChunkAreNoToolEvent(t *testing.T) {
	in := role() + `data: {` + envelopeOfTests + `, "tool": "x", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": null}]}` + "\n\n" + stop()
	same(t, repair(in), in, "bytes")
}

func TestToolsBeforeAnyChunkUseTheParams(t *testing.T) {
	out := repair(g1("terminal", "💻", "ls"))
	var c wireChunk
	if err := json.Unmarshal([]byte(toolFrames(out)[0]), &c); err != nil {
		t.Fatal(err)
	}
	if *c.ID != "chatcmpl-none" || *c.Created != 1700000000 {
		t.Errorf("%s", out)
	}
}

func TestMixedGenerationsPairUp(t *testing.T) {
	in := markerChunk("💻", "a") + g2Start("read_file", "📖", "b", "call_1") + text("x") + g2End("read_file", "call_1") + stop()
	v := look(t, repair(in))
	v.checkLifecycle(t)
	if len(v.starts()) != 2 {
		t.Errorf("starts %+v", v.starts())
	}
}

func TestInternalToolWithAnEscapedUnderscore(t *testing.T) {
	out := repair(role() + named("hermes.tool.progress", `{"tool": "\u005fthinking", "emoji": "x", "label": "hm"}`) + text("x") + stop())
	same(t, out, role()+text("x")+stop(), "bytes")
}
