package resume_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestRunsEndWhenNobodyComesBack cancels upstream's request after detach, and not before.
// A client that comes back then gets an error finish.
func TestRunsEndWhenNobodyComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		after  time.Duration
	}{
		"detach":               {[]string{key, "k"}, 10 * time.Minute},
		"the header asks":      {[]string{key, "k", resume.DetachHeader, "30s"}, 30 * time.Second},
		"at most detach":       {[]string{resume.DetachHeader, "1000h"}, 10 * time.Minute},
		"the header by itself": {[]string{resume.DetachHeader, "1m"}, time.Minute},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			l := newPipeLab(t, nil, silent)
			id := l.leaves(chat(c.header...)).id()
			l.wantDetached(1)
			time.Sleep(c.after - 1)
			l.wantOpen(1)
			// A client is there for a while: the time begins anew.
			second := l.send(chat("Last-Event-ID", id+"/1"))
			l.wantDetached(0)
			time.Sleep(2 * c.after)
			l.wantOpen(1)
			second.leave()
			l.wantDetached(1)
			l.wantExpires(c.after)
			got := l.send(chat("Last-Event-ID", id+"/1")).want(http.StatusOK).rest()
			checkFinish(t, got, id, 2, "upstream_aborted")
			if st := l.runs.Stats(); st.Detached != 0 || st.TotalDetached != 2 || st.TotalCancelled[log.ReasonExpired] != 1 {
				t.Errorf("stats %+v", st)
			}
			time.Sleep(5*time.Minute - 1)
			l.send(chat("Last-Event-ID", id+"/1")).want(http.StatusOK)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			problemOf(t, l.send(chat("Last-Event-ID", id+"/1")), http.StatusNotFound)
			l.wantEmpty()
			l.wantAsked(1)
		})
	}
}

func TestDrainEndsRuns(t *testing.T) {
	inBubble(t, nil, silent, func(t *testing.T, l *lab) {
		connected := l.send(chat(key, "a"))
		connected.next()
		left := l.leaves(chat(key, "b"))
		l.wantDetached(1)
		l.runs.Shutdown(10 * time.Second)
		late := l.send(chat(key, "c"))
		late.next()
		time.Sleep(10*time.Second - 1)
		l.wantOpen(3)
		time.Sleep(time.Nanosecond)
		checkFinish(t, connected.rest(), connected.id(), 2, "shutting_down")
		checkFinish(t, late.rest(), late.id(), 2, "shutting_down")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		l.runs.Wait(ctx)
		if ctx.Err() != nil || l.runs.Open() != 0 {
			t.Fatal("a run is open")
		}
		checkFinish(t, l.send(chat(key, "b", "Last-Event-ID", left.id()+"/1")).rest(), left.id(), 2, "shutting_down")
	})
}

// TestClientThatLeavesBeforeTheAnswer leaves a run that goes on only if the request says that
// it wants a stream: no other answer would find a reader.
func TestClientThatLeavesBeforeTheAnswer(t *testing.T) {
	for _, c := range []struct {
		path, accept, body string
		goes               bool
	}{
		{otherPath, "text/event-stream", "", true},
		{"/api/sessions/s/chat/stream", "", "{}", true},
		{chatPath, "", asking, true},
		{chatPath, "", `{"stream":false}`, false},
		{chatPath, "", `{"stream":"true"}`, false},
		{chatPath, "", `{"stream":true`, false},
	} {
		each := make(chan struct{})
		l := newLab(t, nil, streams([]string{chunk}, each))
		q := request{http.MethodPost, c.path, c.body, []string{key, "k", "Accept", c.accept}}
		l.leaveEarly(q)
		if !c.goes {
			if e := l.over(); e.Reason != log.ReasonLeft || e.Stream {
				t.Errorf("%+v ended for %v", c, e.Reason)
			}
			l.wantEmpty()
			continue
		}
		until(t, c.path+" goes on", func() bool { return l.runs.Stats().Detached == 1 })
		close(each)
		l.over()
		again := l.send(q).want(http.StatusOK)
		again.wantRest(numbered(again.id(), 1, chunk))
		l.wantAsked(1)
	}
}

// leaveEarly sends a request and leaves when next is called, before there is an answer.
func (l *lab) leaveEarly(q request) {
	l.t.Helper()
	ctx, leave := context.WithCancel(l.t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if res, err := do(ctx, l.srv, q); err == nil {
			res.Body.Close()
			l.t.Error("answered")
		}
	}()
	until(l.t, "next is called", func() bool { return l.asked.Load() == 1 })
	leave()
	<-gone
}

// TestAnswerThatIsNoStreamAfterItsClientLeft is for no client, and its upstream is told.
func TestAnswerThatIsNoStreamAfterItsClientLeft(t *testing.T) {
	each, wrote := make(chan struct{}), make(chan error, 1)
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		<-each
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, "{}")
		wrote <- err
		<-r.Context().Done()
		return nil
	})
	l.leaveEarly(chat(key, "k"))
	until(t, "no client reads", func() bool { return l.runs.Stats().Detached == 1 })
	close(each)
	if err := <-wrote; err == nil {
		t.Error("it could be written")
	}
	if e := l.over(); e.Stream || e.Reason != log.ReasonNone {
		t.Errorf("%+v", e)
	}
	if st := l.runs.Stats(); st.Detached != 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestClientThatReadsNoHints holds up no others, however small the hints are: neither a client that
// sends its key, nor the end of the process.
func TestClientThatReadsNoHints(t *testing.T) {
	link := strings.Repeat("x", 1<<10)
	for name, c := range map[string]struct {
		link   string
		hints  int64
		drains bool
	}{
		"another client": {link, 1 << 15, false}, "no fields": {"", 1 << 20, false}, "a drain": {link, 1 << 15, true},
	} {
		t.Run(name, func(t *testing.T) {
			var hints atomic.Int64
			enough := make(chan struct{})
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				if c.link != "" {
					w.Header().Set("Link", c.link)
				}
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
			until(t, "there are many hints", func() bool { return hints.Load() > c.hints })
			if c.drains {
				l.runs.Shutdown(1)
				l.wantOver(log.ReasonShutdown)
				return
			}
			close(enough)
			r := l.send(post(key, "k")).want(http.StatusOK)
			r.wantRest(numbered(r.id(), 1, events(2)...))
			l.wantAsked(1)
		})
	}
}
