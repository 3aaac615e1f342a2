package resume_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestRunWithoutReader keeps the events that come while no client reads them, for longer
// than detach and beyond max_detached, and gives them to all that come, also after the end.
func TestRunWithoutReader(t *testing.T) {
	set := func(o *resume.Options) { o.Detach, o.MaxDetached = time.Second, 1 }
	eachGateway(t, set, func(t *testing.T, l *lab, g *gateway) {
		l.begins("Authorization", "Bearer a")
		g.says("a")
		time.Sleep(time.Hour)
		g.says("b")
		l.wantDetached(0)
		l.wantOpen(1)
		first := l.send(ofRun("Authorization", "Bearer a")).want(http.StatusOK)
		second := l.send(ofRun("Authorization", "Bearer a")).want(http.StatusOK)
		first.next()
		first.leave() // which stops nothing
		synctest.Wait()
		g.completes()
		want := g.opens() + g.events(0) + closes
		second.wantRest(want)
		l.send(ofRun("Authorization", "Bearer a")).want(http.StatusOK).wantRest(want)
		attached := l.runs.Stats().TotalAttached
		l.send(ofRun("Authorization", "Bearer a", lastID, "2")).want(http.StatusNoContent)
		if l.runs.Stats().TotalAttached != attached {
			t.Error("a client that has all was given the stream")
		}
		g.wantRead(t, 1)
		if h := g.asked[0].Header; h.Get("Authorization") != "Bearer a" || h.Get("Content-Type") != "" || h.Get("Accept") != "text/event-stream" {
			t.Errorf("upstream was asked with %v", h)
		}
		time.Sleep(resume.DefaultKeep)
		synctest.Wait()
		l.wantEmpty()
	})
}

// TestRunReaderThatIsCut gives a client that is cut after every event each of them once,
// with Last-Event-ID as with last_seq. The run was begun with a key.
func TestRunReaderThatIsCut(t *testing.T) {
	eachGateway(t, nil, func(t *testing.T, l *lab, g *gateway) {
		l.begins(key, "k")
		const events = 20
		got, last := "", ""
		for i := range events {
			g.says(strconv.Itoa(i))
			q := ofRun()
			if last != "" && i%2 == 0 {
				q = ofRun(lastID, last)
			} else if last != "" {
				q.path += "?last_seq=" + last
			}
			r := l.send(q).want(http.StatusOK)
			e := r.next()
			r.leave()
			got += strings.TrimPrefix(e, ": open\n")
			_, id, _ := strings.Cut("\n"+e, "\nid: ")
			if last, _, _ = strings.Cut(id, "\n"); last != strconv.Itoa(i) {
				t.Fatalf("the event %d has the id %q: %q", i, last, e)
			}
		}
		if want := g.events(0); got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
		g.wantRead(t, 1)
		if h := g.asked[0].Header; h.Get(key) != "" {
			t.Errorf("upstream was asked with %v", h)
		}
	})
}

// TestRunWithoutLog lets the first client that asks for events read them from upstream, from the
// beginning whatever it has, for all that come later.
func TestRunWithoutLog(t *testing.T) {
	eachGateway(t, nil, func(t *testing.T, l *lab, g *gateway) {
		g.says("a", "b")
		q := ofRun(lastID, "0")
		q.path += "?last_seq=0&x=1"
		first := l.send(q).want(http.StatusOK)
		second := l.send(ofRun()).want(http.StatusOK)
		first.wantNext(g.opens() + g.event(1))
		second.wantNext(g.opens() + g.event(0))
		first.leave()
		second.leave()
		synctest.Wait()
		l.wantOpen(1)
		g.completes()
		synctest.Wait()
		g.wantRead(t, 1)
		if r := g.asked[0]; r.Header.Get(lastID) != "" || r.URL.RawQuery != "x=1" {
			t.Errorf("upstream was asked with %v and %q", r.Header, r.URL.RawQuery)
		}
	})
}

