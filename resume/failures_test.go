package resume_test

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestFailuresOfStreams reach the first client as they would without resume, others as
// a stream that breaks off; and who comes back later as the same.
func TestFailuresOfStreams(t *testing.T) {
	for name, fail := range map[string]func() error{
		"abort": func() error { panic(http.ErrAbortHandler) },
		"panic": func() error { panic("boom") },
		"error": func() error { return errors.New("failed") },
	} {
		t.Run(name, func(t *testing.T) {
			each, may := make(chan struct{}), make(chan struct{})
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				_ = streams(events(1), each)(w, r)
				<-may
				return fail()
			})
			var logged bytes.Buffer
			var mu sync.Mutex
			l.srv.Config.ErrorLog = log.New(locked{&mu, &logged}, "", 0)
			go close(each)
			first := l.send(post(key, "k"))
			first.next()
			second := l.send(post(key, "k"))
			second.next()
			close(may)
			if name == "error" {
				if got := first.rest(); got != "" { // the lab answers with a status, too late
					t.Errorf("%q", got)
				}
			} else {
				first.broken()
			}
			second.broken()
			if got := l.send(post(key, "k")).broken(); got != numbered(first.id(), 1, event(1)) {
				t.Errorf("later it is %q", got)
			}
			l.wantAsked(1)
			if name == "panic" {
				until(t, "it is logged", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return strings.Contains(logged.String(), "boom") && strings.Contains(logged.String(), "failures_test.go")
				})
			}
		})
	}
}

// TestPanicWithoutAClient is told to the Observer, or logged.
func TestPanicWithoutAClient(t *testing.T) {
	may := make(chan struct{})
	var logged bytes.Buffer
	var mu sync.Mutex
	runs := new(resume.Runs)
	o := resume.DefaultOptions()
	o.Runs = runs
	srv := httptest.NewUnstartedServer(resume.New(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = streams(events(1), always())(w, r)
		<-may
		panic("boom")
	})))
	srv.Config.ErrorLog = log.New(locked{&mu, &logged}, "", 0)
	srv.Start()
	defer srv.Close()
	l := &lab{t: t, srv: srv}
	r := l.send(post(key, "k"))
	r.next()
	r.leave()
	until(t, "nobody reads", func() bool { return runs.Stats().Detached == 1 })
	close(may)
	until(t, "it is logged", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(logged.String(), "boom") && strings.Contains(logged.String(), "failures_test.go")
	})
}

// TestKeyOfAStreamWithoutAnEventIsFree, if it breaks off in front of its first: there is
// nothing to repeat.
func TestKeyOfAStreamWithoutAnEventIsFree(t *testing.T) {
	calls := 0
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		if calls++; calls == 1 {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": hello\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		return streams(events(2), always())(w, r)
	})
	l.send(post(key, "k")).want(http.StatusOK).broken()
	l.over()
	again := l.send(post(key, "k")).want(http.StatusOK)
	if got := again.rest(); got != numbered(again.id(), 1, events(2)...) || again.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%v %q", again.Header, got)
	}
	l.wantAsked(2)
}
