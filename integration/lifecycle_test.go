package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// lines is a chunked stream of frames given by their lines, ended well.
func lines(frames ...[]string) script {
	return func(x *exchange) {
		x.events()
		for _, f := range frames {
			x.frame(f...)
		}
		x.end()
	}
}

// one is a frame of one line.
func one(line string) []string { return []string{line} }

// good is the end of a successful stream.
func good() [][]string { return [][]string{one(finish("stop", 56)), one("data: [DONE]")} }

func TestLifecycle(t *testing.T) {
	const g0 = "\n`💻 ls`\n"
	marker := one(delta("content", g0))
	g1 := []string{"event: hermes.tool.progress", `data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls"}`}
	text, space := one(delta("content", "hi")), one(delta("content", " \n"))
	reasoning := one(delta("reasoning_content", "hm"))
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
			[][]string{running("terminal", "c1"), text, completed("terminal", "c1"), text}, "running text completed text"},
		{"on G2 a further start infers no completion",
			[][]string{running("terminal", "c1"), running("terminal", "c2"), completed("terminal", "c1"), completed("terminal", "c2"), text},
			"running running completed completed text"},
		{"on G2 the end of the stream completes the rest",
			[][]string{running("terminal", "c1"), text}, "running text completed"},
		{"a second running of the same id collapses",
			[][]string{running("terminal", "c1"), running("terminal", "c1"), completed("terminal", "c1"), text}, "running completed text"},
		{"a second completed of the same id collapses",
			[][]string{running("terminal", "c1"), completed("terminal", "c1"), completed("terminal", "c1"), text}, "running completed text"},
		{"an orphaned completed is dropped",
			[][]string{completed("terminal", "c9"), text}, "text"},
		{"an internal tool of G2 is dropped",
			[][]string{running("_thinking", "c1"), completed("_thinking", "c1"), text}, "text"},
		{"an internal tool of G1 is dropped",
			[][]string{{"event: hermes.tool.progress", `data: {"tool": "_thinking", "emoji": "\ud83d\udcad", "label": "hm"}`}, text}, "text"},
	}
	scripts := router{}
	for _, r := range rules {
		frames := append([][]string{one(role)}, r.frames...)
		scripts[r.name] = lines(append(frames, good()...)...)
	}
	base, _ := serve(t, newUpstream(t, scripts.play), still)
	c := newClient(t, base)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			a := c.of(t).play(r.name).answer()
			a.checkGood(t)
			if got := strings.Join(a.names(), " "); got != "chunk "+r.want+" finish stop done" {
				t.Errorf("frames %q, want %q", got, r.want)
			}
		})
	}
}

// A start that comes parallel_window after the one before completes it.
func TestLateStartCompletesTheToolBefore(t *testing.T) {
	read := make(chan struct{})
	base, _ := serve(t, newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(delta("content", "\n`💻 ls`\n"))
		x.wait(read) // then the sidecar has it, too
		x.pause(50 * time.Millisecond)
		x.frame(delta("content", "\n`📖 a.txt`\n"))
		x.frame(delta("content", "\n\nok"))
		for _, f := range good() {
			x.frame(f...)
		}
		x.end()
	}), options{"parallel_window": "10ms", "keepalive": 0})
	r := newClient(t, base).chat()
	start := r.frame()
	close(read)
	a := decode(t, start.raw+r.all())
	a.checkGood(t)
	if got := strings.Join(a.names(), " "); got != "running completed running completed text finish stop done" {
		t.Errorf("frames %q", got)
	}
}

// It holds for more tools than any agent runs at once.
func TestLifecycleHoldsForThousandsOfTools(t *testing.T) {
	many := func(frame func(i int) []string) script {
		frames := [][]string{one(role)}
		for i := range 20000 {
			frames = append(frames, frame(i))
		}
		return lines(append(append(frames, one(delta("content", "hi"))), good()...)...)
	}
	scripts := router{
		"G0":        many(func(i int) []string { return one(delta("content", fmt.Sprintf("\n`💻 %d`\n", i))) }),
		"G2":        many(func(i int) []string { return running("terminal", fmt.Sprint("call_", i)) }),
		"G2 orphan": many(func(i int) []string { return completed("terminal", fmt.Sprint("call_", i)) }),
	}
	c := newClient(t, first(serve(t, newUpstream(t, scripts.play), still)))
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			a := c.of(t).play(name).answer()
			a.checkGood(t)
			if (len(a.starts) == 0) != (name == "G2 orphan") || a.content != "hi" {
				t.Errorf("%d starts, content %q", len(a.starts), clip(a.content))
			}
			t.Logf("%d of 20000 tools were shown", len(a.starts))
		})
	}
}

// Every replica derives the same ids for tools that come without.
func TestDerivedIDsAreAlikeInEveryReplica(t *testing.T) {
	all := recordings(t, func(r recording) bool { return chats(r) && r.legacy() && r.scenario != "emoji_all" })
	up := newUpstream(t, library(all, byFrame).play)
	var ids [2][]string
	for i := range ids {
		base, _ := serve(t, up, still)
		for _, r := range all {
			for _, e := range newClient(t, base).play(r.String()).answer().events {
				if e.chunk != nil && e.Status == "running" {
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
	all := recordings(t, chats)
	base, _ := serve(t, newUpstream(t, library(all, byFrame).play), nil)
	c := newClient(t, base)
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			a := c.of(t).play(r.String()).answer()
			a.checkLifecycle(t)
			if !a.done {
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
		frames = append(frames, one(delta("content", "\n`"+r.emoji+" "+r.label+"`\n")))
	}
	frames = append(frames, one(delta("content", "\n\nok")))
	base, _ := serve(t, newUpstream(t, lines(append(frames, good()...)...)), still.with(options{"tool": map[string]string{"🛰️": "satellite"}}))
	a := newClient(t, base).chat().answer()
	a.checkGood(t)
	if len(a.starts) != len(rules) {
		t.Fatalf("%d starts of %d", len(a.starts), len(rules))
	}
	for i, r := range rules {
		if got := a.starts[i]; got != (start{emoji: r.emoji, label: r.label, tool: r.tool}) {
			t.Errorf("start %v, want %v", got, r)
		}
	}
}

// A modern stream is not touched but for the envelope of its tool events: each
// other frame keeps its bytes.
func TestG2FramesBesideToolEventsKeepTheirBytes(t *testing.T) {
	all := recordings(t, func(r recording) bool {
		return chats(r) && !r.legacy() && !strings.Contains(r.scenario, "crash") && !strings.Contains(r.scenario, "fail") && !strings.HasPrefix(r.scenario, "err") &&
			!strings.HasPrefix(r.scenario, "zero") && r.scenario != "model_imitates" && r.scenario != "think_tags" && r.scenario != "status_wait"
	})
	base, _ := serve(t, newUpstream(t, library(all, byFrame).play), still.with(options{"zero_usage": "pass", "empty_answer": "pass"}))
	c := newClient(t, base)
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			got := without(c.of(t).play(r.String()).all(), "event: hermes.tool.progress\n")
			if want := without(string(r.body), "event: hermes.tool.progress\n"); got != want {
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