// TestRunWhoseLogCannotBeReached is not read from upstream, whose one reader is somewhere else. If it is
// not known that there is a log, it is read from there, and shared with no other.
func TestRunWhoseLogCannotBeReached(t *testing.T) {
	for err, want := range map[error]struct{ head, get int }{
		log.ErrTaken: {http.StatusServiceUnavailable, http.StatusServiceUnavailable},
		errAway:      {http.StatusMethodNotAllowed, http.StatusOK},
	} {
		eachGateway(t, odd(func(int64) error { return err }), func(t *testing.T, l *lab, g *gateway) {
			l.send(headOfRun).want(want.head)
			l.wantAsked(0)
			l.begins()
			g.says("a")
			r := l.send(ofRun()).want(want.get)
			if want.get == http.StatusServiceUnavailable {
				g.wantRead(t, 0)
			} else if got := strings.TrimPrefix(r.next(), ": open\n\n"); got != "" && got != g.said[0] {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestRunWhoseStorePanics begins all the same, and the panic is told: it is in a goroutine of ours.
func TestRunWhoseStorePanics(t *testing.T) {
	set := odd(func(int64) error { panic("broken") })
	eachGateway(t, set, func(t *testing.T, l *lab, g *gateway) {
		l.begins()
		if e := l.over(); e.Panicked == nil || !strings.Contains(e.Panicked.Error(), "broken") {
			t.Errorf("it ended with %+v", e)
		}
		g.wantRead(t, 0)
	})
}

// TestRunWhoseReaderIsFaster than the claim after the POST, and leaves before the first event: an old
// Hermes would drop them all. What reads along instead does not hold up the end of the process.
func TestRunWhoseReaderIsFaster(t *testing.T) {
	var claim chan struct{}
	set := func(o *resume.Options) {
		claim = make(chan struct{})
		odd(func(n int64) error {
			if n == 1 {
				<-claim
			}
			return nil
		})(o)
	}
	for _, says := range []bool{true, false} {
		eachGateway(t, set, func(t *testing.T, l *lab, g *gateway) {
			l.begins()
			r := l.send(ofRun()).want(http.StatusOK)
			close(claim)
			synctest.Wait()
			r.leave()
			synctest.Wait()
			if !says {
				if took := l.drains(); took > time.Second {
					t.Errorf("it waited %v", took)
				}
				l.wantOpen(0)
				return
			}
			g.says("a")
			synctest.Wait()
			if st := l.runs.Stats(); st.Readers != 0 {
				t.Errorf("%d clients read", st.Readers)
			}
			if got := l.send(ofRun()).want(http.StatusOK).next(); !strings.Contains(got, "id: 0\n") {
				t.Errorf("got %q", got)
			}
			g.wantRead(t, 1)
		})
	}
}

// drains waits for the end of all runs, for at most a minute, and returns for how long.
func (l *lab) drains() time.Duration {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l.runs.Wait(ctx)
	return time.Since(began)
}

// TestRunWhoseReaderIsRefused while the run's log is claimed has its events kept.
func TestRunWhoseReaderIsRefused(t *testing.T) {
	set := odd(func(n int64) error {
		if n == 1 {
			return errDropped
		}
		return nil
	})
	eachGateway(t, set, func(t *testing.T, l *lab, g *gateway) {
		l.begins()
		g.wantRead(t, 1)
		g.says("a")
		g.completes()
		l.wantOpen(0)
	})
}

// TestRunThatSaysNothing is let go with its last client, if no POST has begun it here: upstream
// may send keepalives for ever.
func TestRunThatSaysNothing(t *testing.T) {
	eachGateway(t, nil, func(t *testing.T, l *lab, g *gateway) {
		q := ofRun()
		q.path += "?y=%41&x"
		r := l.send(q).want(http.StatusOK)
		l.wantOpen(1)
		r.leave()
		l.wantOpen(0)
		l.wantEmpty()
		if got := g.asked[0].URL.RawQuery; got != "y=%41&x" { // the same bytes
			t.Errorf("upstream was asked with %q", got)
		}
	})
}

// TestRunWithOtherCredentials is for all that upstream lets have its status, in which no event is lost
// for the others. Those whose credentials are wrong get what upstream says to that, and no event.
func TestRunWithOtherCredentials(t *testing.T) {
	eachGateway(t, nil, func(t *testing.T, l *lab, g *gateway) {
		g.key = "a"
		l.send(ofRun("Authorization", "Bearer b")).want(http.StatusUnauthorized)
		l.wantEmpty() // the first is also refused
		l.begins("Authorization", "Bearer a")
		g.says("a")
		for _, wrong := range [][]string{{"Authorization", "Bearer b"}, {"Authorization", "Bearer b", lastID, "0"}, nil} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				r := l.send(request{method, eventsPath, "", wrong}).want(http.StatusUnauthorized)
				if got := r.rest(); method == http.MethodGet && got != `{"error": {"code": "invalid_api_key"}}` {
					t.Errorf("%s %v got %q", method, wrong, got)
				}
				if got := r.Header.Get("Content-Type"); got != "application/json" {
					t.Errorf("Content-Type %q", got)
				}
			}
		}
		other := ofRun("Authorization", "Bearer  a", "Cookie", "a=1", "If-None-Match", "*", "Range", "bytes=0-1")
		second := l.send(other).want(http.StatusOK)
		first := l.send(ofRun("Authorization", "Bearer a")).want(http.StatusOK)
		for _, r := range []*reply{first, second} {
			r.wantNext(g.opens() + g.event(0))
		}
		second.leave()
		g.completes()
		if got := first.rest(); !strings.Contains(got, "id: 1\n") {
			t.Errorf("the owner got %q", got)
		}
		other.method = http.MethodHead
		l.send(other).want(http.StatusOK)
		g.wantRead(t, 1)
		other.path = "/other" + eventsPath // of which nothing is known
		l.send(other).want(http.StatusMethodNotAllowed)
	})
}

// TestRunWhoseStatusIsNone is read by its owner alone: only a status says that others may.
func TestRunWhoseStatusIsNone(t *testing.T) {
	page := func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", "text/html")
		_, err := io.WriteString(w, "<form>")
		return err
	}
	for name, c := range map[string]struct {
		status int
		answer func(w http.ResponseWriter) error
	}{
		"a page":  {http.StatusOK, page},
		"nothing": {http.StatusOK, func(http.ResponseWriter) error { return nil }},
		"an error": {http.StatusTeapot, func(w http.ResponseWriter) error {
			w.Header().Set("X-Set", "1")
			return errors.New("away")
		}},
		"another": {http.StatusAccepted, func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			status := func(w http.ResponseWriter, _ *http.Request) error { return c.answer(w) }
			atGateway(t, false, nil, except(runsPath+"/run_1", status), func(t *testing.T, l *lab, g *gateway) {
				l.begins("Authorization", "Bearer a")
				g.says("a")
				r := l.send(ofRun()).want(c.status)
				if got := r.rest(); strings.Contains(got, "data:") {
					t.Errorf("got %q", got)
				}
				if name == "an error" && r.Header.Get("X-Set") != "1" {
					t.Errorf("header %v", r.Header)
				}
				l.send(ofRun("Authorization", "Bearer a")).want(http.StatusOK).next()
				g.wantRead(t, 1)
			})
		})
	}
}

// TestRunBelowAPath is that of the server and the path that the client asked for, whatever handlers
// in front have made of it.
func TestRunBelowAPath(t *testing.T) {
	set := func(o *resume.Options) {
		o.Target = func(r *http.Request) (server, path string) { return r.Header.Get("X-Server"), r.Header.Get("X-Path") }
	}
	eachGateway(t, set, func(t *testing.T, l *lab, g *gateway) {
		l.begins("X-Server", "1", "X-Path", "/a"+runsPath)
		g.says("a")
		synctest.Wait()
		for i, at := range [][2]string{{"1", "/a" + eventsPath}, {"2", "/a" + eventsPath}, {"1", "/b" + eventsPath}} {
			l.send(ofRun("X-Server", at[0], "X-Path", at[1])).leave()
			synctest.Wait()
			g.wantRead(t, i+1)
		}
	})
}

// TestRunHasARequestOfItsOwn for its events, made before handlers change that of the client.
func TestRunHasARequestOfItsOwn(t *testing.T) {
	set := func(o *resume.Options) {
		o.Detached = func(r *http.Request, w http.ResponseWriter) (*http.Request, func()) {
			r.Header.Set("X-Detached", r.Method+" "+r.Header.Get("X-Changed"))
			return r, func() {}
		}
	}
	g := newGateway(true)
	next := func(w http.ResponseWriter, r *http.Request) error {
		err := g.serve(w, r)
		r.URL.Path = "/elsewhere"
		r.Header.Set("X-Changed", "1")
		return err
	}
	l := newLab(t, set, next)
	l.send(request{http.MethodPost, runsPath, "{}", nil}).want(http.StatusAccepted).rest()
	g.says("a")
	g.completes()
	l.over()
	g.wantRead(t, 1)
	if h := g.asked[0].Header; h.Get("X-Detached") != "GET " {
		t.Errorf("it is asked for with %v", h)
	}
	if got := l.send(ofRun()).want(http.StatusOK).rest(); !strings.Contains(got, g.event(0)) {
		t.Errorf("got %q", got)
	}
	g.wantRead(t, 1)
}

// TestHeadOfRunEvents is answered from the log. Without one, upstream is not asked: it would answer
// as to a GET, and events would be lost.
func TestHeadOfRunEvents(t *testing.T) {
	eachGateway(t, nil, func(t *testing.T, l *lab, g *gateway) {
		r := l.send(headOfRun).want(http.StatusMethodNotAllowed)
		if got := r.Header.Get("Allow"); got != http.MethodGet {
			t.Errorf("it may be asked for by %q", got)
		}
		l.wantAsked(0)
		l.wantEmpty()
		l.begins()
		g.says("a")
		r = l.send(headOfRun).want(http.StatusOK)
		if got := r.Header.Get("Content-Type"); got != "text/event-stream" || r.rest() != "" {
			t.Errorf("Content-Type %q", got)
		}
		g.completes()
		if got := l.send(ofRun()).want(http.StatusOK).rest(); !strings.Contains(got, "id: 1\n") {
			t.Errorf("after it comes %q", got)
		}
		g.wantRead(t, 1)
	})
}

// TestRunThatIsUnknownToTwo also gets upstream's own answer for the second client, which has waited.
func TestRunThatIsUnknownToTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		l := newPipeLab(t, nil, func(w http.ResponseWriter, _ *http.Request) error {
			<-answer
			w.WriteHeader(http.StatusNotFound)
			_, err := io.WriteString(w, "unknown run")
			return err
		})
		first, second := l.sending(ofRun()), l.sending(ofRun())
		synctest.Wait()
		close(answer)
		for _, r := range []*reply{<-first, <-second} {
			r.want(http.StatusNotFound).wantRest("unknown run")
		}
		l.wantAsked(2)
		l.wantEmpty()
	})
}

