package recipes

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A session stays with its agent, unless that is ill or has died. Other requests go to an agent that is free, whole,
// also when the first choice cannot be reached. What clients are told if there is none: package network.
func TestRecipeSeveralAgents(t *testing.T) {
	rest, ill := make(chan struct{}), new(atomic.Bool) // a is
	agents := map[string]*upstream.Server{}
	listen := harness.FreePort(t)
	// Without idle connections: a request on one that a dying agent is just closing
	// gets a 502, as the page says, and whether it does is a matter of luck.
	r := recipeOf(t, "several-agents").With(":8643", ":"+harness.Port(listen)).With("health_interval 5s", "health_interval 100ms").With("keepalive 4s", "keepalive off")
	for i, name := range []string{"a", "b", "c"} {
		agents[name] = upstream.New(t, func(x *upstream.Exchange) {
			switch {
			case x.Req.Header.Get("X-Play") == "shut":
				x.Fin()
			case x.Req.URL.Path != "/health":
				if string(x.Body) != client.Question {
					t.Errorf("%s got %q", name, x.Body)
				}
				x.Events("X-Agent: " + name)
				x.Frame(hermes.Role)
				if x.Req.Header.Get("X-Play") != "held" || x.Wait(rest) {
					x.Text("hi")
					x.Finish()
				}
			case name == "a" && ill.Load():
				upstream.AsJSON("503 Service Unavailable", `{"status": "ill"}`)(x)
			default:
				upstream.AsJSON("200 OK", `{"status": "ok", "platform": "hermes-agent", "version": "0.20.3"}`)(x)
			}
		})
		r = r.With(fmt.Sprintf("10.0.0.%d:8642", 11+i), agents[name].Addr)
	}
	r.Caddy()
	c := client.New(t, "http://"+listen)
	whose := func(session string) string {
		t.Helper()
		r := c.Chat("X-Hermes-Session-Id", session)
		r.Answer().CheckGood(t)
		return r.Header.Get("X-Agent")
	}

	owners := func() map[string]string {
		all := map[string]string{}
		for i := range 40 {
			id := "session-" + strconv.Itoa(i)
			all[id] = whose(id)
		}
		return all
	}
	first := owners()
	of := map[string]string{} // a session of each agent
	for id, name := range first {
		of[name] = id
	}
	if again := owners(); len(of) != 3 || !maps.Equal(again, first) {
		t.Fatalf("the sessions are those of %v, and were those of %v", again, first)
	}
	ill.Store(true)
	harness.Until(t, "the session has moved", func() bool { return whose(of["a"]) != "a" })
	if got := whose(of["b"]); got != "b" {
		t.Errorf("a session of b's is answered by %s", got)
	}
	ill.Store(false)
	harness.Until(t, "the session is back", func() bool { return whose(of["a"]) == "a" })

	live := c.Play("held", "X-Hermes-Session-Id", of["a"])
	live.Frame()
	agents["a"].Close()
	live.Answer().CheckError(t, "upstream_aborted")
	if got := whose(of["a"]); got == "a" || got == "" {
		t.Errorf("the next request is answered by %q", got)
	}
	var held []*client.Reply
	used := map[string]int{}
	for range 4 {
		r := c.Play("held")
		held = append(held, r)
		used[r.Header.Get("X-Agent")]++
	}
	if used["b"] != 2 || used["c"] != 2 {
		t.Errorf("open streams of each agent: %v", used)
	}
	close(rest)
	for _, r := range held {
		r.Answer().CheckGood(t)
	}
	// One that has read a request may be running: no other is asked.
	if e := client.CheckJSON(t, c.Play("shut", "X-Hermes-Session-Id", of["b"]), http.StatusBadGateway, agents["b"].Addr); e.Code != "upstream_aborted" {
		t.Errorf("code %q", e.Code)
	}
}
