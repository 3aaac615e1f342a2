package integration

import (
	"slices"
	"strings"
	"testing"
)

// sharedEmoji are the emoji of Hermes that stand for several tools, which only
// the label can tell apart.
const sharedEmoji = "🔍 🧠 👁️ ⌨️ 📚 🏠 🧪 ⚡"

// The content of a repaired G0 or G1 answer is what a modern Hermes sends for
// the same scenario.
func TestContentIsThatOfModernHermes(t *testing.T) {
	legacy := recordings(t, func(r recording) bool {
		return chats(r) && r.legacy() && !r.live()
	})
	all := recordings(t, chats)
	base, _ := serve(t, newUpstream(t, library(all, byFrame).play), nil)
	c := newClient(t, base)
	for _, r := range legacy {
		t.Run(r.String(), func(t *testing.T) {
			modern := modernOf(r, "g3-v0.20.3")
			c := c.of(t)
			got := c.play(r.String()).answer()
			got.checkLifecycle(t)
			want := decode(t, string(recorded(t, modern).body)).content
			if r.scenario == "model_imitates" {
				// A model's imitation of a marker is content to Hermes of any
				// release, and no content to the sidecar: both repaired are alike.
				want = c.play(modern).answer().content
				if want != "Sure\ndone" {
					t.Errorf("the imitation leaves %q", want)
				}
			}
			if got.content != want {
				t.Errorf("content\n%q, want that of %s\n%q", got.content, modern, want)
			}
		})
	}
}

// The tools of a repaired G0 or G1 answer are those that G2 announces itself.
func TestToolStartsAreThoseOfG2(t *testing.T) {
	legacy := recordings(t, func(r recording) bool { return chats(r) && r.legacy() && !r.live() })
	base, _ := serve(t, newUpstream(t, library(legacy, byFrame).play), nil)
	c := newClient(t, base)
	for _, r := range legacy {
		t.Run(r.String(), func(t *testing.T) {
			got := c.of(t).play(r.String()).answer().starts
			want := decode(t, string(recorded(t, modernOf(r, "g2-v0.13.0")).body)).starts
			if r.scenario == "emoji_all" {
				// It starts every tool that a release has: G2 has more of them.
				want = slices.DeleteFunc(want, func(w start) bool {
					return !slices.ContainsFunc(got, func(g start) bool { return g.label == w.label })
				})
				if len(want) < 40 {
					t.Fatalf("only %d tools of G2 are in the answer", len(want))
				}
			}
			if len(got) != len(want) {
				t.Fatalf("starts\n%v, want those of G2\n%v", got, want)
			}
			for i, g := range got {
				w := want[i]
				if strings.Contains(sharedEmoji, w.emoji) && strings.HasPrefix(r.generation, "g0") && w.label != w.tool {
					w.tool = g.tool
				}
				if w.emoji == "⚡" && strings.HasPrefix(r.generation, "g0") {
					w.tool = "tool" // of a tool that has no emoji nothing is known
				}
				if g != w {
					t.Errorf("start %d: %v, want %v", i, g, w)
				}
			}
		})
	}
}

// modernOf is the recording of r's scenario by another generation.
func modernOf(r recording, generation string) string {
	if dir, _, ok := strings.Cut(r.generation, "/"); ok {
		generation = dir + "/" + generation
	}
	return generation + "/" + r.scenario
}

// of is the client in a subtest.
func (c *client) of(t testing.TB) *client {
	return &client{t: t, http: c.http, base: c.base}
}

// texts is a G0 stream of deltas with these contents, and a good end.
func texts(contents ...string) script {
	return func(x *exchange) {
		x.events()
		for _, s := range contents {
			x.frame(delta("content", s))
		}
		x.frame(finish("stop", 56))
		x.frame("data: [DONE]")
		x.end()
	}
}