// TestAnswersThatBeginNoRun have no events read.
func TestAnswersThatBeginNoRun(t *testing.T) {
	for name, answer := range map[string]struct {
		status int
		body   string
		err    error
	}{
		"another status": {http.StatusOK, `{"run_id": "run_1"}`, nil},
		"too long":       {http.StatusAccepted, `{"run_id": "run_1", "x": "` + strings.Repeat("x", 16<<10) + `"}`, nil},
		"no id":          {http.StatusAccepted, `{}`, nil},
		"a path":         {http.StatusAccepted, `{"run_id": "../run_1"}`, nil},
		"no JSON":        {http.StatusAccepted, `run_1`, nil},
		"an error":       {http.StatusAccepted, `{"run_id": "run_1"}`, errors.New("broken")},
	} {
		t.Run(name, func(t *testing.T) {
			next := func(w http.ResponseWriter, r *http.Request) error {
				w.WriteHeader(answer.status)
				_, _ = io.WriteString(w, answer.body)
				return answer.err
			}
			inBubble(t, nil, next, func(t *testing.T, l *lab) {
				l.send(request{http.MethodPost, runsPath, "{}", nil}).want(answer.status).wantRest(answer.body)
				synctest.Wait()
				l.wantAsked(1)
				l.wantEmpty()
			})
		})
	}
}

