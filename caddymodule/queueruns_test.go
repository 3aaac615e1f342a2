package caddymodule

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
)

// runner is an agent with runs that end when the test says so.
type runner struct {
	t      *testing.T
	silent bool // it has no statuses
	began  chan string
	hold   chan struct{} // the answers to POSTs wait for it

	mu      sync.Mutex
	n       int
	over    map[string]chan struct{} // by run
	running int
	most    int // at once
}

func newRunner(t *testing.T) (*runner, string) {
	a := &runner{t: t, began: make(chan string, 100), hold: make(chan struct{}), over: map[string]chan struct{}{}}
	close(a.hold)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return a, strings.TrimPrefix(server.URL, "http://")
}

func (a *runner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		a.begin(w, r)
		return
	}
	run, isEvents := strings.CutSuffix(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/agent"), "/v1/runs/"), "/events")
	a.mu.Lock()
	over, silent := a.over[run], a.silent
	a.mu.Unlock()
	switch {
	case over == nil, silent && !isEvents:
		http.NotFound(w, r)
	case !isEvents:
		status := "running"
		select {
		case <-over:
			status = "completed"
		default:
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, `{"object": "hermes.run", "run_id": %q, "status": %q}`, run, status)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"event\": \"message.delta\", \"run_id\": %q, \"delta\": \"a\"}\n\n", run)
		w.(http.Flusher).Flush()
		select {
		case <-over:
			fmt.Fprintf(w, "data: {\"event\": \"run.completed\", \"run_id\": %q}\n\n: stream closed\n\n", run)
		case <-r.Context().Done():
		}
	}
}

// begin begins a run, even if its client leaves.
func (a *runner) begin(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	a.mu.Lock()
	a.n++
	run := fmt.Sprintf("run_%d", a.n)
	a.over[run] = make(chan struct{})
	a.running++
	a.most = max(a.most, a.running)
	hold := a.hold
	a.mu.Unlock()
	a.began <- run
	<-hold
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, `{"run_id": %q, "status": "started"}`, run)
}

// end ends a run.
func (a *runner) end(run string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	close(a.over[run])
}

// next returns the run that begins next.
func (a *runner) next() string {
	a.t.Helper()
	select {
	case run := <-a.began:
		return run
	case <-time.After(caddytest.Patience):
		a.t.Fatal("no run begins")
		return ""
	}
}

// ask sends a request, and returns the answer, whose body is read.
func (s *approvalSite) ask(ctx context.Context, method, path string) string {
	res, err := s.Send(ctx, method, path, `{"input": "hello"}`, "Content-Type", "application/json", "Authorization", "Bearer k")
	if err != nil {
		return err.Error()
	}
	body, _ := io.ReadAll(res.Body)
	return res.Status + " " + string(body)
}

// begins sends a request that begins a run, which the answer names.
func (s *approvalSite) begins(a *runner) string {
	s.t.Helper()
	said := s.ask(s.t.Context(), http.MethodPost, "/v1/runs")
	run := a.next()
	if want := fmt.Sprintf(`202 Accepted {"run_id": %q, "status": "started"}`, run); said != want {
		s.t.Errorf("answered %s, want %s", said, want)
	}
	return run
}

// waits sends a request that begins a run, and waits until it is in line. over returns its answer.
func (s *approvalSite) waits() (answer func() string) {
	s.t.Helper()
	said := make(chan string, 1)
	go func() { said <- s.ask(s.t.Context(), http.MethodPost, "/v1/runs") }()
	s.inLine(1)
	return func() string { return <-said }
}

// inLine waits until so many requests are in line.
func (s *approvalSite) inLine(n int) {
	s.t.Helper()
	for limit := time.Now().Add(caddytest.Patience); hermesapp.OfProcess().Lines.Stats().Waiting != n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			s.t.Fatalf("%d requests are in line, want %d", hermesapp.OfProcess().Lines.Stats().Waiting, n)
		}
	}
}

// TestRunsHoldPlaces: the next run begins when the one before it is over, which nobody tells. Package
// integration/queue has those of which the events or the status are read.
func TestRunsHoldPlaces(t *testing.T) {
	const one = "hermes_queue {\n\t\truns 1\n\t\twait 10m\n\t}\n\thermes"
	for name, directives := range map[string]string{
		"after a reload":                              one,
		"other routes come after":                     "route {\n" + one + "\nhandle /v1/* {\nreverse_proxy UPSTREAM\n}\nhandle {\nrespond 404\n}\n}",
		"the path is another's for upstream":          "route {\n" + one + "\nhandle /v1/* {\nrewrite * /agent{path}\nreverse_proxy UPSTREAM\n}\nrespond 404\n}",
		"hermes_resume reads the events, no statuses": "hermes_resume\n" + one,
	} {
		t.Run(name, func(t *testing.T) {
			a, upstream := newRunner(t)
			a.silent = strings.HasPrefix(name, "hermes_resume")
			s := runApprovals(t, upstream, strings.ReplaceAll(directives, "UPSTREAM", upstream))
			first := s.begins(a)
			answer := s.waits()
			if name == "after a reload" {
				s.load(upstream, one+" {\n\t\tprogress bare\n\t}")
				s.inLine(1)
			}
			a.end(first)
			second := a.next()
			if said := answer(); !strings.Contains(said, second) {
				t.Errorf("the second answer is %s", said)
			}
			a.end(second)
			if a.most != 1 {
				t.Errorf("%d runs at once", a.most)
			}
			s.ask(t.Context(), http.MethodGet, "/v1/runs/"+second+"/events")
			s.inLine(0)
		})
	}
}

// TestRunOfAClientThatLeaves before it knows of it holds its place.
func TestRunOfAClientThatLeaves(t *testing.T) {
	a, upstream := newRunner(t)
	a.hold = make(chan struct{})
	s := runApprovals(t, upstream, "hermes_queue {\n\t\truns 1\n\t\twait 10m\n\t}\n\thermes")
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan bool)
	go func() {
		defer close(gone)
		s.ask(ctx, http.MethodPost, "/v1/runs")
	}()
	first := a.next()
	answer := s.waits()
	leave()
	<-gone
	close(a.hold)
	s.ask(t.Context(), http.MethodGet, "/v1/runs/"+first) // the run goes on
	s.inLine(1)
	a.end(first)
	if second := a.next(); !strings.Contains(answer(), second) || a.most != 1 {
		t.Errorf("%d runs at once", a.most)
	} else {
		a.end(second)
		s.ask(t.Context(), http.MethodGet, "/v1/runs/"+second)
	}
}
