package queuecaddy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRequestsWait for their turn, which all that shows them says.
func TestRequestsWait(t *testing.T) {
	a := newAgent(t)
	s := newSite(t, "hermes_queue {\n runs 1\n }\n hermes_proxy "+a.address)
	before := s.metrics()
	one, _ := s.ask("one")
	first := a.next("one")
	two, _ := s.ask("two")
	s.waiting(1)
	gone, leave := s.ask("gone")
	s.waiting(2)
	a.none()

	// Two more are on their way in the metrics and lists.
	for name, want := range map[string]string{"waiting": "2", "running": "1"} {
		if got := s.metrics()[name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	var list struct {
		Waiting []struct {
			Path   string
			Since  time.Time
			Waited float64 `json:"waited_seconds"`
			Place  int
		}
	}
	text := s.get("/streams")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Waiting) != 2 {
		t.Fatal(err, text)
	}
	for i, w := range list.Waiting {
		if w.Path != "/v1/chat/completions" || w.Place != i+1 || w.Waited <= 0 || time.Since(w.Since) > patience {
			t.Errorf("waiting is %+v", w)
		}
	}

	leave()
	if r := <-gone; r.err == nil {
		t.Errorf("%+v", r)
	}
	s.waiting(1)
	first.end()
	s.want(one, 200, "hi")
	a.next("two").end()
	s.want(two, 200, "hi")
	s.waiting(0)
	for name, want := range map[string]int{
		`requests_total{outcome="admitted"}`: 2, `requests_total{outcome="left"}`: 1, `requests_total{outcome="full"}`: 0, `requests_total{outcome="timeout"}`: 0,
		"refused_total": 0, "wait_seconds_count": 2, `wait_seconds_bucket{le="300"}`: 2,
	} {
		was, err1 := strconv.Atoi(before[name])
		is, err2 := strconv.Atoi(s.metrics()[name])
		if err1 != nil || err2 != nil || is-was != want {
			t.Errorf("%s rose by %d, want %d, %v %v", name, is-was, want, err1, err2)
		}
	}
	var waited []string
	for _, l := range s.lines(s.access, 3, isPost) {
		seconds, has := l["hermes_waited"].(float64)
		waited = append(waited, fmt.Sprint(l["request"].(map[string]any)["headers"].(map[string]any)["Name"], has, seconds > 0))
	}
	if slices.Sort(waited); fmt.Sprint(waited) != "[[gone] true true [one] false false [two] true true]" {
		t.Errorf("%q", waited)
	}
}

// TestPlaceholder is for handlers that act after the answer.
func TestPlaceholder(t *testing.T) {
	a := newAgent(t)
	s := newSite(t, "log_append waited {http.hermes.waited}\n hermes_queue {\n runs 1\n }\n hermes_proxy "+a.address)
	one, _ := s.ask("one")
	first := a.next("one")
	two, _ := s.ask("two")
	s.waiting(1)
	first.end()
	s.want(one, 200)
	a.next("two").end()
	s.want(two, 200)
	for _, l := range s.lines(s.access, 2, isPost) {
		if seconds, has := l["hermes_waited"].(float64); has && l["waited"] != seconds {
			t.Errorf("%v, want %v", l["waited"], seconds)
		}
	}
}

// TestTurnsGoRound: a client is what `by` says, or its credentials.
func TestTurnsGoRound(t *testing.T) {
	for by, header := range map[string]string{"": "Authorization", "by {header.User}": "User"} {
		a := newAgent(t)
		s := newSite(t, "hermes_queue {\n runs 1\n "+by+"\n }\n hermes_proxy "+a.address)
		got := map[string]<-chan reply{}
		got["a1"], _ = s.ask("a1", header, "a")
		running := a.next("a1")
		for i, name := range []string{"a2", "a3", "b1", "b2", "c1"} {
			got[name], _ = s.ask(name, header, name[:1])
			s.waiting(i + 1)
		}
		now := "a1"
		for _, name := range []string{"b1", "c1", "a2", "b2", "a3"} {
			running.end()
			s.want(got[now], 200)
			running, now = a.next(name), name
			a.none()
		}
		running.end()
		s.want(got[now], 200)
	}
}

// TestRefusals: 429, in the log once a second at most.
func TestRefusals(t *testing.T) {
	a := newAgent(t)
	s := newSite(t, "hermes_queue {\n runs 1\n waiting 0\n }\n hermes_proxy "+a.address)
	one, _ := s.ask("one")
	first := a.next("one")
	for range 3 {
		got, _ := s.ask("two")
		if r := s.want(got, 429, `"code":"queue_full"`); r.header.Get("Retry-After") == "" {
			t.Errorf("%v", r.header)
		}
	}
	s.load("hermes_queue {\n runs 1\n wait 20ms\n }\n hermes_proxy " + a.address)
	got, _ := s.ask("two")
	s.want(got, 429, `"code":"queue_timeout"`)
	a.none()
	first.end()
	s.want(one, 200)
	full := s.lines(s.Log, 1, says("too many requests wait for the agent; refused one"))
	late := s.lines(s.Log, 1, says("a request has waited too long for the agent; refused it"))
	if len(full) > 3 || len(late) != 1 {
		t.Fatalf("%v, %v", full, late)
	}
	if l := late[0]; l["level"] != "info" || l["path"] != "/v1/chat/completions" || l["waited_seconds"].(float64) < .02 || l["waiting"] != 0. {
		t.Errorf("%v", l)
	}
	if l := full[0]; l["level"] != "info" || l["waited_seconds"] != 0. {
		t.Errorf("%v", l)
	}
}

// TestReload ends nothing: places are counted, those that wait go on waiting in their order, and
// new limits are theirs at once.
func TestReload(t *testing.T) {
	a := newAgent(t)
	of := func(runs int, more string) string {
		return fmt.Sprintf("hermes_queue {\n runs %d\n%s\n }\n hermes_proxy %s", runs, more, a.address)
	}
	s := newSite(t, of(1, ""))
	one, _ := s.ask("one")
	first := a.next("one")
	two, _ := s.ask("two")
	s.waiting(1)
	s.load(of(1, "wait 5m") + "\n header X-New yes")
	three, _ := s.ask("three")
	s.waiting(2)
	a.none()
	first.end()
	s.want(one, 200)
	second := a.next("two")
	a.none()
	s.load(of(2, ""))
	third := a.next("three")
	four, _ := s.ask("four")
	s.waiting(1)
	s.load("respond gone") // and back
	s.load(of(2, "wait 3m"))
	five, _ := s.ask("five")
	s.waiting(2)
	a.none()
	second.end()
	s.want(two, 200)
	fourth := a.next("four")
	third.end()
	s.want(three, 200)
	fifth := a.next("five")
	fourth.end()
	fifth.end()
	s.want(four, 200)
	s.want(five, 200)
}

// TestSitesOfOneBackend share its places, and a client of both is one.
func TestSitesOfOneBackend(t *testing.T) {
	a := newAgent(t)
	s := newSite(t, "handle /a/* {\n hermes_queue {\n  runs 1\n }\n hermes_proxy "+a.address+"\n }\n handle {\n hermes_queue {\n  runs 1\n }\n hermes\n reverse_proxy "+a.address+"\n }")
	one, _ := s.post("/a/v1/chat/completions", `{}`, "Name", "a1", "Authorization", "a")
	first := a.next("a1")
	two, _ := s.post("/v1/chat/completions", `{}`, "Name", "a2", "Authorization", "a")
	s.waiting(1)
	three, _ := s.post("/v1/runs", `{}`, "Name", "b1", "Authorization", "b")
	s.waiting(2)
	first.end()
	s.want(one, 200)
	a.next("b1").end() // in its turn before the second request of a
	s.want(three, 200)
	a.next("a2").end()
	s.want(two, 200)
}

// TestWithResume: what goes on without its client keeps its place, and what joins it takes none.
func TestWithResume(t *testing.T) {
	for name, directives := range map[string]string{
		"after it":     "hermes_resume\n hermes_queue {\n runs 1\n }\n hermes_proxy ",
		"in front":     "route {\n hermes_queue {\n runs 1\n }\n hermes_resume\n hermes_proxy ",
		"on both ends": "route {\n hermes_queue {\n runs 1\n }\n hermes_resume\n hermes_queue {\n runs 1\n }\n hermes_proxy ",
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			if directives += a.address; strings.HasPrefix(directives, "route") {
				directives += "\n }"
			}
			s := newSite(t, directives)
			ask := func(name string) (<-chan reply, func()) {
				return s.post("/v1/chat/completions", `{"stream":true}`, "Idempotency-Key", a.address, "X-Hermes-Detach", "1m", "Authorization", "a", "Name", name)
			}
			one, leave := ask("one")
			first := a.next("one")
			again, _ := ask("again")
			two, _ := s.ask("two", "Authorization", "a")
			s.waiting(1)
			leave()
			<-one
			a.none()
			first.end()
			s.want(again, 200, "hi", "[DONE]")
			a.next("two").end()
			s.want(two, 200, "hi")
		})
	}
}