// TestRunWhoseEventsBreakOff is asked for the rest if upstream repeats events, and its readers notice
// nothing, also when hermes is between, which gives others the end that they lack.
func TestRunWhoseEventsBreakOff(t *testing.T) {
	eachGuarded(t, func(t *testing.T, l *lab, g *gateway, isGuarded bool) {
		if g.cut = errors.New("reset"); !isGuarded {
			g.cut = http.ErrAbortHandler
		}
		l.begins()
		g.says("a")
		r := l.send(ofRun()).want(http.StatusOK)
		first := r.next()
		g.cuts <- struct{}{}
		if g.isNew {
			g.says("b")
			g.cuts <- struct{}{}
			g.completes()
			r.wantRest(g.opens() + g.event(1) + g.opens() + g.event(2) + closes)
			g.wantRead(t, 3)
			for n, r := range g.asked[1:] {
				if got := r.Header.Get(lastID); got != strconv.Itoa(n) {
					t.Errorf("it was asked for what follows %q, want %d", got, n)
				}
			}
			return
		}
		if !isGuarded {
			r.broken()
		} else if rest := r.rest(); !strings.Contains(rest, "\"event\": \"run.failed\"") || !strings.Contains(rest, "id: 1\n") {
			t.Errorf("the end is %q", rest)
		}
		// Upstream has dropped the rest: this is the same for all.
		l.send(ofRun()).want(http.StatusOK).wantNext(first)
		g.wantRead(t, 1)
	})
}

