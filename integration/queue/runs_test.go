package queue

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestRunsHoldTheirPlaces: the 202 of a run is not its end. Its events tell, or its state, whoever
// of its clients asks; if none asks, the sidecar does.
func TestRunsHoldTheirPlaces(t *testing.T) {
	t.Parallel()
	for name, tells := range map[string]func(p *place, id string){
		"events": func(p *place, id string) {
			e := p.get("/v1/runs/"+id+"/events", "key-1")
			e.says("message.delta")
			p.End("slow")
			e.says("run.completed")
		},
		"its state": func(p *place, id string) {
			for range 3 {
				if _, body := p.get("/v1/runs/"+id, "key-1").ends(); !strings.Contains(body, "running") {
					p.t.Errorf("it is %s", body)
				}
			}
			if p.Has("after slow") {
				p.t.Error("a run that goes on has given its place back")
			}
			p.End("slow")
			p.get("/v1/runs/"+id, "key-1").ends()
		},
		"nobody": func(p *place, id string) { p.End("slow") },
		"a reader of its events leaves": func(p *place, id string) {
			e := p.get("/v1/runs/"+id+"/events", "key-1")
			e.says("message.delta")
			e.leave()
			<-e.done
			if p.Has("after slow") {
				p.t.Error("a run that goes on has given its place back")
			}
			p.End("slow")
		},
		"it fails": func(p *place, id string) { p.End("slow") },
	} {
		for _, resume := range []string{"", "detach 10m"} {
			t.Run(name+" "+resume, func(t *testing.T) {
				t.Parallel()
				p := newPlaceOf(t, hermes.New(t, 10), site{resume: resume, queue: []string{"runs 1"}})
				id, waits := p.begins("slow", "key-1")
				tells(p, id)
				p.Until(t, "after slow")
				<-waits.done
				if body := withoutIDs.ReplaceAllString(waits.body.String(), ""); !strings.Contains(body, "bye") {
					t.Errorf("%s", body)
				}
				if p.MostAtOnce() != 1 {
					t.Errorf("%d at once", p.MostAtOnce())
				}
			})
		}
	}
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

// TestStrangersFreeNothing: what others ask about a run, and what is no answer about it, gives no place
// back.
func TestStrangersFreeNothing(t *testing.T) {
	t.Parallel()
	a := hermes.New(t, 10)
	a.Silent = true // the sidecar's own polls say nothing
	p := newPlaceOf(t, a, site{queue: []string{"runs 1"}})
	id, waits := p.begins("slow", "key-1")
	for _, path := range []string{"/v1/runs/" + id, "/v1/runs/" + id + "/events", "/v1/runs/" + id + "/", "/v1/runs/x", "/v1/runs//" + id, "/v1/runs/../runs/" + id, "/x/v1/runs/" + id} {
		p.get(path, "a stranger").ends()
	}
	for _, path := range []string{"/v1/runs/" + id + "/stop", "/v1/runs/" + id + "/approval"} {
		p.send(http.MethodPost, path, `{"choice": "once"}`, path, "Authorization", "Bearer key-1").ends()
	}
	if p.Has("after slow") {
		t.Error("the place is given back")
	}
	e := p.get("/v1/runs/"+id+"/events", "key-1")
	e.says("message.delta")
	p.End("slow")
	waits.good(chat)
}

// TestLyingRuns: whatever a 202 says, a place is neither lost nor another's.
func TestLyingRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10, "runs 3")
	run := p.ask(runs, "key-1", "slow-run")
	run.good(runs)
	lies := map[string]string{
		"foreign":    `{"run_id": "` + run.runID() + `", "status": "started"}`,
		"none":       `{"status": "started"}`,
		"empty":      `{"run_id": ""}`,
		"number":     `{"run_id": 5}`,
		"path":       `{"run_id": "../../v1/models"}`,
		"slashes":    `{"run_id": "/../a/../"}`,
		"query":      `{"run_id": "x?y=z#"}`,
		"lines":      `{"run_id": "x\r\nX-Evil: 1\r\n\r\nGET / HTTP/1.1"}`,
		"long":       `{"run_id": "` + strings.Repeat("x", 100<<10) + `"}`,
		"escaped":    `{"run_id": "%2e%2e%2fx"}`,
		"no JSON":    `run_id: x`,
		"no body":    ``,
		"unknown":    `{"run_id": "run_unknown", "status": "started"}`,
		"two values": `{"run_id": "run_a", "run_id": "run_b"}`,
	}
	for name, body := range lies {
		p.Answer(name, hermes.Replies(202, "application/json", body))
	}
	for name := range lies {
		q := p.ask(runs, "key-1", name)
		if status, body := q.ends(); status != 202 || body != lies[name] {
			t.Errorf("%s: %d %q", name, status, harness.Clip(body))
		}
	}
	p.ask(chat, "key-2", "after").good(chat)
	if n := p.metric("running"); n < 2 {
		t.Errorf("%v places are taken; a run with another's name has one, too", n)
	}
	if p.MostAtOnce() != 2 || p.Running() != 1 {
		t.Errorf("%d at once, %d now", p.MostAtOnce(), p.Running())
	}
	for _, path := range p.Paths() {
		if strings.Contains(path, "..") || strings.Contains(path, "models") || strings.ContainsAny(path, "?#\r\n") {
			t.Errorf("upstream was asked for %q", path)
		}
	}
	p.End("slow-run")
	p.free(3)
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

// TestManyRuns: each of many runs gives its place back once, however its end is told.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10, "runs 3", "waiting 1000", "wait 1h")
	var all sync.WaitGroup
	for i := range 48 {
		all.Go(func() {
			key := fmt.Sprintf("key-%d", i%7)
			q := p.ask(runs, key, fmt.Sprintf("hello-%d", i))
			<-q.done
			if i%2 == 0 {
				<-p.get("/v1/runs/"+q.runID(), key).done
			}
			if i%8 > 0 {
				<-p.get("/v1/runs/"+q.runID()+"/events", key).done
			}
			q.good(runs)
		})
	}
	all.Wait()
	harness.Until(t, "all places are free", func() bool { return p.metric("running") <= 0 })
	p.free(3)
	if p.MostAtOnce() > 3 {
		t.Errorf("%d at once", p.MostAtOnce())
	}
}

// TestPolls: a run that nobody asks about is asked about with its client's credentials, and not often.
func TestPolls(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10, "runs 1")
	id, waits := p.begins("slow", "key-1")
	asked := func() (n int) {
		for _, path := range p.Paths() {
			if path == "/v1/runs/"+id {
				n++
			}
		}
		return n
	}
	began := time.Now()
	harness.Until(t, "it is asked about twice", func() bool { return asked() >= 2 })
	if n, most := asked(), int(time.Since(began)/(2*time.Second))+3; n > most {
		t.Errorf("asked %d times in %v", n, time.Since(began))
	}
	p.End("slow")
	waits.good(chat)
}
