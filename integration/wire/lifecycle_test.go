package wire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

func TestLifecycle(t *testing.T) {
	const g0 = "\n`💻 ls`\n"
	marker := hermes.One(hermes.Delta("content", g0))
	g1 := []string{"event: hermes.tool.progress", `data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls"}`}
	text, space := hermes.One(hermes.Delta("content", "hi")), hermes.One(hermes.Delta("content", " \n"))
	reasoning := hermes.One(hermes.Delta("reasoning_content", "hm"))
	rules := []struct {
		name   string
		frames [][]string
		want   string // the answer's frames, in short
	}{
		{"of a marker: text completes it, before that delta",
			[][]string{marker, text}, "running completed text"},
		{"of a G1 event: text completes it, before that delta",
			[][]string{g1, text}, "running completed text"},
		{"reasoning completes a tool, before that delta",
			[][]string{marker, reasoning, text}, "running completed reasoning text"},
		{"white space completes nothing",
			[][]string{marker, space, text}, "running text completed text"},
		{"starts inside parallel_window run in parallel",
			[][]string{marker, marker, marker, text}, "running running running completed completed completed text"},
		{"G1 starts inside parallel_window run in parallel",
			[][]string{g1, g1, text}, "running running completed completed text"},
		{"on G2 text infers no completion",
			[][]string{hermes.Running("terminal", "c1"), text, hermes.Completed("terminal", "c1"), text}, "running text completed text"},
		{"on G2 a further start infers no completion",
			[][]string{hermes.Running("terminal", "c1"), hermes.Running("terminal", "c2"), hermes.Completed("terminal", "c1"), hermes.Completed("terminal", "c2"), text},
			"running running completed completed text"},
		{"on G2 the end of the stream completes the rest",
			[][]string{hermes.Running("terminal", "c1"), text}, "running text completed"},
		{"a second running of the same id collapses",
			[][]string{hermes.Running("terminal", "c1"), hermes.Running("terminal", "c1"), hermes.Completed("terminal", "c1"), text}, "running completed text"},
		{"a second completed of the same id collapses",
			[][]string{hermes.Running("terminal", "c1"), hermes.Completed("terminal", "c1"), hermes.Completed("terminal", "c1"), text}, "running completed text"},
		{"an orphaned completed is dropped",
			[][]string{hermes.Completed("terminal", "c9"), text}, "text"},
		{"an internal tool of G2 is dropped",
			[][]string{hermes.Running("_thinking", "c1"), hermes.Completed("_thinking", "c1"), text}, "text"},
		{"an internal tool of G1 is dropped",
			[][]string{{"event: hermes.tool.progress", `data: {"tool": "_thinking", "emoji": "\ud83d\udcad", "label": "hm"}`}, text}, "text"},
	}
	scripts := upstream.Router{}
	for _, r := range rules {
		frames := append([][]string{hermes.One(hermes.Role)}, r.frames...)
		scripts[r.name] = upstream.Lines(append(frames, hermes.Good()...)...)
	}
	base, _ := sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)
	c := client.New(t, base)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			a := c.Of(t).Play(r.name).Answer()
			a.CheckGood(t)
			if got := strings.Join(a.Names(), " "); got != "chunk "+r.want+" finish stop done" {
				t.Errorf("frames %q, want %q", got, r.want)
			}
		})
	}
}

// A start that comes parallel_window after the one before completes it.
func TestLateStartCompletesTheToolBefore(t *testing.T) {
	read := make(chan struct{})
	base, _ := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		x.Frame(hermes.Delta("content", "\n`💻 ls`\n"))
		x.Wait(read) // then the sidecar has it, too
		x.Pause(50 * time.Millisecond)
		x.Frame(hermes.Delta("content", "\n`📖 a.txt`\n"))
		x.Frame(hermes.Delta("content", "\n\nok"))
		for _, f := range hermes.Good() {
			x.Frame(f...)
		}
		x.End()
	}), sidecar.Options{"parallel_window": "10ms", "keepalive": 0})
	r := client.New(t, base).Chat()
	start := r.Frame()
	close(read)
	a := strict.Decode(t, start.Raw+r.All())
	a.CheckGood(t)
	if got := strings.Join(a.Names(), " "); got != "running completed running completed text finish stop done" {
		t.Errorf("frames %q", got)
	}
}