func TestMarkers(t *testing.T) {
	rule := []struct {
		name    string
		options options
		deltas  []string
		content string
		starts  []start
	}{
		{"of an emoji that nobody knows start a tool", nil,
			[]string{"Hi", "\n`🦤 x`\n", "\n\nok"}, "Hi\n\nok", []start{{emoji: "🦤", label: "x", tool: "tool"}}},
		{"with a newline in the label", nil,
			[]string{"Hi", "\n`🧪 lr=1\n2`\n", "\n\nok"}, "Hi\n\nok", []start{{emoji: "🧪", label: "lr=1\n2", tool: ""}}},
		{"whose label is a backtick", nil,
			[]string{"\n`💻 ``\n", "\n\nok"}, "\n\nok", []start{{emoji: "💻", label: "`", tool: "terminal"}}},
		{"need an emoji: an inline command is text", nil,
			[]string{"\n`git status`\n", "ok"}, "\n`git status`\nok", nil},
		{"back to back are a start each", nil,
			[]string{"a", "\n`💻 ls`\n", "\n`💻 ls`\n", "\n\nb"}, "a\n\nb", []start{{emoji: "💻", label: "ls", tool: "terminal"}, {emoji: "💻", label: "ls", tool: "terminal"}}},
		{"merged with text are imitations", nil,
			[]string{"Sure\n`💻 ls`\ndone"}, "Sure\ndone", nil},
		{"merged with text that has its own newline leave no other", nil,
			[]string{"Sure\n`💻 ls`\n\ndone"}, "Sure\ndone", nil},
		{"spread over deltas are imitations", nil,
			[]string{"Sure", "\n", "`", "💻", " l", "s", "`", "\n", "done"}, "Sure\ndone", nil},
		{"imitated at the start of a message leave nothing", nil,
			[]string{"`💻", " ls`\n", "done"}, "done", nil},
		{"imitated at the end of a message leave a newline", nil,
			[]string{"Sure", "\n`💻 l", "s`"}, "Sure\n", nil},
		{"imitated twice leave one newline", nil,
			[]string{"Sure\n`💻 ls`\n`📖 a`\ndone"}, "Sure\ndone", nil},
		{"imitated with an unknown emoji stay", nil,
			[]string{"Sure\n`🦤", " ls`\ndone"}, "Sure\n`🦤 ls`\ndone", nil},
		{"imitated inside a code fence stay", nil,
			[]string{"```\n", "`💻 ls`\n", "```\nok"}, "```\n`💻 ls`\n```\nok", nil},
		{"imitated inside a line stay", nil,
			[]string{"see `💻 ls`\nok"}, "see `💻 ls`\nok", nil},
		{"alone in backticks stay", nil,
			[]string{"a\n`💻`\n", "ok"}, "a\n`💻`\nok", nil},
		{"imitated and kept", options{"imitations": "keep"},
			[]string{"Sure\n`💻 ls`\ndone"}, "Sure\n`💻 ls`\ndone", nil},
		{"imitated and trusted start a tool", options{"imitations": "trust"},
			[]string{"Sure\n`💻 ls`\n\ndone"}, "Sure\ndone", []start{{emoji: "💻", label: "ls", tool: "terminal"}}},
	}
	scripts := router{}
	for _, r := range rule {
		scripts[r.name] = texts(r.deltas...)
	}
	up := newUpstream(t, scripts.play)
	bases := map[string]string{}
	for _, value := range []string{"", "keep", "trust"} {
		o := options{}
		if value != "" {
			o["imitations"] = value
		}
		bases[value], _ = serve(t, up, o)
	}
	for _, r := range rule {
		t.Run(r.name, func(t *testing.T) {
			value, _ := r.options["imitations"].(string)
			a := newClient(t, bases[value]).play(r.name).answer()
			a.checkGood(t)
			for i := range min(len(a.starts), len(r.starts)) {
				if r.starts[i].tool == "" {
					a.starts[i].tool = "" // the contract leaves it open
				}
			}
			if a.content != r.content || !slices.Equal(a.starts, r.starts) {
				t.Errorf("content %q, starts %v; want %q, %v", a.content, a.starts, r.content, r.starts)
			}
		})
	}
}

// A whole-chunk marker after a tool event of upstream's own is the model's doing.
func TestMarkerAfterAToolEventIsAnImitation(t *testing.T) {
	base, _ := serve(t, newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(delta("content", "a"))
		x.frame("event: hermes.tool.progress", `data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls", "toolCallId": "c1", "status": "running"}`)
		x.frame("event: hermes.tool.progress", `data: {"tool": "terminal", "toolCallId": "c1", "status": "completed"}`)
		x.frame(delta("content", "\n`💻 rm`\n"))
		x.frame(delta("content", "b"))
		x.finish()
	}), nil)
	a := newClient(t, base).chat().answer()
	a.checkGood(t)
	if a.content != "a\nb" || len(a.starts) != 1 {
		t.Errorf("content %q, starts %v; want the imitated marker gone and no second tool", a.content, a.starts)
	}
}

// Text that begins like a marker waits for the end of its line, but not beyond
// 4 KiB.
func TestHeldTextLeavesAtFourKiB(t *testing.T) {
	text := "`💻 " + strings.Repeat("x", 5<<10)
	rest := make(chan struct{})
	base, _ := serve(t, newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(delta("content", text))
		if !x.wait(rest) {
			return
		}
		x.finish()
	}), nil)
	r := newClient(t, base).chat()
	if e := r.frame(); e.chunk == nil || e.Choices[0].Delta.Content != text {
		t.Errorf("got %q, want the long line", clip(e.raw))
	}
	close(rest)
	r.answer().checkLifecycle(t)
}
