package recipes

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A member is an upstream with a health check, which says in each answer who it is.
type member struct {
	*upstream.Server
	name string
	ill  atomic.Bool
}

func newMember(t testing.TB, name string, scripts upstream.Router) *member {
	a := &member{name: name}
	a.Server = upstream.New(t, func(x *upstream.Exchange) {
		switch {
		case x.Req.URL.Path != "/health":
			scripts.Play(x)
		case a.ill.Load():
			upstream.AsJSON("503 Service Unavailable", `{"status": "ill"}`)(x)
		default:
			upstream.AsJSON("200 OK", `{"status": "ok", "platform": "hermes-agent", "version": "0.20.3"}`)(x)
		}
	})
	return a
}

// asked are the requests that were not for its health.
func (a *member) asked() (n int) {
	for _, r := range a.Requests() {
		if r.URL.Path != "/health" {
			n++
		}
	}
	return n
}

// A fleet is the recipe with three agents, asked for their health at an interval.
type fleet struct {
	*client.Client
	t      testing.TB
	agents map[string]*member
}

func newFleet(t testing.TB, interval string, scripts func(name string) upstream.Router) *fleet {
	f := &fleet{t: t, agents: map[string]*member{}}
	listen := harness.FreePort(t)
	// Without idle connections: a request on one that a dying agent is just closing
	// gets a 502, as the page says, and whether it does is a matter of luck.
	r := recipeOf(t, "several-agents").With(":8643", ":"+harness.Port(listen)).With("health_interval 5s", "health_interval "+interval).With("keepalive 4s", "keepalive off")
	for i, name := range []string{"a", "b", "c"} {
		f.agents[name] = newMember(t, name, scripts(name))
		r = r.With(fmt.Sprintf("10.0.0.%d:8642", 11+i), f.agents[name].Addr)
	}
	r.Caddy()
	f.Client = client.New(t, "http://"+listen)
	return f
}

// whose is the agent that answers a session now.
func (f *fleet) whose(session string) string {
	f.t.Helper()
	r := f.Play("plain", "X-Hermes-Session-Id", session)
	r.Answer().CheckGood(f.t)
	return r.Header.Get("X-Agent")
}

// owners are the agents of so many sessions.
func (f *fleet) owners(n int) map[string]string {
	f.t.Helper()
	all := map[string]string{}
	for i := range n {
		id := "session-" + strconv.Itoa(i)
		all[id] = f.whose(id)
	}
	return all
}

// until asks for a session until it is answered by the right agent.
func (f *fleet) until(session string, right func(agent string) bool) {
	f.t.Helper()
	harness.Until(f.t, session+" has moved", func() bool { return right(f.whose(session)) })
}

// saying is a script that says who it is.
func saying(name string, r hermes.Recording) upstream.Script {
	r.Header = strings.Replace(r.Header, "\r\n", "\r\nX-Agent: "+name+"\r\n", 1)
	return upstream.Replay(r, upstream.ByFrame)
}

func TestRecipeSeveralAgents(t *testing.T) {
	plain := hermes.Recorded(t, "g0-v0.8.0/plain")
	f := newFleet(t, "100ms", func(name string) upstream.Router {
		return upstream.Router{
			"plain": saying(name, plain),
			"begin": func(x *upstream.Exchange) {
				x.Events("X-Agent: " + name)
				x.Frame(hermes.Role)
				x.Frame(hermes.Delta("content", "hi"))
				x.Frame(hermes.Delta("content", "\n`💻 make`\n"))
				x.Silence()
			},
			"shut": (*upstream.Exchange).Fin,
		}
	})

	// Each session stays, and they are shared out.
	const sessions = 40
	owners := f.owners(sessions)
	used := map[string]int{}
	for _, name := range owners {
		used[name]++
	}
	if len(used) != 3 {
		t.Errorf("sessions of each agent: %v", used)
	}
	if again := f.owners(sessions); !maps.Equal(again, owners) {
		t.Errorf("sessions have moved: %v, were %v", again, owners)
	}

	// A session without its agent goes to another one, and back.
	var ofA, ofB string
	for id, name := range owners {
		switch name {
		case "a":
			ofA = id
		case "b":
			ofB = id
		}
	}
	f.agents["a"].ill.Store(true)
	f.until(ofA, func(agent string) bool { return agent != "a" })
	if got := f.whose(ofB); got != "b" {
		t.Errorf("a session of b's is answered by %s", got)
	}
	f.agents["a"].ill.Store(false)
	f.until(ofA, func(agent string) bool { return agent == "a" })

	// An agent dies in the middle of an answer.
	live := f.Play("begin", "X-Hermes-Session-Id", ofA)
	for range 3 {
		live.Frame()
	}
	f.agents["a"].Close()
	end := strict.Decode(t, live.All())
	if end.Finish != "error" || end.Err == nil || end.Err.Code != "upstream_aborted" || !end.Done || end.Names()[0] != "completed" {
		t.Errorf("frames %v, error %+v", end.Names(), end.Err)
	}
	if got := f.whose(ofA); got == "a" || got == "" {
		t.Errorf("the next request is answered by %q", got)
	}

	// An agent that has read the request is not asked twice, and no other is.
	b, c := f.agents["b"].asked(), f.agents["c"].asked()
	r := f.Play("shut", "X-Hermes-Session-Id", ofB)
	if e := client.CheckJSON(t, r, http.StatusBadGateway, f.agents["b"].Addr); e.Code != "upstream_aborted" {
		t.Errorf("code %q", e.Code)
	}
	if nb, nc := f.agents["b"].asked()-b, f.agents["c"].asked()-c; nb != 1 || nc != 0 {
		t.Errorf("b was asked %d times, c %d times", nb, nc)
	}
	if got := f.whose(ofB); got != "c" {
		t.Errorf("the next request is answered by %q, want c: b has failed", got)
	}

	// No agent is left.
	f.agents["c"].Close()
	r = f.Play("plain", "X-Hermes-Session-Id", ofB)
	harness.Until(t, "no agent is asked", func() bool {
		if r.StatusCode == http.StatusServiceUnavailable {
			return true
		}
		r.All()
		r = f.Play("plain", "X-Hermes-Session-Id", ofB)
		return false
	})
	client.CheckJSON(t, r, http.StatusServiceUnavailable, f.agents["c"].Addr)
}

// Requests without a session go to an agent that is free, whole, also when the first
// choice cannot be reached.
func TestRecipeSeveralAgentsWithoutASession(t *testing.T) {
	plain := hermes.Recorded(t, "g0-v0.8.0/plain")
	rest := make(chan struct{})
	f := newFleet(t, "1h", func(name string) upstream.Router {
		return upstream.Router{"plain": saying(name, plain), "hold": func(x *upstream.Exchange) {
			if string(x.Body) != client.Question {
				t.Errorf("%s got %q", name, x.Body)
			}
			x.Events("X-Agent: " + name)
			x.Frame(hermes.Role)
			x.Wait(rest)
			x.Frame(hermes.Delta("content", "hi"))
			x.Finish()
		}}
	})
	f.agents["a"].Close() // no health check sees it
	var live []*client.Reply
	used := map[string]int{}
	for range 4 {
		r := f.Play("hold")
		live = append(live, r)
		used[r.Header.Get("X-Agent")]++
	}
	if used["b"] != 2 || used["c"] != 2 {
		t.Errorf("open streams of each agent: %v", used)
	}
	close(rest)
	for _, r := range live {
		strict.Decode(t, r.All()).CheckGood(t)
	}
}
