package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// hermesRuns is the cap of the real Hermes in TestRealQueue.
const hermesRuns = 2

// TestRealQueue has openai-python ask a real Hermes that admits two runs at once, through
// hermes_queue: each request is answered, and none sees Hermes' refusal.
func TestRealQueue(t *testing.T) {
	program, version := installHermes(t)
	q := &queueLab{&hermesLab{t: t, model: newScriptedModel(t, map[string][]modelTurn{lasting: {{says: []string{"It is ", "done."}, ends: lasts}}})}}
	q.gateway = newGateway(t, program, q.model.up.Addr, 15, hermesRuns)
	q.driver = startPython(t)
	q.bare = "http://" + q.listen
	t.Logf("hermes-agent %s, openai-python %s", version, q.driver.version)
	t.Run("a run", q.run)
	t.Run("a run whose events are read", q.runRead)
	t.Run("a refusal", q.refused)
}

// lasting is the first word of questions whose answers last until the test ends them.
const lasting = "Lasting"

// A queueLab is a real Hermes with a small cap. Each of its tests has a sidecar of its own, so that
// no line has another's requests.
type queueLab struct{ *hermesLab }

// serve starts a sidecar that lets so many runs at once to Hermes, for clients with keys of their own.
func (q *queueLab) serve(t testing.TB, runs int) (base string) {
	base, _ = sidecar.ServeCaddyfile(t, fmt.Sprintf("hermes_queue {\n\t\truns %d\n\t\twait 10m\n\t}\n\thermes\n\treverse_proxy %s {\n\t\theader_up Authorization %q\n\t}",
		runs, q.listen, "Bearer "+hermesKey))
	return base
}

// A waiter is a request of openai-python.
type waiter struct {
	*tap
	question string
	got      chan seen
}

// ask has openai-python ask with a key, in the way that more says.
func (q *queueLab) ask(t testing.TB, base, key string, more ...string) *waiter {
	q.asked++
	w := &waiter{newTap(t, base), fmt.Sprintf("%s %s %d", lasting, key, q.asked), make(chan seen, 1)}
	c := map[string]any{"base_url": w.url + "/v1", "prompt": w.question, "api_key": key}
	for _, name := range more {
		c[name] = true
	}
	go func() { w.got <- q.driver.send(c, harness.Patience) }()
	return w
}

// waits returns when the program has been told that it waits.
func (w *waiter) waits(t testing.TB) {
	t.Helper()
	harness.Until(t, w.question+" waits", func() bool { return w.says("200", "Waiting in line: ") })
}

// check wants that the program gets the answer to its only request.
func (w *waiter) check(t testing.TB) {
	t.Helper()
	if got := <-w.got; got.Error != nil || got.hung || got.Text != "It is done." || w.posts() != 1 {
		t.Errorf("%s: %d requests, and openai-python sees %+v %+v", w.question, w.posts(), got, got.Error)
	}
}

// run has a run hold its place until it has ended, though nobody asks for it.
func (q *queueLab) run(t *testing.T) { q.holds(t, func(string, string) {}) }

// runRead has its events read.
func (q *queueLab) runRead(t *testing.T) {
	q.holds(t, func(base, id string) {
		w := q.get(t, base+"/v1/runs/"+id+"/events")
		t.Cleanup(w.leave)
		go w.rest()
	})
}

// holds has a chat wait until a run has ended.
func (q *queueLab) holds(t *testing.T, read func(base, id string)) {
	base, first := q.serve(t, 1), len(q.model.awaitOrder(t, 0))
	q.asked++
	question := fmt.Sprintf("%s run %d", lasting, q.asked)
	id, ok := q.hermesLab.run(t, base, question)
	if !ok {
		t.Skip("this Hermes has no runs")
	}
	q.model.awaitOrder(t, first+1)
	read(base, id)
	w := q.ask(t, base, "ann")
	w.waits(t)
	if n := q.model.asks(w.question); n != 0 {
		t.Errorf("the chat has come to the agent beside the run")
	}
	q.model.end(question)
	q.model.awaitOrder(t, first+2)
	q.model.end(w.question)
	w.check(t)
	var status struct{ Status string }
	if !q.get(t, base+"/v1/runs/"+id).json(&status) || status.Status != "completed" {
		t.Errorf("the run is %q", status.Status)
	}
}

// refused has the sidecar let more runs through than Hermes admits: what Hermes refuses waits in line
// again.
func (q *queueLab) refused(t *testing.T) {
	base, first := q.serve(t, hermesRuns+1), len(q.model.awaitOrder(t, 0))
	var all []*waiter
	for n := range hermesRuns {
		all = append(all, q.ask(t, base, "ann"))
		q.model.awaitOrder(t, first+n+1)
	}
	w := q.post(t, q.bare+"/v1/chat/completions", `{"messages": [{"role": "user", "content": `+hermes.Quoted("Hello")+`}]}`)
	said := w.rest()
	if w.StatusCode == http.StatusOK {
		for _, w := range all {
			q.model.end(w.question)
		}
		t.Skip("this Hermes has no cap of chats")
	}
	if w.StatusCode != http.StatusTooManyRequests || w.Header.Get("Retry-After") != "1" || !strings.Contains(said, `"rate_limit_exceeded"`) {
		t.Errorf("Hermes' refusal is %s, %v: %s", w.Status, w.Header, said)
	}
	last := q.ask(t, base, "ben")
	last.waits(t)
	for n, w := range append(all, last) {
		q.model.awaitOrder(t, first+min(n+hermesRuns, len(all)+1))
		q.model.end(w.question)
	}
	for _, w := range append(all, last) {
		w.check(t)
	}
}