// TestRunThatBreaksOffBeforeItsEvents is asked for again. An old Hermes has dropped them, and says so.
func TestRunThatBreaksOffBeforeItsEvents(t *testing.T) {
	eachGuarded(t, func(t *testing.T, l *lab, g *gateway, _ bool) {
		g.cut = errors.New("reset")
		l.begins()
		r := l.send(ofRun()).want(http.StatusOK)
		g.cuts <- struct{}{}
		if !g.isNew {
			if got := r.broken(); got != "" {
				t.Errorf("got %q", got)
			}
			synctest.Wait() // until its log is deleted, which is after its end
			l.send(ofRun()).want(http.StatusNotFound)
			return
		}
		g.says("a")
		g.completes()
		synctest.Wait()
		if got := g.asked[1].Header.Get(lastID); got != "" {
			t.Errorf("it was asked for what comes after %v", got)
		}
		r.wantRest(g.opens() + g.opens() + g.events(0) + closes)
	})
}

// TestRunWhoseEventsStayAway is asked for them for a minute. Then it breaks off for its readers, and the
// next one asks from the beginning. If upstream says that it has no more, it ends at once.
func TestRunWhoseEventsStayAway(t *testing.T) {
	for by, wrap := range guards {
		for status, want := range map[int]time.Duration{http.StatusBadGateway: time.Minute, http.StatusNotFound: 0} {
			t.Run(fmt.Sprint(by, " ", status), func(t *testing.T) {
				var away atomic.Bool
				mayBeAway := func(next resume.Next) resume.Next {
					if wrap != nil {
						next = wrap(next)
					}
					return func(w http.ResponseWriter, r *http.Request) error {
						if !away.Load() {
							return next(w, r)
						}
						w.WriteHeader(status)
						_, _ = io.WriteString(w, "away")
						return nil
					}
				}
				atGateway(t, true, nil, mayBeAway, func(t *testing.T, l *lab, g *gateway) {
					g.cut = http.ErrAbortHandler
					l.begins()
					g.says("a")
					r := l.send(ofRun()).want(http.StatusOK)
					r.next()
					away.Store(true)
					began := time.Now()
					g.cuts <- struct{}{}
					if got := r.broken(); got != "" {
						t.Errorf("after the break comes %q", got)
					}
					if took := time.Since(began); took < want || took > want+10*time.Second {
						t.Errorf("it took %v, want %v", took, want)
					}
					if n := l.asked.Load(); n > 20 {
						t.Errorf("upstream was asked %d times", n)
					}
					l.over()
					l.wantEmpty()
					away.Store(false)
					g.says("b")
					g.completes()
					l.send(ofRun(lastID, "0")).want(http.StatusOK).wantRest(g.opens() + g.events(1) + closes)
				})
			})
		}
	}
}

