package resume_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// chunk is one of a chat completion.
const chunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"

// chat is a request for a chat completion, with fields.
func chat(header ...string) request {
	q := post(header...)
	q.path = chatPath
	return q
}

// silent is a next handler that sends one chunk and then nothing.
func silent(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, chunk)
	<-r.Context().Done()
	return context.Cause(r.Context())
}

// TestRunsEndWhenNobodyComesBack cancels upstream's request after detach, and not before.
// Who comes back then gets an error finish.
func TestRunsEndWhenNobodyComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		after  time.Duration
	}{
		"detach":               {[]string{key, "k"}, 10 * time.Minute},
		"what is asked for":    {[]string{key, "k", resume.DetachHeader, "30s"}, 30 * time.Second},
		"at most detach":       {[]string{resume.DetachHeader, "1000h"}, 10 * time.Minute},
		"the header by itself": {[]string{resume.DetachHeader, "1m"}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, silent, func(t *testing.T, l *lab) {
				r := l.send(chat(c.header...)).want(http.StatusOK)
				id := r.id()
				r.next()
				r.leave()
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
				time.Sleep(c.after - 1)
				l.wantOpen(1)
				time.Sleep(1)
				if e := l.over(); e.Reason != resume.ReasonExpired || e.Detached != c.after {
					t.Errorf("ended for %v after %v", e.Reason, e.Detached)
				}
				got := l.send(chat("Last-Event-ID", id+"/1")).want(http.StatusOK).rest()
				checkFinish(t, got, id, 2, "upstream_aborted")
				if st := l.runs.Stats(); st.Detached != 0 || st.TotalDetached != 2 || st.TotalCancelled[resume.ReasonExpired] != 1 {
					t.Errorf("stats %+v", st)
				}
				time.Sleep(5*time.Minute - 1)
				l.send(chat("Last-Event-ID", id+"/1")).want(http.StatusOK)
				time.Sleep(1)
				synctest.Wait()
				problemOf(t, l.send(chat("Last-Event-ID", id+"/1")), http.StatusNotFound)
				if used, logs := l.store.Used(); used != 0 || logs != 0 {
					t.Errorf("%d bytes of %d logs are left", used, logs)
				}
				l.wantAsked(1)
			})
		})
	}
}

// wantDetached checks how many runs go on without a client, when nothing happens any more.
func (l *lab) wantDetached(n int64) {
	l.t.Helper()
	synctest.Wait()
	if got := l.runs.Stats().Detached; got != n {
		l.t.Fatalf("%d runs are detached, want %d", got, n)
	}
}

// wantOpen checks how many runs are open, when nothing happens any more.
func (l *lab) wantOpen(n int) {
	l.t.Helper()
	synctest.Wait()
	if got := l.runs.Open(); got != n {
		l.t.Fatalf("%d runs are open, want %d", got, n)
	}
}

// checkFinish checks that a stream ends with an error with the code, whose events are
// numbered from n on.
func checkFinish(t *testing.T, got, id string, n int, code string) {
	t.Helper()
	if !strings.Contains(got, `"code":"`+code+`"`) || !strings.Contains(got, `"finish_reason":"error"`) || !strings.Contains(got, `"id":"chatcmpl-1"`) ||
		!strings.HasSuffix(got, numbered(id, n+2, "data: [DONE]\n\n")) {
		t.Errorf("the end is\n%s", got)
	}
	if plain := without(t, numbered(id, 1, make([]string, n-1)...)+got, id); plain == "" {
		t.Error("there is none")
	}
}

// TestToolsInCommentsEnd when the run does, although their comments have no blank lines in
// the log.
func TestToolsInCommentsEnd(t *testing.T) {
	const tool = `: hermes.tool.progress {"tool":"terminal","toolCallId":"call_1","status":"`
	next := func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunk+tool+"running\"}\n\n: keepalive\n\n")
		<-r.Context().Done()
		return context.Cause(r.Context())
	}
	inBubble(t, nil, next, func(t *testing.T, l *lab) {
		r := l.send(chat(key, "k", proxy.ProgressHeader, "comment")).want(http.StatusOK)
		r.next()
		r.leave()
		time.Sleep(10 * time.Minute)
		l.over()
		got := l.send(chat("Last-Event-ID", r.id()+"/1")).want(http.StatusOK).rest()
		if !strings.HasPrefix(got, tool+"running\"}\n: keepalive\n"+tool+"completed\"}\ndata: {\"error\":") {
			t.Errorf("the end is\n%s", got)
		}
	})
}

