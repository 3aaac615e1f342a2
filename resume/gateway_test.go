package resume_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

const (
	runsPath   = "/v1/runs"
	eventsPath = "/v1/runs/run_1/events"
	lastID     = "Last-Event-ID"
)

// gateway is a Hermes with the run run_1. An old one gives each event to one reader, and nothing to the
// next. A new one numbers and keeps them.
type gateway struct {
	isNew bool
	key   string // what clients need, "" if they need none
	cut   error  // what a reader ends with when a test sends on cuts
	cuts  chan struct{}

	mu      sync.Mutex
	said    []string // the events
	ended   bool
	changed chan struct{}   // closed when there is more
	asked   []*http.Request // for the events
}

func newGateway(isNew bool) *gateway {
	return &gateway{isNew: isNew, changed: make(chan struct{}), cuts: make(chan struct{})}
}

// says has the run say something.
func (g *gateway) says(texts ...string) {
	for _, text := range texts {
		g.add(false, fmt.Sprintf(`"event": "message.delta", "run_id": "run_1", "delta": %q`, text))
	}
}

// completes ends the run.
func (g *gateway) completes() {
	g.add(true, `"event": "run.completed", "run_id": "run_1", "output": "all"`)
}

func (g *gateway) add(last bool, members string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, n := "data: {"+members+"}\n\n", len(g.said)
	if g.isNew {
		e = fmt.Sprintf("id: %d\ndata: {%s, \"seq\": %d}\n\n", n, members, n)
	}
	g.said, g.ended = append(g.said, e), last
	close(g.changed)
	g.changed = make(chan struct{})
}

// events returns the events from the number n on, as clients get them.
func (g *gateway) events(n int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isNew {
		return strings.Join(g.said[n:], "")
	}
	return withIDs("", n, g.said[n:]...)
}

// event returns the event with the number n, as clients get it.
func (g *gateway) event(n int) string {
	first, _, _ := strings.Cut(g.events(n), "\n\n")
	return first + "\n\n"
}

// opens returns how a stream begins, as clients get it. Its end is closes.
func (g *gateway) opens() string {
	if g.isNew {
		return ": open\n"
	}
	return ""
}

const closes = ": stream closed\n"

// serve is the next handler.
func (g *gateway) serve(w http.ResponseWriter, r *http.Request) error {
	answer := func(status int, body string) error {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, err := io.WriteString(w, body)
		return err
	}
	bearer := strings.TrimSpace(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	switch {
	case g.key != "" && g.key != bearer:
		return answer(http.StatusUnauthorized, `{"error": {"code": "invalid_api_key"}}`)
	case r.Method == http.MethodGet && r.URL.Path == runsPath+"/run_1" && r.RequestURI == r.URL.Path:
		if r.Header.Get("Range") != "" || r.Header.Get("If-None-Match") != "" {
			return answer(http.StatusNotModified, "")
		}
		return answer(http.StatusOK, `{"object": "hermes.run", "run_id": "run_1", "status": "running"}`)
	case r.Method == http.MethodPost && r.URL.Path == runsPath:
		return answer(http.StatusAccepted, `{"run_id": "run_1", "status": "started"}`)
	case r.Method != http.MethodGet || r.URL.Path != eventsPath:
		w.WriteHeader(http.StatusNotFound)
		return nil
	case r.RequestURI != r.URL.RequestURI():
		return fmt.Errorf("%s is asked for as %s", r.URL, r.RequestURI)
	}
	g.mu.Lock()
	g.asked = append(g.asked, r.Clone(context.Background()))
	isFirst := len(g.asked) == 1
	g.mu.Unlock()
	if !isFirst && !g.isNew {
		return answer(http.StatusNotFound, `{"error": {"code": "run_not_found"}}`)
	}
	return g.stream(w, r)
}

// stream sends the events.
func (g *gateway) stream(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/event-stream")
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	next := 0
	if g.isNew {
		if err := write(w, ": open\n\n"); err != nil {
			return err
		}
		if n, err := strconv.Atoi(r.Header.Get(lastID)); err == nil {
			next = n + 1
		}
	}
	for {
		g.mu.Lock()
		said, ended, changed := g.said[next:], g.ended, g.changed
		g.mu.Unlock()
		if err := write(w, said...); err != nil {
			return err
		}
		next += len(said)
		if ended {
			return write(w, ": stream closed\n\n")
		}
		select {
		case <-changed:
		case <-g.cuts:
			if g.cut == http.ErrAbortHandler {
				panic(g.cut)
			}
			return g.cut
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

// wantRead checks how many times the events were asked for.
func (g *gateway) wantRead(t *testing.T, n int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) != n {
		t.Errorf("upstream was asked for the events %d times, want %d", len(g.asked), n)
	}
}

// begins begins the run, and returns when its events are read.
func (l *lab) begins(header ...string) {
	l.t.Helper()
	header = append([]string{"Content-Type", "application/json"}, header...)
	r := l.send(request{http.MethodPost, runsPath, `{"input": "hi"}`, header}).want(http.StatusAccepted)
	if got := r.rest(); got != `{"run_id": "run_1", "status": "started"}` {
		l.t.Errorf("the client got %s", got)
	}
	synctest.Wait()
}

// ofRun is a request for the events of the run, with fields.
func ofRun(header ...string) request { return request{http.MethodGet, eventsPath, "", header} }

var headOfRun = request{method: http.MethodHead, path: eventsPath}

// atGateway runs a test in a bubble, with a lab in front of a Hermes. wrap returns what stands between, if
// it is not nil.
func atGateway(t *testing.T, isNew bool, set func(*resume.Options), wrap func(resume.Next) resume.Next, test func(t *testing.T, l *lab, g *gateway)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(isNew)
		next := g.serve
		if wrap != nil {
			next = wrap(next)
		}
		test(t, newPipeLab(t, set, next), g)
	})
}

// except returns a wrap with which other answers the requests of the path.
func except(path string, other resume.Next) func(resume.Next) resume.Next {
	return func(next resume.Next) resume.Next {
		return func(w http.ResponseWriter, r *http.Request) error {
			if r.URL.Path == path {
				return other(w, r)
			}
			return next(w, r)
		}
	}
}

// eachGateway runs a test with an old Hermes and with a new one.
func eachGateway(t *testing.T, set func(*resume.Options), test func(t *testing.T, l *lab, g *gateway)) {
	t.Helper()
	for name, isNew := range map[string]bool{"old": false, "new": true} {
		t.Run(name, func(t *testing.T) { atGateway(t, isNew, set, nil, test) })
	}
}

// eachGuarded runs a test with both, behind hermes and without it.
func eachGuarded(t *testing.T, test func(t *testing.T, l *lab, g *gateway, isGuarded bool)) {
	t.Helper()
	for name, isNew := range map[string]bool{"old": false, "new": true} {
		for by, wrap := range guards {
			t.Run(name+", "+by, func(t *testing.T) {
				atGateway(t, isNew, nil, wrap, func(t *testing.T, l *lab, g *gateway) { test(t, l, g, wrap != nil) })
			})
		}
	}
}

// guards are what may stand between resume and Hermes.
var guards = map[string]func(resume.Next) resume.Next{
	"alone": nil,
	"behind hermes": func(next resume.Next) resume.Next {
		p := proxy.New(proxy.DefaultOptions())
		return func(w http.ResponseWriter, r *http.Request) error { return p.Serve(w, r, next) }
	},
}