// TestRunWhoseHandlerPanics breaks off, and the panic is told.
func TestRunWhoseHandlerPanics(t *testing.T) {
	panics := except(eventsPath, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 0\n"+event(1))
		panic("broken")
	})
	atGateway(t, true, nil, panics, func(t *testing.T, l *lab, _ *gateway) {
		l.begins()
		if e := l.over(); e.Panicked == nil || !strings.Contains(e.Panicked.Error(), "broken") {
			t.Errorf("it ended with %+v", e)
		}
		l.wantEmpty()
		l.wantAsked(2)
	})
}

// TestRunThatFails is over, also with a new Hermes: its own failure is no break.
func TestRunThatFails(t *testing.T) {
	const failed = `id: 0` + "\n" + `data: {"event": "run.failed", "run_id": "run_1", "error": "boom", "seq": 0}` + "\n\n"
	fails := except(eventsPath, streams([]string{failed}, always()))
	atGateway(t, true, nil, fails, func(t *testing.T, l *lab, _ *gateway) {
		l.begins()
		l.send(ofRun()).want(http.StatusOK).wantRest(failed)
		l.send(ofRun(lastID, "0")).want(http.StatusNoContent)
		l.wantAsked(2)
	})
}

// TestRunsWhenMemoryIsShort loses the events of a run first: the run goes on. A client that comes
// back to a new Hermes gets them all, and from an old one what that says.
func TestRunsWhenMemoryIsShort(t *testing.T) {
	set := func(o *resume.Options) { o.MaxMemory, o.MaxStream = 128<<10, 64<<10 }
	others := except(otherPath, func(w http.ResponseWriter, r *http.Request) error {
		if r.Header.Get("X-Big") != "" {
			return streams(append(events(1), bursts(1, 60<<10)...), always())(w, r)
		}
		return silent(w, r)
	})
	test := func(t *testing.T, l *lab, g *gateway) {
		l.leaves(post(key, "k")) // the oldest
		l.begins()
		g.says(strings.Repeat("a", 40<<10))
		l.wantOpen(2)
		l.send(post(key, "big", "X-Big", "1")).want(http.StatusOK).rest()
		l.wantOpen(1)
		if e := l.over(); e.Reason != log.ReasonMemory && l.over().Reason != log.ReasonMemory {
			t.Errorf("the run ended for %v", e.Reason)
		}
		l.wantDetached(1) // the one of a key
		if again := l.send(ofRun()); g.isNew {
			again.want(http.StatusOK).wantNext(g.opens() + g.event(0))
		} else {
			again.want(http.StatusNotFound) // says upstream: the run's own log has no end, and is gone
		}
	}
	atGateway(t, true, set, others, test)
	atGateway(t, false, set, others, test)
}

// TestRunWithMoreThanIsKept begins with the oldest event, and refuses to go on after one that is
// no longer followed by the next.
func TestRunWithMoreThanIsKept(t *testing.T) {
	set := func(o *resume.Options) { o.MaxStream = 64 << 10 }
	eachGateway(t, set, func(t *testing.T, l *lab, g *gateway) {
		l.begins()
		const events = 100
		for range events {
			g.says(strings.Repeat("x", 1<<10))
		}
		g.completes()
		synctest.Wait()
		p := problemOf(t, l.send(ofRun(lastID, "3")), http.StatusGone)
		first, _ := p["first"].(float64)
		r := l.send(ofRun()).want(http.StatusOK)
		oldest := r.next()
		if want := fmt.Sprintf("id: %v\n", first); first < 4 || first >= events || !strings.Contains("\n"+oldest, "\n"+want) {
			t.Errorf("the first is %v, and %q", first, oldest)
		}
		l.send(ofRun(lastID, fmt.Sprint(first-1))).want(http.StatusOK).wantNext(oldest)
		l.send(ofRun(lastID, strconv.Itoa(events))).want(http.StatusNoContent)
	})
}