// It holds for more tools than any agent runs at once.
func TestLifecycleHoldsForThousandsOfTools(t *testing.T) {
	many := func(frame func(i int) []string) upstream.Script {
		frames := [][]string{hermes.One(hermes.Role)}
		for i := range 3000 {
			frames = append(frames, frame(i))
		}
		return upstream.Lines(append(append(frames, hermes.One(hermes.Delta("content", "hi"))), hermes.Good()...)...)
	}
	scripts := upstream.Router{
		"G0":        many(func(i int) []string { return hermes.One(hermes.Delta("content", fmt.Sprintf("\n`💻 %d`\n", i))) }),
		"G2":        many(func(i int) []string { return hermes.Running("terminal", fmt.Sprint("call_", i)) }),
		"G2 orphan": many(func(i int) []string { return hermes.Completed("terminal", fmt.Sprint("call_", i)) }),
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)))
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			a := c.Of(t).Play(name).Answer()
			a.CheckGood(t)
			if (len(a.Starts) == 0) != (name == "G2 orphan") || a.Content != "hi" {
				t.Errorf("%d starts, content %q", len(a.Starts), harness.Clip(a.Content))
			}
			t.Logf("%d of 3000 tools were shown", len(a.Starts))
		})
	}
}

// Every replica derives the same ids for tools that come without.
func TestDerivedIDsAreAlikeInEveryReplica(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool { return hermes.Chats(r) && r.Legacy() && r.Scenario != "emoji_all" })
	up := upstream.New(t, upstream.Library(all, upstream.ByFrame).Play)
	var ids [2][]string
	for i := range ids {
		base, _ := sidecar.Serve(t, up, sidecar.Still)
		for _, r := range all {
			for _, e := range client.New(t, base).Play(r.String()).Answer().Events {
				if e.Chunk != nil && e.Status == "running" {
					ids[i] = append(ids[i], r.String()+" "+e.ToolCallID)
				}
			}
		}
	}
	if len(ids[0]) < 10 || !slices.Equal(ids[0], ids[1]) {
		t.Errorf("ids\n%q\nand\n%q", ids[0], ids[1])
	}
}

// Every recording comes out with a lifecycle that holds.
func TestLifecycleHoldsInEveryRecording(t *testing.T) {
	all := hermes.Recordings(t, hermes.Chats)
	base, _ := sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), nil)
	c := client.New(t, base)
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			a := c.Of(t).Play(r.String()).Answer()
			a.CheckLifecycle(t)
			if !a.Done {
				t.Error("no [DONE]")
			}
		})
	}
}

func TestToolNames(t *testing.T) {
	rules := []struct{ emoji, label, tool string }{
		{"💻", "ls", "terminal"},
		{"⚙️", "x", "process"},
		{"🔍", `recall: "cats"`, "session_search"},
		{"🧠", `+memory: "likes cats"`, "memory"},
		{"🧠", `~memory: "likes cats"`, "memory"},
		{"🧠", `-memory: "likes cats"`, "memory"},
		{"🧠", "mixture_of_agents", "mixture_of_agents"},
		{"📚", "skill_view", "skill_view"},
		{"👁️", "browser_vision", "browser_vision"},
		{"🦤", "x", "tool"},
		{"🛰️", "x", "satellite"},
	}
	var frames [][]string
	for _, r := range rules {
		frames = append(frames, hermes.One(hermes.Delta("content", "\n`"+r.emoji+" "+r.label+"`\n")))
	}
	frames = append(frames, hermes.One(hermes.Delta("content", "\n\nok")))
	base, _ := sidecar.Serve(t, upstream.New(t, upstream.Lines(append(frames, hermes.Good()...)...)), sidecar.Still.With(sidecar.Options{"tool": map[string]string{"🛰️": "satellite"}}))
	a := client.New(t, base).Chat().Answer()
	a.CheckGood(t)
	if len(a.Starts) != len(rules) {
		t.Fatalf("%d starts of %d", len(a.Starts), len(rules))
	}
	for i, r := range rules {
		if got := a.Starts[i]; got != (strict.Start{Emoji: r.emoji, Label: r.label, Tool: r.tool}) {
			t.Errorf("start %v, want %v", got, r)
		}
	}
}

// A modern stream is not touched but for the envelope of its tool events: each
// other frame keeps its bytes.
func TestG2FramesBesideToolEventsKeepTheirBytes(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return hermes.Chats(r) && !r.Legacy() && !strings.Contains(r.Scenario, "crash") && !strings.Contains(r.Scenario, "fail") && !strings.HasPrefix(r.Scenario, "err") &&
			!strings.HasPrefix(r.Scenario, "zero") && r.Scenario != "model_imitates" && r.Scenario != "think_tags" &&
			!bytes.Contains(r.Body, []byte("event: hermes.status\n")) && !bytes.Contains(r.Body, []byte("event: approval.request\n"))
	})
	base, _ := sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still.With(sidecar.Options{"zero_usage": "pass", "empty_answer": "pass"}))
	c := client.New(t, base)
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			got := without(c.Of(t).Play(r.String()).All(), "event: hermes.tool.progress\n")
			if want := without(string(r.Body), "event: hermes.tool.progress\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// without is a stream without the frames that begin so.
func without(body, prefix string) string {
	var kept strings.Builder
	for _, f := range strings.SplitAfter(body, "\n\n") {
		if !strings.HasPrefix(f, prefix) {
			kept.WriteString(f)
		}
	}
	return kept.String()
}
