// Package details tests what tool events tell of tools, against the scripted agent: what it has stored of its
// turns (contract section 8).
package details

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
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
	listen, admin := harness.FreePort(t), harness.FreePort(t)
	text := "{\n\tadmin " + admin + "\n\tmetrics\n}\n" + sidecar.OnLoopback(listen) + "\n" + directives + "\n}\n"
	caddy := sidecar.RunCaddyfile(t, t.TempDir(), text, env...)
	caddy.Admin = admin
	return &place{agent, t, "http://" + listen, caddy}
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
func (p *place) metric(outcome string) string {
	p.t.Helper()
	_, body := client.Get(p.t, http.DefaultClient, "http://"+p.caddy.Admin+"/metrics")
	for line := range strings.Lines(body) {
		if n, ok := strings.CutPrefix(line, `caddy_hermes_tool_details_total{outcome="`+outcome+`"} `); ok {
			return strings.TrimSpace(n)
		}
	}
	return "none"
}

// inSteps has the agent use one tool after the other, each of which ends when its start has been read. It
// returns the answer to the question go.
func (p *place) inSteps(calls []hermes.Call, header ...string) *strict.Answer {
	p.t.Helper()
	read := make(chan struct{}, 1)
	var steps []hermes.Step
	for _, c := range calls {
		c.Until = read
		steps = append(steps, hermes.Uses(c), hermes.Waits(read))
	}
	p.On("go", append(steps, hermes.Says("done"))...)
	r, all := p.ask("go", header...), ""
	for {
		e, err := r.Next()
		all += e.Raw
		if err != nil {
			return strict.Decode(p.t, all)
		}
		if e.Chunk != nil && e.Status != "" {
			read <- struct{}{}
		}
	}
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

// want wants an answer whose tools are told of so.
func want(t testing.TB, a *strict.Answer, lines ...string) {
	t.Helper()
	a.CheckGood(t)
	if got, want := told(a), strings.Join(lines, "\n")+"\n"; got != want {
		t.Errorf("the tools are told of as\n%s want\n%s", got, want)
	}
}

// use is a tool that runs alone.
var use = hermes.Call{ID: "call_1", Name: "terminal", Label: "ls", Args: `{"command": "ls -la"}`, Result: `{"output": "one", "exit_code": 0, "error": null}`}

// TestDetailsOfHermesVersions: the arguments are there when a tool starts and the result when it ends, whatever
// the version; without sessions everything is as before.
func TestDetailsOfHermesVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "0.19", "0.13"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.Version = version
			bad := hermes.Call{ID: "call_2", Name: "read_file", Args: `{"path": "a"}`, Result: `{"error": "not there"}`}
			p.On("go", hermes.Uses(use), hermes.Says("and"), hermes.Uses(bad), hermes.Says("done"))
			for range 2 { // the rows of the first turn are there in the second
				a := p.ask("go").Answer()
				if version == "0.13" {
					want(t, a, "call_1 running ", "call_1 completed ", "call_2 running ", "call_2 completed ")
					continue
				}
				want(t, a, `call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"} `+use.Result,
					`call_2 running {"path":"a"}`, `call_2 completed {"path":"a"} {"error": "not there"} failed`)
				break // with the same ids in both turns, nobody could tell the calls apart before they are stored
			}
		})
	}
}

// TestHermesThatStoresLate: what Hermes stores just after the event is asked for twice, and is in the event.
func TestHermesThatStoresLate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var asked atomic.Int32
	p.AnswerSessions(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%2 == 0 {
			p.TellSession(w, r)
			return
		}
		id := strings.Split(r.URL.Path, "/")[3]
		hermes.Replies(200, "application/json", `{"object": "list", "session_id": "`+id+`", "data": []}`)(w, r)
	})
	want(t, p.inSteps([]hermes.Call{use}), `call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"} `+use.Result)
	if n := asked.Load(); n != 4 {
		t.Errorf("%d questions, want 4", n)
	}
}

// TestDetailsAreAskedForInTheClientsName: with its key, below its prefix, at its session, for as many rows as a
// turn has; and what is asked does not reach logs.
func TestDetailsAreAskedForInTheClientsName(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	read := make(chan struct{}, 1)
	slow := use
	slow.Until = read
	p.On("go", hermes.Says("before"), hermes.Uses(slow), hermes.Says("done"))
	r := p.askAt("/p/work/v1/chat/completions?key=1", "go", "X-Hermes-Session-Id", "mine")
	began := ""
	for !strings.Contains(began, "running") {
		began += r.Frame().Raw
	}
	close(read)
	want(t, strict.Decode(t, began+r.All()), `call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"} `+use.Result)
	for _, q := range p.SessionQuestions() {
		if q != (hermes.SessionQuestion{Path: "/p/work/api/sessions/mine/messages", Query: "limit=64&order=latest&key=1", Key: "Bearer key"}) {
			t.Errorf("asked %+v", q)
		}
	}
	if n := len(p.SessionQuestions()); n != 2 {
		t.Errorf("%d questions, want 2", n)
	}
	if got := p.metric("answered"); got != "2" {
		t.Errorf("%s questions were answered", got)
	}
	if log := p.caddy.Log.String(); strings.Contains(log, "ls -la") || strings.Contains(log, "exit_code") {
		t.Error("the log has details")
	}
}

