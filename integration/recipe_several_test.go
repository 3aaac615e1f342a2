package integration

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A member is an upstream with a health check, which says in each answer who it is.
type member struct {
	*upstream
	name string
	ill  atomic.Bool
}

func newMember(t testing.TB, name string, scripts router) *member {
	a := &member{name: name}
	a.upstream = newUpstream(t, func(x *exchange) {
		switch {
		case x.req.URL.Path != "/health":
			scripts.play(x)
		case a.ill.Load():
			asJSON("503 Service Unavailable", `{"status": "ill"}`)(x)
		default:
			asJSON("200 OK", `{"status": "ok", "platform": "hermes-agent", "version": "0.20.3"}`)(x)
		}
	})
	return a
}

// asked are the requests that were not for its health.
func (a *member) asked() (n int) {
	for _, r := range a.requests() {
		if r.URL.Path != "/health" {
			n++
		}
	}
	return n
}

// A fleet is the recipe with three agents, asked for their health at an interval.
type fleet struct {
	*client
	t      testing.TB
	agents map[string]*member
}

func newFleet(t testing.TB, interval string, scripts func(name string) router) *fleet {
	f := &fleet{t: t, agents: map[string]*member{}}
	listen := freePort(t)
	// Without idle connections: a request on one that a dying agent is just closing
	// gets a 502, as the page says, and whether it does is a matter of luck.
	r := recipeOf(t, "several-agents").with(":8643", ":"+port(listen)).with("health_interval 5s", "health_interval "+interval).with("keepalive 4s", "keepalive off")
	for i, name := range []string{"a", "b", "c"} {
		f.agents[name] = newMember(t, name, scripts(name))
		r = r.with(fmt.Sprintf("10.0.0.%d:8642", 11+i), f.agents[name].addr)
	}
	r.caddy()
	f.client = newClient(t, "http://"+listen)
	return f
}

// whose is the agent that answers a session now.
func (f *fleet) whose(session string) string {
	f.t.Helper()
	r := f.play("plain", "X-Hermes-Session-Id", session)
	r.answer().checkGood(f.t)
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
	for deadline := time.Now().Add(patience); ; {
		if got := f.whose(session); right(got) {
			return
		} else if time.Now().After(deadline) {
			f.t.Fatalf("%s is still answered by %s", session, got)
		}
	}
}

// saying is a script that says who it is.
func saying(name string, r recording) script {
	r.header = strings.Replace(r.header, "\r\n", "\r\nX-Agent: "+name+"\r\n", 1)
	return replay(r, byFrame)
}

func TestRecipeSeveralAgents(t *testing.T) {
	plain, tools := recorded(t, "g0-v0.8.0/plain"), recorded(t, "g0-v0.8.0/parallel_tools")
	f := newFleet(t, "100ms", func(name string) router {
		return router{
			"plain": saying(name, plain), "tools": saying(name, tools),
			"begin": func(x *exchange) {
				x.events("X-Agent: " + name)
				x.frame(role)
				x.frame(delta("content", "hi"))
				x.frame(delta("content", "\n`💻 make`\n"))
				x.silence()
			},
			"shut": (*exchange).fin,
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

	// Whoever answers makes the same ids.
	bodies := map[string]string{}
	for id, name := range owners {
		if bodies[name] == "" {
			bodies[name] = f.play("tools", "X-Hermes-Session-Id", id).all()
		}
	}
	if bodies["a"] != bodies["b"] || bodies["b"] != bodies["c"] || !strings.Contains(bodies["a"], `"toolCallId":"call_`) {
		t.Errorf("answers differ: %q", bodies)
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
	live := f.play("begin", "X-Hermes-Session-Id", ofA)
	for range 3 {
		live.frame()
	}
	f.agents["a"].close()
	end := decode(t, live.all())
	if end.finish != "error" || end.err == nil || end.err.Code != "upstream_aborted" || !end.done || end.names()[0] != "completed" {
		t.Errorf("frames %v, error %+v", end.names(), end.err)
	}
	if got := f.whose(ofA); got == "a" || got == "" {
		t.Errorf("the next request is answered by %q", got)
	}

	// An agent that has read the request is not asked twice, and no other is.
	b, c := f.agents["b"].asked(), f.agents["c"].asked()
	r := f.play("shut", "X-Hermes-Session-Id", ofB)
	if e := checkJSON(t, r, http.StatusBadGateway, f.agents["b"].addr); e.Code != "upstream_aborted" {
		t.Errorf("code %q", e.Code)
	}
	if nb, nc := f.agents["b"].asked()-b, f.agents["c"].asked()-c; nb != 1 || nc != 0 {
		t.Errorf("b was asked %d times, c %d times", nb, nc)
	}
	if got := f.whose(ofB); got != "c" {
		t.Errorf("the next request is answered by %q, want c: b has failed", got)
	}

	// Nobody is left.
	f.agents["c"].close()
	r = f.play("plain", "X-Hermes-Session-Id", ofB)
	for deadline := time.Now().Add(patience); r.StatusCode != http.StatusServiceUnavailable && time.Now().Before(deadline); {
		r.all()
		r = f.play("plain", "X-Hermes-Session-Id", ofB)
	}
	checkJSON(t, r, http.StatusServiceUnavailable, f.agents["c"].addr)
}

// Requests without a session go to whoever is free, whole, also when the first
// choice cannot be reached.
func TestRecipeSeveralAgentsWithoutASession(t *testing.T) {
	plain := recorded(t, "g0-v0.8.0/plain")
	rest := make(chan struct{})
	f := newFleet(t, "1h", func(name string) router {
		return router{"plain": saying(name, plain), "hold": func(x *exchange) {
			if string(x.body) != question {
				t.Errorf("%s got %q", name, x.body)
			}
			x.events("X-Agent: " + name)
			x.frame(role)
			x.wait(rest)
			x.frame(delta("content", "hi"))
			x.finish()
		}}
	})
	f.agents["a"].close() // no health check sees it
	var live []*reply
	used := map[string]int{}
	for range 4 {
		r := f.play("hold")
		live = append(live, r)
		used[r.Header.Get("X-Agent")]++
	}
	if used["b"] != 2 || used["c"] != 2 {
		t.Errorf("open streams of each agent: %v", used)
	}
	close(rest)
	for _, r := range live {
		decode(t, r.all()).checkGood(t)
	}
}

// What an agent has reported is known of that agent alone.
func TestRecipeSeveralAgentsAndTheirUsage(t *testing.T) {
	f := newFleet(t, "1h", func(name string) router {
		return router{
			"plain": saying(name, recorded(t, "g0-v0.8.0/plain")),
			"zero": func(x *exchange) {
				x.events("X-Agent: " + name)
				for _, l := range []string{role, delta("content", "hi"), finish("stop", 0), "data: [DONE]"} {
					x.frame(l)
				}
				x.end()
			},
		}
	})
	const first = "session-0"
	knows := f.whose(first)
	for i := 1; ; i++ {
		id := "session-" + strconv.Itoa(i)
		r := f.play("zero", "X-Hermes-Session-Id", id)
		if r.Header.Get("X-Agent") == knows {
			r.answer().checkError(t, "agent_crashed")
			f.whose(first) // reports usage: after three answers without, it would be forgotten
			continue
		}
		r.answer().checkGood(t)
		break
	}
	f.play("zero", "X-Hermes-Session-Id", first).answer().checkError(t, "agent_crashed")
}