// TestRunAtTheEndOfTheProcess gets an end from old versions of Hermes only: new ones are asked
// again by the next process.
func TestRunAtTheEndOfTheProcess(t *testing.T) {
	eachGateway(t, nil, func(t *testing.T, l *lab, g *gateway) {
		l.begins()
		g.says("a")
		r := l.send(ofRun()).want(http.StatusOK)
		r.next()
		l.runs.Shutdown(1)
		if g.isNew {
			r.broken()
			synctest.Wait()
			l.wantEmpty()
			return
		}
		if got := r.rest(); !strings.Contains(got, `"event": "run.failed"`) || !strings.Contains(got, rewrite.Message("shutting_down")) || !strings.HasPrefix(got, "id: 1\n") {
			t.Errorf("got %q", got)
		}
	})
}

// TestWaitingForRuns at the end of the process is for those that have a reader or that upstream ends
// with this process. Hermes' own go on.
func TestWaitingForRuns(t *testing.T) {
	for name, c := range map[string]struct {
		reads, detached bool
		want            time.Duration
	}{
		"nobody reads":   {false, false, 0},
		"a reader stays": {true, false, time.Minute},
		"another run":    {false, true, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			atGateway(t, true, nil, except(otherPath, silent), func(t *testing.T, l *lab, g *gateway) {
				l.begins()
				g.says("a")
				open := 0
				if c.reads {
					l.send(ofRun()).want(http.StatusOK).next()
					open++
				}
				if c.detached {
					l.leaves(post(key, "k"))
					open++
				}
				if took := l.drains(); took < c.want || took > c.want+time.Second {
					t.Errorf("it waited %v, want %v", took, c.want)
				}
				l.wantOpen(open)
				if open > 0 {
					return
				}
				l.wantOver(log.ReasonShutdown)
			})
		})
	}
}

// TestManyRuns has the events of some more passed as they come.
func TestManyRuns(t *testing.T) {
	const most = 256
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{}) // ends one
		l := newPipeLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusAccepted)
				_, err := fmt.Fprintf(w, `{"run_id": "run_%s"}`, r.URL.RawQuery)
				return err
			}
			each := onlyOnce()
			if strings.Contains(r.URL.Path, "run_1/") {
				each = first
			}
			return streams([]string{event(1), ""}, each)(w, r)
		})
		for i := range most + 1 {
			l.send(request{http.MethodPost, runsPath + "?" + strconv.Itoa(i), "", nil}).want(http.StatusAccepted).rest()
			synctest.Wait()
		}
		l.wantOpen(most)
		events := func(id int) string {
			r := l.send(request{http.MethodGet, fmt.Sprintf("/v1/runs/run_%d/events", id), "", nil}).want(http.StatusOK)
			defer r.leave()
			return r.next()
		}
		asked := l.asked.Load()
		for range 2 {
			if got := events(most); got != event(1) {
				t.Errorf("of the last: %q", got)
			}
		}
		if got := events(0); got != withIDs("", 0, event(1)) {
			t.Errorf("of the first: %q", got)
		}
		l.wantAsked(asked + 2)
		close(first)
		l.wantOpen(most - 1)
		l.send(request{http.MethodPost, runsPath + "?more", "", nil}).want(http.StatusAccepted).rest()
		l.wantOpen(most)
		l.runs.Shutdown(1)
		time.Sleep(time.Second)
		synctest.Wait()
		l.wantOpen(0)
	})
}