// TestParallelTools: one answer serves all tools whose details it has.
func TestParallelTools(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	calls, lines := []hermes.Call{}, []string{}
	for i := range 8 {
		calls = append(calls, hermes.Call{ID: fmt.Sprint("call_", i), Name: "read_file", Args: fmt.Sprintf(`{"n":%d}`, i), Result: fmt.Sprint("result ", i)})
		lines = append(lines, fmt.Sprintf(`call_%d running {"n":%[1]d}`, i))
	}
	for i := range 8 {
		lines = append(lines, fmt.Sprintf(`call_%d completed {"n":%[1]d} result %[1]d`, i))
	}
	p.On("go", hermes.Uses(calls...), hermes.Says("done"))
	want(t, p.ask("go").Answer(), lines...)
	if n := len(p.SessionQuestions()); n > 9 {
		t.Errorf("%d questions for 8 tools", n)
	}
}

// TestIDsThatComeAgain: llama.cpp gives every call one id. Each tool has the details of its own call.
func TestIDsThatComeAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	call := func(name, label, result string) hermes.Call {
		return hermes.Call{ID: "call", Name: name, Label: label, Args: fmt.Sprintf(`{"command":%q}`, label), Result: result}
	}
	p.On("go", hermes.Uses(call("terminal", "ls /a", "one")), hermes.Uses(call("read_file", "b", "two")), hermes.Uses(call("terminal", "ls /c", "three")),
		hermes.Uses(call("terminal", "ls /d", "four"), call("terminal", "ls /e", "five")), hermes.Says("done"))
	for range 2 {
		a := p.ask("go").Answer()
		var got []string
		for _, e := range a.Events {
			if e.Chunk != nil && e.Status == "completed" && e.Result != nil {
				got = append(got, string(e.Args)+*e.Result)
			}
		}
		if fmt.Sprint(got) != `[{"command":"ls /a"}one {"command":"b"}two {"command":"ls /c"}three {"command":"ls /d"}four {"command":"ls /e"}five]` {
			t.Errorf("the results are %s", got)
		}
	}
}

// TestOptionToolDetails: what the option says.
func TestOptionToolDetails(t *testing.T) {
	t.Parallel()
	for option, lines := range map[string][]string{
		"tool_details full":      {`call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"} ` + use.Result},
		"tool_details arguments": {`call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"}`},
		"tool_details off":       {"call_1 running ", "call_1 completed "},
	} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, option)
			want(t, p.inSteps([]hermes.Call{use}), lines...)
			wantQuestions := map[int]int{2: 2}[len(lines)]
			switch option {
			case "tool_details arguments":
				wantQuestions = 1
			case "tool_details off":
				wantQuestions = 0
			}
			if n := len(p.SessionQuestions()); n != wantQuestions {
				t.Errorf("%d questions, want %d", n, wantQuestions)
			}
		})
	}
	p := newPlace(t)
	p.On("go", hermes.Uses(use), hermes.Says("done"))
	for _, form := range []string{"bare", "comment", "off"} {
		body := p.ask("go", "X-Hermes-Tool-Progress", form).All()
		if strings.Contains(body, `"args"`) || len(p.SessionQuestions()) > 0 {
			t.Errorf("in the form %s details are asked for or told: %s", form, body)
		}
	}
}

// TestCardsHaveDetails: what Open WebUI draws and stores.
func TestCardsHaveDetails(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "cards on")
	bad := hermes.Call{ID: "call_2", Name: "terminal", Label: "false", Args: `{"command": "false"}`, Result: `{"output": "", "exit_code": 1, "error": null}`}
	p.On("go", hermes.Uses(use), hermes.Uses(bad), hermes.Says("done"))
	a := p.ask("go").Answer()
	items := map[string][]strict.Item{}
	for _, e := range a.Events {
		if e.Chunk != nil && e.Item != nil {
			items[e.Item.CallID+" "+e.Item.Type] = append(items[e.Item.CallID+" "+e.Item.Type], *e.Item)
		}
	}
	for id, text := range map[string]string{"call_1": use.Result, "call_2": "Error: failed\n{\n  \"output\": \"\",\n  \"exit_code\": 1,\n  \"error\": null\n}"} {
		calls, outputs := items[id+" function_call"], items[id+" function_call_output"]
		if len(calls) != 2 || len(outputs) != 1 || outputs[0].Output[0].Text != text || outputs[0].Status != calls[1].Status {
			t.Fatalf("%s: %+v, %+v", id, calls, outputs)
		}
		for _, c := range calls {
			var back struct {
				Label string
				Args  json.RawMessage
			}
			if json.Unmarshal([]byte(c.Provider.Arguments), &back) != nil || string(back.Args)+" " != c.Arguments || back.Label == "" {
				t.Errorf("%s: %+v", id, c)
			}
		}
	}
}
