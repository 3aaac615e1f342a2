// Package details tests what tool events tell of tools, against the scripted agent: what it has stored of its
// turns (contract section 8).
package details

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// place is an agent and a sidecar in front of it.
type place struct {
	*hermes.Agent
	t     testing.TB
	base  string
	caddy *sidecar.Process
}

// newPlace starts a sidecar whose hermes has the options, lines of a Caddyfile.
func newPlace(t testing.TB, options ...string) *place {
	t.Helper()
	agent := hermes.New(t, 0)
	return inFront(t, agent, "hermes {\n"+strings.Join(options, "\n")+"\n}\nreverse_proxy "+agent.Addr)
}

// inFront starts a sidecar with the directives in front of the agent.
func inFront(t testing.TB, agent *hermes.Agent, directives string, env ...string) *place {
	t.Helper()
	base, caddy := sidecar.ServeCaddyfile(t, "metrics /metrics\n"+directives, env...)
	return &place{agent, t, base, caddy}
}

// ask asks a question.
func (p *place) ask(prompt string, header ...string) *client.Reply {
	p.t.Helper()
	return p.askAt("/v1/chat/completions", prompt, header...)
}

func (p *place) askAt(path, prompt string, header ...string) *client.Reply {
	p.t.Helper()
	body := fmt.Sprintf(`{"model": "hermes-agent", "stream": true, "messages": [{"role": "user", "content": %s}]}`, hermes.ASCII(prompt))
	return client.New(p.t, p.base).Send("POST", path, strings.NewReader(body), append([]string{"Content-Type", "application/json", "Authorization", "Bearer key"}, header...)...)
}

// metric returns how many questions have had the outcome.
func (p *place) metric(outcome string) float64 {
	p.t.Helper()
	return metrics.Scrape(p.t, p.base+"/metrics").Value("caddy_hermes_tool_details_total", "outcome", outcome)
}

// answer has the agent use a tool, which ends when its start has been read, and returns the answer to the
// question go.
func (p *place) answer(path string, header ...string) *strict.Answer {
	p.t.Helper()
	read := make(chan struct{})
	slow := use
	slow.Until = read
	p.On("go", hermes.Says("before"), hermes.Uses(slow), hermes.Says("done"))
	r, began := p.askAt(path, "go", header...), ""
	for !strings.Contains(began, "running") {
		began += r.Frame().Raw
	}
	close(read)
	return strict.Decode(p.t, began+r.All())
}

// told is what the events of an answer say of its tools, a line for each.
func told(a *strict.Answer) string {
	var b strings.Builder
	for _, e := range a.Events {
		if e.Chunk == nil || e.Status == "" {
			continue
		}
		fmt.Fprintf(&b, "%s %s %s", e.ToolCallID, e.Status, e.Args)
		if e.Result != nil {
			fmt.Fprintf(&b, " %s", *e.Result)
		}
		if e.Failed {
			b.WriteString(" failed")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// quick is how long an answer may take and yet have all details. A stream that has waited longer does not ask (contract
// section 8).
const quick = 150 * time.Millisecond

// want wants that an answer tells of the tools so, and returns the place that ask has asked. It asks another place if
// the answer does not and was not quick: a busy machine may have kept the agent from telling the details in time, and
// after that a sidecar asks less.
func want(t testing.TB, start func() *place, ask func(*place) *strict.Answer, lines ...string) (p *place) {
	t.Helper()
	harness.Until(t, "details come in time", func() bool {
		t.Helper()
		p = start()
		began := time.Now()
		a := ask(p)
		isQuick := time.Since(began) < quick
		a.CheckGood(t)
		got, want := told(a), strings.Join(lines, "\n")+"\n"
		if got != want && isQuick {
			t.Fatalf("the tools are told of as\n%s want\n%s", got, want)
		}
		return got == want
	})
	return p
}

// asksToGo asks go.
func asksToGo(p *place) *strict.Answer { return p.ask("go").Answer() }

// use is a tool that runs alone.
var use = hermes.Call{ID: "call_1", Name: "terminal", Label: "ls", Args: `{"command": "ls -la"}`, Result: `{"output": "one", "exit_code": 0, "error": null}`}

// TestDetailsOfHermesVersions: the arguments are there when a tool starts and the result when it ends, whatever
// the version; without sessions everything is as before, which the log and the metrics say.
func TestDetailsOfHermesVersions(t *testing.T) {
	t.Parallel()
	bad := hermes.Call{ID: "call_2", Name: "read_file", Args: `{"path": "a"}`, Result: `{"error": "not there"}`}
	for _, version := range []string{"", "0.19"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			start := func() *place {
				p := newPlace(t)
				p.Version = version
				p.On("go", hermes.Uses(use), hermes.Says("and"), hermes.Uses(bad), hermes.Says("done"))
				return p
			}
			want(t, start, asksToGo, `call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"} `+use.Result,
				`call_2 running {"path":"a"}`, `call_2 completed {"path":"a"} {"error": "not there"} failed`)
		})
	}
	t.Run("0.13", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.Version = "0.13"
		p.On("go", hermes.Uses(use), hermes.Says("done"))
		same := func() *place { return p }
		harness.Until(t, "Hermes refuses a question, and is in time", func() bool {
			want(t, same, asksToGo, "call_1 running ", "call_1 completed ")
			return p.metric("refused") == 1
		})
		want(t, same, asksToGo, "call_1 running ", "call_1 completed ")
		const warning = "upstream does not report the arguments and results of tools"
		warned := p.caddy.Await(warning)
		if refused, log := p.metric("refused"), p.caddy.Log.String(); !warned || refused != 1 || strings.Count(log, warning) != 1 {
			t.Errorf("%v questions were refused, and the log is\n%s", refused, log)
		}
	})
}

// TestDetailsAreAskedForInTheClientsName: with its key, below its prefix, at its session, for as many rows as a
// turn has; and what is asked does not reach logs.
func TestDetailsAreAskedForInTheClientsName(t *testing.T) {
	t.Parallel()
	ask := func(p *place) *strict.Answer {
		return p.answer("/p/work/v1/chat/completions?key=1", "X-Hermes-Session-Id", "mine")
	}
	p := want(t, func() *place { return newPlace(t) }, ask, `call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"} `+use.Result)
	question := hermes.SessionQuestion{Path: "/p/work/api/sessions/mine/messages", Query: "limit=64&order=latest&key=1", Key: "Bearer key"}
	if got := p.SessionQuestions(); !slices.Equal(got, []hermes.SessionQuestion{question, question}) {
		t.Errorf("asked %+v, want two of %+v", got, question)
	}
	if got := p.metric("answered"); got != 2 {
		t.Errorf("%v questions were answered", got)
	}
	if log := p.caddy.Log.String(); strings.Contains(log, "ls -la") || strings.Contains(log, "exit_code") {
		t.Error("the log has details")
	}
}

// TestOptionToolDetails: what the option says.
func TestOptionToolDetails(t *testing.T) {
	t.Parallel()
	for option, c := range map[string]struct {
		asked int
		lines []string
	}{
		"tool_details full":      {2, []string{`call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"} ` + use.Result}},
		"tool_details arguments": {1, []string{`call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"}`}},
		"tool_details off":       {0, []string{"call_1 running ", "call_1 completed "}},
	} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			ask := func(p *place) *strict.Answer { return p.answer("/v1/chat/completions") }
			p := want(t, func() *place { return newPlace(t, option) }, ask, c.lines...)
			if n := len(p.SessionQuestions()); n != c.asked {
				t.Errorf("%d questions, want %d", n, c.asked)
			}
		})
	}
}
