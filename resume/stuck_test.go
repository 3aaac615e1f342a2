package resume_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// silentClient sends a request with a key, and reads nothing.
func silentClient(t *testing.T, l *lab) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\n%s: k\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		otherPath, l.srv.Listener.Addr(), key, len(asking), asking)
	return c
}

// stands waits until n counts up no more, so that next waits for its client.
func stands(t *testing.T, n *atomic.Int64) {
	t.Helper()
	before := int64(0)
	until(t, "next waits", func() bool {
		was := before
		before = n.Load()
		time.Sleep(50 * time.Millisecond)
		return before > 0 && was == before
	})
}

// TestClientThatReadsNoHints holds up nobody else: neither who sends its key, nor the end of
// the process.
func TestClientThatReadsNoHints(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, l *lab, enough chan struct{}){
		"another client": func(t *testing.T, l *lab, enough chan struct{}) {
			close(enough)
			r := l.send(post(key, "k")).want(http.StatusOK)
			if got := r.rest(); got != numbered(r.id(), 1, events(2)...) {
				t.Errorf("it gets %q", got)
			}
			l.wantAsked(1)
		},
		"a drain": func(t *testing.T, l *lab, _ chan struct{}) {
			l.runs.Shutdown(1)
			if e := l.over(); e.Reason != resume.ReasonShutdown {
				t.Errorf("%+v", e)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var hints atomic.Int64
			enough := make(chan struct{})
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				w.Header().Set("Link", strings.Repeat("x", 64<<10))
				for {
					select {
					case <-enough:
						w.Header().Del("Link")
						return streams(events(2), always())(w, r)
					case <-r.Context().Done():
						return context.Cause(r.Context())
					default:
						hints.Add(1)
						w.WriteHeader(http.StatusEarlyHints)
					}
				}
			})
			silentClient(t, l)
			stands(t, &hints)
			then(t, l, enough)
		})
	}
}

// TestCookiesAreTheFirstClients: who gets the answer from the log gets none.
func TestCookiesAreTheFirstClients(t *testing.T) {
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Add("Set-Cookie", "session=1")
		w.Header().Add("Set-Cookie", "other=2")
		w.Header().Set("X-Inner", "a")
		return streams(events(2), always())(w, r)
	})
	first := l.send(post(key, "k")).want(http.StatusOK)
	if got := first.Header["Set-Cookie"]; len(got) != 2 || got[0] != "session=1" || got[1] != "other=2" {
		t.Errorf("the first client gets the cookies %q", got)
	}
	for _, q := range []request{
		post(key, "k"),
		post("Last-Event-ID", first.id()+"/1"),
		{http.MethodGet, otherPath + "/" + first.id(), "", nil},
		{http.MethodHead, otherPath + "/" + first.id(), "", nil},
	} {
		r := l.send(q).want(http.StatusOK)
		if got := r.Header["Set-Cookie"]; got != nil || r.Header.Get("X-Inner") != "a" {
			t.Errorf("%s: header %v", q.method, r.Header)
		}
	}
}
