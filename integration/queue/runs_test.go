package queue

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// begins begins a run that holds the only place, and another request that waits for it.
func (p *place) begins(prompt, key string) (id string, waits *pending) {
	p.t.Helper()
	run := p.ask(runs, key, prompt)
	run.good(runs)
	waits = p.ask(chat, "key-2", "after "+prompt)
	waits.says("you are next")
	return run.runID(), waits
}

func (p *place) get(path, key string) *pending {
	return p.send(http.MethodGet, path, "", path, "Authorization", "Bearer "+key)
}

// TestRoutesOfRuns: nobody tells of the end of a run, and the sidecar asks for its state or its events on the way that
// the client's request took.
func TestRoutesOfRuns(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]site{
		"other routes":                  {route: oneRun + "hermes\nhandle /v1/* {\nreverse_proxy AGENT\n}\nhandle {\nrespond 404\n}"},
		"upstream has other paths":      {route: oneRun + "hermes\nhandle /v1/* {\nrewrite * /agent{path}\nreverse_proxy AGENT\n}\nrespond 404"},
		"the one before a reload":       {queue: []string{"runs 1"}},
		"the agent has no state to say": {resume: "detach 10m", queue: []string{"runs 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := hermes.New(t, 10)
			a.Silent = s.resume != ""
			if strings.Contains(s.route, "/agent") {
				front := httptest.NewServer(http.StripPrefix("/agent", harness.ProxyTo(a.Addr)))
				t.Cleanup(front.Close)
				s.route = strings.ReplaceAll(s.route, "AGENT", front.Listener.Addr().String())
			}
			p := newPlaceOf(t, a, s)
			_, waits := p.begins("slow", "key-1")
			if strings.HasSuffix(name, "a reload") {
				s.hermes = []string{"max_frame 2MiB"}
				p.load(s)
				p.untilWaiting(1)
			}
			p.End("slow")
			if _, body := waits.ends(); !strings.Contains(body, "bye") || p.MostAtOnce() != 1 {
				t.Errorf("%d at once, answered %s", p.MostAtOnce(), body)
			}
		})
	}
}

// free wants all places to be free: so many go through at once, and one more waits, as long as the machine
// takes for that.
func (p *place) free(n int) {
	p.t.Helper()
	p.freed++
	if i := slices.IndexFunc(p.lines.queue, func(option string) bool { return strings.HasPrefix(option, "wait ") && option != "wait 1h" }); i >= 0 {
		p.lines.queue = slices.Delete(slices.Clone(p.lines.queue), i, i+1)
		p.load(p.lines)
	}
	var all []*pending
	last, end := "", make(chan struct{})
	for i := range n + 1 {
		last = fmt.Sprintf("free-%d-%d", p.freed, i)
		p.On(last, hermes.Waits(end), hermes.Says("bye"))
		all = append(all, p.ask(whole, fmt.Sprintf("key-free-%d", i), last))
		if i < n {
			p.Until(p.t, last)
		}
	}
	p.untilWaiting(1)
	if p.Has(last) {
		p.t.Errorf("more than %d run at once", n)
	}
	close(end)
	for _, q := range all {
		q.good(whole)
	}
}
