package redis

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// splitter is an upstream whose streams have two events, and are split between them.
type splitter struct {
	may  chan struct{} // it goes on
	is   chan *resume.Split
	left chan struct{} // its request is cancelled
	last *resume.Split // that /rest answers
}

func newSplitter() *splitter {
	return &splitter{make(chan struct{}), make(chan *resume.Split, 1), make(chan struct{}, 1), nil}
}

func (s *splitter) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/rest" {
		_ = s.last.Rest(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, event(1))
	_ = http.NewResponseController(w).Flush()
	<-s.may
	split := resume.NewSplit(r.Context(), time.Minute)
	s.is <- split
	<-s.may
	if split != nil {
		split.Do()
	}
	select {
	case <-s.may:
		_, _ = io.WriteString(w, event(2))
	case <-r.Context().Done():
		s.left <- struct{}{}
	}
}

// split waits for what a test does between the preparation and the split.
func (s *splitter) split(between func()) *resume.Split {
	s.may <- struct{}{}
	s.last = <-s.is
	between()
	s.may <- struct{}{}
	return s.last
}

// TestSplitIsSeenByOtherReplicas, which have both streams, and end the run by the id of either.
func TestSplitIsSeenByOtherReplicas(t *testing.T) {
	for name, which := range map[string]string{"to its end": "", "deleted by the first": "a", "deleted by the second": "b"} {
		t.Run(name, func(t *testing.T) {
			a, b := startServer(t).replicas()
			s := newSplitter()
			here, there := front(t, a, s.serve), front(t, b, s.serve)
			first := ask(t, here, http.MethodPost, "/v1/x", "Idempotency-Key", "k")
			split := s.split(func() {})
			want := body(t, first)
			if strings.Count(want, "data: ") != 1 {
				t.Errorf("the first stream is %q", want)
			}
			again := ask(t, there, http.MethodPost, "/v1/x", "Idempotency-Key", "k")
			if got := body(t, again); got != want {
				t.Errorf("elsewhere the first stream is %q", got)
			}
			rest := ask(t, there, http.MethodGet, "/v1/x/"+split.ID())
			if rest.StatusCode != http.StatusOK {
				t.Fatal(rest.Status)
			}
			if which == "" {
				s.may <- struct{}{}
				want := strings.TrimSuffix(event(2), "\n") + "id: " + split.ID() + "/1\n\n"
				for range 2 {
					if got := body(t, rest); got != want {
						t.Errorf("the rest is %q", got)
					}
					rest = ask(t, here, http.MethodPost, "/rest")
				}
				return
			}
			id := split.ID()
			if which == "a" {
				id = first.Header.Get(resume.StreamHeader)
			}
			if res := ask(t, there, http.MethodDelete, "/v1/x/"+id); res.StatusCode != http.StatusNoContent {
				t.Fatal(res.Status)
			}
			select {
			case <-s.left:
			case <-time.After(patience):
				t.Fatal("the run goes on")
			}
		})
	}
}

// TestSplitWithoutRedis may not be if Redis is down; if it goes later, all goes on here.
func TestSplitWithoutRedis(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "between": false} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			a, _ := server.replica(func(o *Options) { o.Timeout = 50 * time.Millisecond })
			s := newSplitter()
			here := front(t, a, s.serve)
			first := ask(t, here, http.MethodPost, "/v1/x", "Idempotency-Key", "k")
			if before {
				server.kill()
			}
			split := s.split(func() {
				if !before {
					server.kill()
				}
			})
			if (split == nil) != before {
				t.Fatalf("it may be split: %v", split != nil)
			}
			if !before {
				if got := body(t, first); strings.Count(got, "data: ") != 1 {
					t.Errorf("the first stream is %q", got)
				}
				first = ask(t, here, http.MethodPost, "/rest")
			}
			s.may <- struct{}{}
			if got := body(t, first); !strings.Contains(got, "data: 2") {
				t.Errorf("it goes on with %q", got)
			}
			if before {
				until(t, "no other log is here", func() bool { _, logs := a.o.Local.Used(); return logs <= 1 })
			}
		})
	}
}

// TestSplitThatIsGivenUp leaves nothing in Redis.
func TestSplitThatIsGivenUp(t *testing.T) {
	server := startServer(t)
	a, _ := server.replica(nil)
	is := make(chan string, 1)
	here := front(t, a, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event(1))
		split := resume.NewSplit(r.Context(), time.Minute)
		split.Release()
		is <- split.ID()
	})
	body(t, ask(t, here, http.MethodPost, "/v1/x", "Idempotency-Key", "k"))
	id := <-is
	until(t, "it is gone", func() bool {
		_, err := a.Find(context.Background(), id)
		return err != nil && server.client.Exists(context.Background(), a.name("log", id)).Val() == 0
	})
}