// TestOnlyOneHermesWaits: a second one finds no pass, and requests that begin no run do not wait.
func TestOnlyOneHermesWaits(t *testing.T) {
	a := newAgent(t)
	s := newSite(t, "route {\n hermes_queue {\n runs 1\n }\n hermes\n hermes\n reverse_proxy "+a.address+"\n }")
	one, _ := s.ask("one")
	first := a.next("one")
	for _, path := range []string{"/v1/models", "/v1/runs/r/stop", "/api/sessions"} {
		other, _ := s.post(path, "{}", "Name", path)
		a.next(path).end()
		s.want(other, 200)
	}
	two, _ := s.ask("two")
	s.waiting(1)
	first.end()
	s.want(one, 200)
	a.next("two").end()
	s.want(two, 200)
}

// TestNoHermes after the queue: nobody waits, and a warning says so.
func TestNoHermes(t *testing.T) {
	a := newAgent(t)
	s := newSite(t, "hermes_queue {\n runs 1\n }\n reverse_proxy "+a.address)
	one, _ := s.ask("one")
	two, _ := s.ask("two")
	for range 2 {
		select {
		case n := <-a.arrived:
			n.end()
		case <-time.After(patience):
			t.Fatal("a request waits")
		}
	}
	s.want(one, http.StatusOK)
	s.want(two, http.StatusOK)
	s.load("hermes_queue\n hermes_proxy " + a.address)
	if l := s.lines(s.Log, 1, says("no hermes comes after hermes_queue, so that no request waits; add one after it")); len(l) != 1 || l[0]["level"] != "warn" {
		t.Errorf("%v", l)
	}
}