func TestDrainEndsRuns(t *testing.T) {
	inBubble(t, nil, silent, func(t *testing.T, l *lab) {
		connected := l.send(chat(key, "a"))
		connected.next()
		left := l.send(chat(key, "b"))
		left.next()
		left.leave()
		l.wantDetached(1)
		l.runs.Shutdown(10 * time.Second)
		late := l.send(chat(key, "c"))
		late.next()
		time.Sleep(10*time.Second - 1)
		l.wantOpen(3)
		time.Sleep(1)
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

// TestOneMoreThanMaxDetachedEndsWithItsClient keeps the others.
func TestOneMoreThanMaxDetachedEndsWithItsClient(t *testing.T) {
	l := newLab(t, func(o *resume.Options) { o.MaxDetached = 2 }, silent)
	for i, k := range []string{"a", "b"} {
		r := l.send(chat(key, k))
		r.next()
		r.leave()
		until(t, "it is alone", func() bool { return l.runs.Stats().Detached == int64(i+1) })
	}
	r := l.send(chat(key, "c"))
	r.next()
	r.leave()
	if e := l.over(); e.Reason != resume.ReasonLeft {
		t.Errorf("ended for %v", e.Reason)
	}
	if n := l.runs.Open(); n != 2 {
		t.Errorf("%d are open, want 2", n)
	}
	// One comes back: there is room again.
	back := l.send(chat(key, "a"))
	back.next()
	until(t, "it is not alone", func() bool { return l.runs.Stats().Detached == 1 })
	r = l.send(chat(key, "d"))
	r.next()
	r.leave()
	until(t, "it is alone", func() bool { return l.runs.Stats().Detached == 2 })
}

// TestAbandonedRunsLeaveRoom: with the defaults, clients that leave their runs do not lock
// out others at an agent that admits ten and, on one core, works on five at the same time.
func TestAbandonedRunsLeaveRoom(t *testing.T) {
	var admitted atomic.Int64
	works := make(chan struct{}, 5)
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		defer admitted.Add(-1)
		if admitted.Add(1) > 10 {
			w.WriteHeader(http.StatusTooManyRequests)
			return nil
		}
		select {
		case works <- struct{}{}:
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
		defer func() { <-works }()
		return silent(w, r)
	})
	for i := range 20 {
		r := l.send(chat(key, fmt.Sprint(i))).want(http.StatusOK)
		r.next()
		left := l.runs.Stats().TotalDetached + l.runs.Stats().TotalCancelled[resume.ReasonLeft]
		r.leave()
		until(t, "it is left", func() bool {
			st := l.runs.Stats()
			return st.TotalDetached+st.TotalCancelled[resume.ReasonLeft] > left
		})
	}
	l.send(chat(key, "there")).want(http.StatusOK).next()
	if n := l.runs.Stats().Detached; n == 0 {
		t.Error("none goes on without its client")
	}
}

// TestWhatIsNoDuration is refused, because it would not do what it should.
func TestWhatIsNoDuration(t *testing.T) {
	l := newLab(t, nil, streams(events(1), always()))
	for _, d := range []string{"", "10", "-1s", "ten minutes"} {
		problemOf(t, l.send(post(resume.DetachHeader, d)), http.StatusBadRequest)
	}
	problemOf(t, l.send(post(resume.DetachHeader, "10m", resume.DetachHeader, "0s")), http.StatusBadRequest)
	l.wantAsked(0)
	if r := l.send(post(resume.DetachHeader, "0s")).want(http.StatusOK); r.id() != "" || r.rest() != event(1) {
		t.Error("0s asks for a log")
	}
}

// TestClientThatLeavesBeforeTheAnswer leaves a run that goes on only if the request asks
// for a stream: nobody would get another answer.
func TestClientThatLeavesBeforeTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		q    request
		goes bool
	}{
		"a stream":             {chat(key, "k"), true},
		"by Accept":            {request{http.MethodPost, otherPath, "", []string{key, "k", "Accept", "text/event-stream"}}, true},
		"of a session":         {request{http.MethodPost, "/api/sessions/s/chat/stream", "{}", []string{key, "k"}}, true},
		"no stream":            {request{http.MethodPost, chatPath, `{"stream":false}`, []string{key, "k"}}, false},
		"nothing said of that": {request{http.MethodPost, otherPath, `{"a":"stream"}`, []string{key, "k"}}, false},
		"no JSON":              {request{http.MethodPost, otherPath, `"stream":true`, []string{key, "k"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			begun, each := make(chan struct{}), make(chan struct{})
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				close(begun)
				select {
				case <-r.Context().Done():
					return context.Cause(r.Context())
				case <-each:
				}
				return streams([]string{chunk}, always())(w, r)
			})
			ctx, leave := context.WithCancel(context.Background())
			r, err := http.NewRequestWithContext(ctx, c.q.method, l.srv.URL+c.q.path, strings.NewReader(c.q.body))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(c.q.header); i += 2 {
				r.Header.Set(c.q.header[i], c.q.header[i+1])
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if res, err := l.srv.Client().Do(r); err == nil {
					res.Body.Close()
				}
			}()
			<-begun
			leave()
			<-gone
			if !c.goes {
				if e := l.over(); e.Reason != resume.ReasonLeft || e.Stream {
					t.Errorf("ended for %v", e.Reason)
				}
				if used, logs := l.store.Used(); used != 0 || logs != 0 {
					t.Errorf("%d bytes of %d logs are left", used, logs)
				}
				return
			}
			until(t, "nobody reads", func() bool { return l.runs.Stats().Detached == 1 })
			close(each)
			l.over()
			again := l.send(c.q).want(http.StatusOK)
			if got := again.rest(); got != numbered(again.id(), 1, chunk) {
				t.Errorf("%q", got)
			}
			l.wantAsked(1)
		})
	}
}

// TestAnswerThatIsNoStreamAfterItsClientLeft is nobody's, and its upstream is told.
func TestAnswerThatIsNoStreamAfterItsClientLeft(t *testing.T) {
	begun, each, wrote := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		close(begun)
		<-each
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, "{}")
		wrote <- err
		<-r.Context().Done()
		return nil
	})
	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.srv.URL+chatPath, strings.NewReader(asking))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(key, "k")
	go func() {
		<-begun
		leave()
	}()
	if res, err := l.srv.Client().Do(r); err == nil {
		res.Body.Close()
		t.Fatal("answered")
	}
	until(t, "nobody reads", func() bool { return l.runs.Stats().Detached == 1 })
	close(each)
	if err := <-wrote; err == nil {
		t.Error("it could be written")
	}
	if e := l.over(); e.Stream || e.Reason != resume.ReasonNone {
		t.Errorf("%+v", e)
	}
	if st := l.runs.Stats(); st.Detached != 0 {
		t.Errorf("stats %+v", st)
	}
}
