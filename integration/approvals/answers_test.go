package approvals

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

const danger = "rm -rf victim"

// asksOnce has the agent ask about one command.
func asksOnce(command string) []hermes.Step { return asks(hermes.Command{Text: command}) }

// asks has it ask about commands.
func asks(commands ...hermes.Command) []hermes.Step {
	steps := []hermes.Step{hermes.Says("Let me see.")}
	for _, c := range commands {
		steps = append(steps, hermes.Asks(c))
	}
	return append(steps, hermes.Reports("Done: "))
}

// TestLink: the page of the link shows the command and answers, and the stream that asked goes on.
func TestLink(t *testing.T) {
	p := newPlace(t, byLink, onPage+"allow_always")
	for choice, ran := range map[string]int{"once": 1, "session": 1, "always": 1, "deny": 0} {
		t.Run(choice, func(t *testing.T) {
			command := danger + " " + choice
			p.On(choice, asksOnce(command)...)
			me := person{t: t, at: p, key: "key-1"}
			a := me.asks(choice).wait()
			if !strings.HasPrefix(a.url, p.page+"/hermes/approve/") {
				t.Fatalf("the event's link is %q", a.url)
			}
			s := me.visits(a.url)
			if !strings.Contains(s.words(), command) || !slices.Contains(s.buttons(), choice) {
				t.Errorf("the page says %q, with the buttons %q", s.words(), s.buttons())
			}
			p.WantRan(t, command, 0)
			if got := me.presses(a.url, choice); got.status != http.StatusOK {
				t.Fatalf("pressed: %d %s", got.status, got.words())
			}
			answer := a.ends()
			answer.CheckGood(t)
			if got, want := textOf(answer), "Let me see. Done: "+choice; strings.Join(strings.Fields(got), " ") != want {
				t.Errorf("the answer is %q, want %q", got, want)
			}
			if n := strings.Count(answer.Content, a.url); n != 1 {
				t.Errorf("the link is in the text %d times: %q", n, answer.Content)
			}
			p.WantRan(t, command, ran)
		})
	}
}

// TestReply: the answer ends with a code, and the next message brings the rest of it.
func TestReply(t *testing.T) {
	for _, test := range []struct {
		reply string
		ran   int
		after string
	}{
		{"approve CODE", 1, "Done: once"},
		{"deny CODE", 0, "Done: deny"},
		{"**Deny**\u00a0`CODE`\u200b!", 0, "Done: deny"},
	} {
		t.Run(test.reply, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, byReply)
			p.On("go", asksOnce(danger)...)
			me := person{t: t, at: p, key: "key-1"}
			first := me.asks("go").wait()
			before := first.ends()
			before.CheckGood(t)
			if first.code == "" || !strings.Contains(before.Content, "`approve "+first.code+"`") || textOf(before) != "Let me see." {
				t.Fatalf("the code %q is not in %q", first.code, before.Content)
			}
			p.WantUnanswered(t, "the end of the answer")
			after := me.asks("go", before.Content, strings.ReplaceAll(test.reply, "CODE", first.code)).ends()
			after.CheckGood(t)
			if got := strings.TrimSpace(after.Content); got != test.after {
				t.Errorf("the rest is %q, want %q", got, test.after)
			}
			p.WantRan(t, danger, test.ran)
			if n := len(p.sent()); n != 1 {
				t.Errorf("the agent has got %d requests, want one: %q", n, p.sent())
			}
		})
	}
}

// TestTimeout: after approval_timeout no link and no code counts, while the agent still waits.
func TestTimeout(t *testing.T) {
	p := newPlace(t, byLink, byReply, "approval_timeout 1s")
	expires := make(chan struct{})
	p.On("go", asks(hermes.Command{Text: danger, Expires: expires})...)
	me := person{t: t, at: p, key: "key-1"}
	first := me.asks("go").wait()
	before := first.ends()
	harness.Until(t, "the page is gone", func() bool { return len(me.visits(first.url).buttons()) == 0 })
	if s := me.visits(first.url); s.status != http.StatusGone || !strings.Contains(s.words(), "Too late") {
		t.Errorf("the page: %d %s", s.status, s.words())
	}
	me.presses(first.url, "once")
	reply := me.asks("go", before.Content, "approve "+first.code)
	p.WantRan(t, danger, 0)
	close(expires)
	reply.ends()
	p.WantRan(t, danger, 0)
	for _, r := range p.Questions() {
		if len(r.Choices) > 0 && !slices.Equal(r.Choices, []string{"deny"}) {
			t.Errorf("too late, and yet: %+v", r)
		}
	}
}

// TestDetailsAfterAReply: the rest of an answer tells what its tools were given and returned (contract section 8).
func TestDetailsAfterAReply(t *testing.T) {
	harness.Until(t, "the rest tells of the tool, which a busy agent may do too late", func() bool {
		p := newPlace(t, byReply)
		p.On("go", hermes.Says("Let me see."), hermes.Asks(hermes.Command{Text: danger}),
			hermes.Uses(hermes.Call{ID: "call_9", Name: "terminal", Label: "ls", Args: `{"command":"ls"}`, Result: "one"}), hermes.Reports("Done: "))
		me := person{t: t, at: p, key: "key-1"}
		first := me.asks("go").wait()
		before := first.ends()
		after := me.asks("go", before.Content, "approve "+first.code).ends()
		after.CheckGood(t)
		var told []string
		for _, e := range after.Events {
			if e.Chunk != nil && e.ToolCallID == "call_9" && e.Status != "" {
				told = append(told, e.Status+" "+string(e.Args))
				if e.Result != nil {
					told = append(told, *e.Result)
				}
			}
		}
		want := []string{`running {"command":"ls"}`, `completed {"command":"ls"}`, "one"}
		if !slices.Equal(told, want) {
			t.Logf("the tool is told of as %q, want %q", told, want)
		}
		return slices.Equal(told, want)
	})
}
