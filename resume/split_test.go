package resume_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// held is how long the runs of tests are held after a split.
const held = 5 * time.Minute

// splitting runs a test in a bubble, with a lab in front of a script that begins with the event 1.
func splitting(t *testing.T, set func(*resume.Options), test func(t *testing.T, l *lab, up *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // the channels are also of the bubble
		up := newScript(event(1))
		test(t, newPipeLab(t, set, up.next), up)
	})
}

// prepare has the handler prepare a split.
func (s *script) prepare() (split *resume.Split) {
	s.do(func(_ http.ResponseWriter, r *http.Request) error {
		split = resume.NewSplit(r.Context(), held)
		return nil
	})
	return split
}

// split has the stream split, goes on with the pieces, and returns the split.
func (s *script) split(t *testing.T, pieces ...string) *resume.Split {
	t.Helper()
	if s.last = s.prepare(); s.last == nil || !s.last.Do() {
		t.Fatal("it is not split")
	}
	s.write(pieces...)
	return s.last
}

// toRest is a request for the rest of the stream that a script has split.
var toRest = request{method: http.MethodPost, path: restPath}

func (l *lab) rest() *reply {
	l.t.Helper()
	return l.send(toRest)
}

// TestSplit ends the first stream for all who read it, as a whole one, and has the run go on in
// another, which clients get from its beginning, also twice and again by its id.
func TestSplit(t *testing.T) {
	splitting(t, func(o *resume.Options) { o.Keep = time.Minute }, func(t *testing.T, l *lab, up *script) {
		first := l.send(post(key, "k")).want(http.StatusOK)
		second := l.send(post(key, "k")).want(http.StatusOK)
		first.next()
		second.next()
		split := up.split(t, event(2))
		first.wantRest("")
		second.wantRest("")
		l.wantDetached(1)
		if again := l.send(post(key, "k")).want(http.StatusOK); again.id() != first.id() || again.rest() != numbered(first.id(), 1, event(1)) {
			t.Error("a repeat gets another stream")
		}
		a := l.rest().want(http.StatusOK)
		b := l.send(request{method: http.MethodGet, path: otherPath + "/" + split.ID()}).want(http.StatusOK)
		l.wantDetached(0)
		up.end(well)
		want := numbered(split.ID(), 1, event(2))
		for _, r := range []*reply{a, b, l.rest().want(http.StatusOK)} {
			r.wantRest(want)
			h := r.Header
			if h.Get(resume.StreamHeader) != split.ID() || h.Get("Content-Location") != otherPath+"/"+split.ID() || h.Get("X-Kind") != "a" {
				t.Errorf("header %v", h)
			}
		}
		if e := l.over(); e.Events != 2 || e.Reason != log.ReasonNone || !e.Stream {
			t.Errorf("%+v", e)
		}
		l.wantAsked(3) // twice for the rest
		time.Sleep(held - 1)
		l.rest().want(http.StatusOK).rest()
		time.Sleep(1)
		synctest.Wait()
		problemOf(t, l.rest(), http.StatusNotFound)
		l.wantEmpty()
		w := httptest.NewRecorder()
		if err := split.Rest(w, httptest.NewRequest(http.MethodPost, chatPath, nil)); err != nil || w.Code != http.StatusNotFound {
			t.Errorf("without resume in front it is %d, %v", w.Code, err)
		}
	})
}

// TestRunIsHeldAfterASplit for that time and then as after a client has left, also if a client has come and gone.
func TestRunIsHeldAfterASplit(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		after  time.Duration
	}{
		"detach":     {[]string{key, "k"}, 10 * time.Minute},
		"the header": {[]string{key, "k", resume.DetachHeader, "30s"}, 30 * time.Second},
		"no detach":  {[]string{key, "k", resume.DetachHeader, "0s"}, 0},
		"an SDK":     {[]string{retryHeader, "0"}, 10 * time.Minute},
	} {
		for _, comes := range []bool{false, true} {
			t.Run(name+", one comes: "+strconv.FormatBool(comes), func(t *testing.T) {
				splitting(t, nil, func(t *testing.T, l *lab, up *script) {
					l.send(chat(c.header...)).next()
					up.split(t, event(2))
					if comes {
						time.Sleep(time.Minute)
						r := l.rest().want(http.StatusOK)
						l.wantDetached(0)
						time.Sleep(time.Minute)
						r.leave()
						l.wantDetached(1)
						time.Sleep(held - 2*time.Minute + c.after - 1)
					} else {
						time.Sleep(held + c.after - 1)
					}
					l.wantOpen(1)
					time.Sleep(1)
					l.wantOver(log.ReasonExpired)
				})
			})
		}
	}
}

// TestWhatMayNotBeSplit ends nothing and leaves nothing.
func TestWhatMayNotBeSplit(t *testing.T) {
	responses := post(key, "k")
	responses.path = "/v1/responses"
	for name, c := range map[string]struct {
		set   func(*resume.Options)
		media string
		q     request
		want  string // where it may be split
	}{
		"a stream":                {nil, "", post(key, "k"), "y---"}, // given up, it is not split any more
		"no run":                  {nil, "", post(), "----"},
		"a response":              {nil, "", responses, "----"},
		"a body":                  {nil, "application/json", post(key, "k"), "-"},
		"a body of an SDK":        {nil, "application/json", post(retryHeader, "0"), "-"},
		"no room":                 {func(o *resume.Options) { o.MaxDetached = 0 }, "", post(key, "k"), "----"},
		"the storage is down":     {odd(func(n int64) error { return awayIf(n > 1) }), "", post(key, "k"), "----"},
		"no stream of an agent's": {nil, "", request{http.MethodGet, eventsPath, "", nil}, "----"},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			up := newScript()
			if up.media = c.media; c.media != "" {
				up.pieces = []string{"{}"}
			}
			l := newPipeLab(t, c.set, up.next)
			got := l.sending(c.q)
			for i, want := range c.want {
				if i > 0 {
					up.do(func(w http.ResponseWriter, _ *http.Request) error { // not flushed, as nobody reads
						_, err := io.WriteString(w, []string{event(1), "data:", " 2\n\n"}[i-1])
						return err
					})
				}
				split := up.prepare()
				if (split != nil) != (want == 'y') {
					t.Errorf("%d: it may be split: %v", i, split != nil)
				}
				synctest.Wait()
				if n := l.runs.Stats().Detached; (n == 1) != (want == 'y') {
					t.Errorf("%d: there is room for %d", i, n)
				}
				split.Release()
				split.Release()
				if split != nil && split.Do() {
					t.Error("it is split after Release")
				}
			}
			up.end(well)
			r := (<-got).want(http.StatusOK)
			if text := r.rest(); len(c.want) == 4 && strings.Count(text, "data: ") != 2 {
				t.Errorf("it gets %q", text)
			}
			synctest.Wait()
			if st := l.runs.Stats(); st.Detached != 0 || st.TotalDetached != 0 || st.Awaiting != 0 {
				t.Errorf("stats %+v", st)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			l.wantEmpty()
		})
	}
	if resume.NewSplit(context.Background(), held) != nil {
		t.Error("without resume it may be split")
	}
}

// TestEndsAfterASplit are those of the rest: what came before is whole, whatever becomes of the run.
func TestEndsAfterASplit(t *testing.T) {
	for name, c := range map[string]struct {
		end      func() error
		panicked bool
		failed   bool
	}{
		"the end":   {well, false, false},
		"an error":  {func() error { return errors.New("failed") }, false, true},
		"an abort":  {func() error { panic(http.ErrAbortHandler) }, false, true},
		"a panic":   {func() error { panic("boom") }, true, true},
		"gone away": {func() error { runtime.Goexit(); return nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			splitting(t, nil, func(t *testing.T, l *lab, up *script) {
				first := l.send(post(key, "k")).want(http.StatusOK)
				first.next()
				split := up.split(t, event(2))
				rest := l.rest().want(http.StatusOK)
				rest.next()
				up.end(c.end) // before the first client has noticed
				got := ""
				if c.failed {
					got = rest.broken()
				} else {
					got = rest.rest()
				}
				if first.rest() != "" || got != "" {
					t.Errorf("after the split comes %q", got)
				}
				if e := l.over(); (e.Panicked != nil) != c.panicked {
					t.Errorf("%+v", e)
				}
				again := l.rest().want(http.StatusOK)
				again.wantNext(numbered(split.ID(), 1, event(2)))
				before := l.send(post(key, "k")).want(http.StatusOK)
				before.wantRest(numbered(first.id(), 1, event(1)))
			})
		})
	}
}

// TestRestThatNeverCame is the end of a run that has sent nothing since the split: it is there for the
// client that asks for it, and the key stays the first stream's.
func TestRestThatNeverCame(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *lab){
		"the time is over":    func(*testing.T, *lab) { time.Sleep(held + 10*time.Minute) },
		"the process ends":    func(_ *testing.T, l *lab) { l.runs.Shutdown(1); time.Sleep(1) },
		"upstream breaks off": nil,
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			up := newScript(chunk)
			l := newPipeLab(t, nil, up.next)
			first := l.send(chat(key, "k")).want(http.StatusOK)
			split := up.split(t)
			if first.rest() != numbered(first.id(), 1, chunk) {
				t.Error("the first stream is not whole")
			}
			if end == nil {
				up.end(func() error { panic(http.ErrAbortHandler) })
			} else {
				end(t, l)
			}
			l.over()
			rest := l.rest().want(http.StatusOK)
			if end == nil {
				rest.broken()
			} else if got := rest.rest(); !strings.Contains(got, `"error"`) || !strings.HasSuffix(got, "data: [DONE]\nid: "+split.ID()+"/3\n\n") {
				t.Errorf("the rest is %q", got)
			}
		})
	}
}

// TestDeleteEndsARunThatWasSplit by the id of any of its streams, also if that is gone, for its own
// client alone.
func TestDeleteEndsARunThatWasSplit(t *testing.T) {
	const a, b, c = 0, 1, 2
	for name, test := range map[string]struct {
		by    int
		after time.Duration
		owner bool
	}{
		"the first":                   {a, 0, true},
		"the second":                  {b, 0, true},
		"the last":                    {c, 0, true},
		"the second, which is gone":   {b, held + time.Second, true},
		"another's":                   {c, 0, false},
		"that before another's, gone": {b, held + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			splitting(t, nil, func(t *testing.T, l *lab, up *script) {
				first := l.send(post(key, "k"))
				first.next()
				ids := []string{first.id(), up.split(t, event(2)).ID(), up.split(t, event(3)).ID()}
				time.Sleep(test.after)
				synctest.Wait()
				q := request{method: http.MethodDelete, path: otherPath + "/" + ids[test.by]}
				if !test.owner {
					q.header = []string{"Authorization", "Bearer another"}
					problemOf(t, l.send(q), http.StatusNotFound)
					l.wantOpen(1)
					return
				}
				l.send(q).want(http.StatusNoContent)
				l.wantOver(log.ReasonDeleted)
				problemOf(t, l.rest(), http.StatusNotFound)
				problemOf(t, l.send(q), http.StatusNotFound)
			})
		})
	}
}

// TestClientsAroundASplit leave before it, or between its preparation and its end.
func TestClientsAroundASplit(t *testing.T) {
	for name, c := range map[string]struct {
		before, does bool // it leaves before the preparation; the split is done
	}{
		"before": {true, true}, "between": {false, true}, "between, given up": {false, false}, "before, given up": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			splitting(t, func(o *resume.Options) { o.MaxDetached = 1 }, func(t *testing.T, l *lab, up *script) {
				r := l.send(post(key, "k"))
				r.next()
				if c.before {
					r.leave()
					l.wantDetached(1)
					time.Sleep(time.Minute)
				}
				split := up.prepare()
				if split == nil {
					t.Fatal("it may not be split")
				}
				r.leave()
				synctest.Wait()
				if !c.does {
					split.Release()
				} else if !split.Do() {
					t.Error("it is not split")
				}
				l.wantDetached(1)
				goesOn := 10 * time.Minute
				switch {
				case c.does:
					goesOn += held
				case c.before:
					goesOn -= time.Minute
				}
				time.Sleep(goesOn - 1)
				l.wantOpen(1)
				time.Sleep(1)
				l.wantOver(log.ReasonExpired)
				l.wantDetached(0)
			})
		})
	}
}

// TestRestThroughARun that is another one: the reply's stream has ids of its own, and its client ends both.
func TestRestThroughARun(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		splitting(t, nil, func(t *testing.T, l *lab, up *script) {
			l.send(post(key, "k")).next()
			up.split(t, event(2))
			rest := l.send(request{http.MethodPost, restPath, asking, []string{key, "other", "Content-Type", "application/json"}}).want(http.StatusOK)
			if got := rest.next(); !strings.HasSuffix(got, "\nid: "+rest.id()+"/1\n\n") {
				t.Errorf("it gets %q", got)
			}
			if deletes {
				l.send(request{method: http.MethodDelete, path: restPath + "/" + rest.id()}).want(http.StatusNoContent)
				for range 2 {
					l.wantOver(log.ReasonDeleted)
				}
				return
			}
			rest.leave() // and comes back
			synctest.Wait()
			up.end(well)
			l.over()
			l.over()
			again := l.send(request{method: http.MethodGet, path: restPath + "/" + rest.id()}).want(http.StatusOK)
			if got := again.rest(); strings.Count(got, "data: ") != 1 {
				t.Errorf("again it is %q", got)
			}
		})
	}
}

// TestRestBeforeTheSplit waits for it, and is a client of the run from then on.
func TestRestBeforeTheSplit(t *testing.T) {
	for _, does := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			up := newScript()
			l := newPipeLab(t, func(o *resume.Options) { o.MaxDetached = 1 }, up.next)
			answer := l.sending(post(key, "k"))
			up.last = up.prepare() // nothing has been written
			up.write(event(1))
			first := <-answer
			first.next()
			rest := l.sending(toRest)
			synctest.Wait()
			if does {
				up.last.Do()
			} else {
				up.last.Release()
			}
			l.wantDetached(0)
			up.write(event(2))
			up.end(well)
			if !does {
				problemOf(t, <-rest, http.StatusNotFound)
				first.wantRest(numbered(first.id(), 2, event(2)))
				return
			}
			if got := (<-rest).rest(); got != numbered(up.last.ID(), 1, event(2)) || first.rest() != "" {
				t.Errorf("the rest is %q", got)
			}
		})
	}
}

// TestSplitInsideAnEvent is none: an event has one stream.
func TestSplitInsideAnEvent(t *testing.T) {
	for name, begin := range map[string]string{"an event": event(1) + "data: 2", "nothing": ""} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			up := newScript()
			l := newPipeLab(t, nil, up.next)
			answer := l.sending(post(key, "k"))
			if begin != "" {
				up.write(begin)
			}
			if split := up.prepare(); split == nil || split.Do() {
				t.Error("it is split")
			}
			up.write("\n\n" + event(3))
			up.end(well)
			if got := (<-answer).rest(); !strings.Contains(got, "data: 3") {
				t.Errorf("it gets %q", got)
			}
			l.over()
			if st := l.runs.Stats(); st.Detached != 0 || st.TotalDetached != 0 || st.Awaiting != 0 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

// TestSplitFreesTheKey of the configuration, as the client has been sent all of its stream.
func TestSplitFreesTheKey(t *testing.T) {
	splitting(t, func(o *resume.Options) {
		o.Key = func(*http.Request) []string { return []string{"chat"} }
	}, func(t *testing.T, l *lab, up *script) {
		first := l.send(post()).want(http.StatusOK)
		first.next()
		split := up.split(t, event(2))
		first.rest()
		synctest.Wait()
		second := l.send(post()).want(http.StatusOK)
		if second.id() == first.id() {
			t.Error("the next request gets the stream again")
		}
		l.wantOpen(2)
		for range 2 { // the rest is there for all that ask
			r := l.send(request{method: http.MethodGet, path: otherPath + "/" + split.ID()}).want(http.StatusOK)
			r.leave()
			synctest.Wait()
		}
		// The first is gone, and its client can still end the run.
		l.send(request{method: http.MethodDelete, path: otherPath + "/" + first.id()}).want(http.StatusNoContent)
		l.wantOver(log.ReasonDeleted)
	})
}

// TestHeldRunGoesForWantOfMemory, as others without a client do.
func TestHeldRunGoesForWantOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, large := newScript(event(1)), newScript(bursts(1, 60<<10)...)
		l := newPipeLab(t, func(o *resume.Options) { o.MaxMemory, o.MaxStream = 64<<10, 64<<10 }, func(w http.ResponseWriter, r *http.Request) error {
			if r.Header.Get(key) == "large" {
				return large.next(w, r)
			}
			return up.next(w, r)
		})
		l.send(post(key, "k")).next()
		up.split(t, event(2))
		r := l.send(post(key, "large")).want(http.StatusOK)
		go func() { _, _ = io.Copy(io.Discard, r.in) }()
		l.wantOver(log.ReasonMemory)
		large.end(well)
		l.over()
	})
}

// TestSplitThatIsNeverDone takes no room for longer than its run, whether that has a client or none.
func TestSplitThatIsNeverDone(t *testing.T) {
	for name, panics := range map[string]bool{"forgotten": false, "a panic": true} {
		for _, leaves := range []bool{false, true} {
			t.Run(name+", the client leaves: "+strconv.FormatBool(leaves), func(t *testing.T) {
				set := odd(func(n int64) error {
					if panics && n > 1 {
						panic("boom")
					}
					return nil
				})
				splitting(t, set, func(t *testing.T, l *lab, up *script) {
					r := l.send(post(key, "k"))
					r.next()
					if leaves {
						r.leave()
						l.wantDetached(1)
					}
					if up.prepare(); !panics {
						up.end(well)
					}
					if e := l.over(); (e.Panicked != nil) != (panics && leaves) {
						t.Errorf("%+v", e)
					}
					l.wantDetached(0)
					if _, logs := l.store.Used(); logs != 1 {
						t.Errorf("%d logs are left", logs)
					}
					if !leaves && !panics {
						r.rest()
					}
				})
			})
		}
	}
}

// TestCancelledRunIsNotSplit, whether it is cancelled before the preparation or after.
func TestCancelledRunIsNotSplit(t *testing.T) {
	for name, late := range map[string]bool{"before": false, "after": true} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			up := newScript(chunk)
			up.stays = true
			l := newPipeLab(t, nil, up.next)
			r := l.send(chat(key, "k"))
			r.next()
			split := (*resume.Split)(nil)
			if late {
				split = up.prepare()
			}
			l.send(request{method: http.MethodDelete, path: chatPath + "/" + r.id()}).want(http.StatusNoContent)
			if !late {
				split = up.prepare()
			}
			if (split != nil) != late || late && split.Do() {
				t.Error("it is split")
			}
			up.end(well)
			checkFinish(t, r.rest(), r.id(), 2, "upstream_aborted")
			l.wantOver(log.ReasonDeleted)
			l.wantDetached(0)
			l.wantEmpty()
		})
	}
}

// TestSlowClientOfASplit gets the whole of its stream after the run has ended, which does not concern
// it.
func TestSlowClientOfASplit(t *testing.T) {
	splitting(t, nil, func(t *testing.T, l *lab, up *script) {
		up.pieces = append(bursts(1, 32<<10), event(1))
		first := l.send(post(key, "k")).want(http.StatusOK)
		up.split(t, event(2))
		up.end(func() error { panic("boom") })
		if e := l.over(); e.Panicked == nil {
			t.Errorf("%+v", e)
		}
		if got := first.rest(); strings.Count(got, "data: ") != 2 {
			t.Errorf("it gets %d bytes", len(got))
		}
	})
}

// TestDeleteOfARestThatCannotBeReached says so if that is all there is to delete, and works when it is
// sent again.
func TestDeleteOfARestThatCannotBeReached(t *testing.T) {
	lost := ""
	splitting(t, func(o *resume.Options) {
		o.Store = &oddStore{Store: o.Store, find: func(id string) error { return awayIf(id == lost) }}
	}, func(t *testing.T, l *lab, up *script) {
		first := l.send(post(key, "k"))
		first.next()
		lost = up.split(t, event(2)).ID()
		q := request{method: http.MethodDelete, path: otherPath + "/" + first.id()}
		l.send(q).want(http.StatusNoContent) // the first stream is gone
		l.send(q).want(http.StatusServiceUnavailable)
		l.wantOpen(1)
		lost = ""
		l.send(q).want(http.StatusNoContent)
		l.wantOver(log.ReasonDeleted)
	})
}

// TestToolsOfARestEnd in the form that the first client has asked for.
func TestToolsOfARestEnd(t *testing.T) {
	const tool = `: hermes.tool.progress {"tool":"terminal","toolCallId":"call_1","status":"`
	synctest.Test(t, func(t *testing.T) {
		up := newScript(chunk)
		l := newPipeLab(t, nil, up.next)
		first := l.send(chat(key, "k", proxy.ProgressHeader, "comment")).want(http.StatusOK)
		up.split(t, chunk+tool+"running\"}\n\n")
		first.rest()
		l.runs.Shutdown(1)
		l.over()
		if got := l.rest().rest(); !strings.Contains(got, tool+"running\"}\n"+tool+"completed\"}\ndata: {\"error\":") {
			t.Errorf("the rest is\n%s", got)
		}
	})
}

// TestRunsThatAwaitAClientHaveRoomOfTheirOwn: as many as MaxDetached, beside those whose clients have left.
func TestRunsThatAwaitAClientHaveRoomOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		splits := make(chan *resume.Split)
		l := newPipeLab(t, func(o *resume.Options) { o.MaxDetached = 2 }, func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = write(w, event(1))
			if r.Header.Get("X-Split") != "" {
				split := resume.NewSplit(r.Context(), held)
				if split != nil && !split.Do() {
					t.Error("it is not split")
				}
				splits <- split
			}
			<-r.Context().Done()
			return context.Cause(r.Context())
		})
		want := func(detached, awaiting int64) {
			t.Helper()
			synctest.Wait()
			if st := l.runs.Stats(); st.Detached != detached || st.Awaiting != awaiting {
				t.Errorf("%d go on without a client, and %d of them await one; want %d and %d", st.Detached, st.Awaiting, detached, awaiting)
			}
		}
		n := 0
		splitOne := func(may bool) *resume.Split {
			t.Helper()
			n++
			r := l.send(post(key, "s"+strconv.Itoa(n), "X-Split", "1")).want(http.StatusOK)
			split := <-splits
			if (split != nil) != may {
				t.Errorf("split %d is %v", n, split != nil)
			}
			if split == nil {
				r.leave()
			}
			return split
		}
		first, second := splitOne(true), splitOne(true)
		want(2, 2)
		l.leaves(post(key, "a"))
		l.leaves(post(key, "b"))
		want(4, 2)
		l.leaves(post(key, "c")) // which is one more
		l.wantOver(log.ReasonLeft)
		splitOne(false) // so is this, and it is none that goes on
		l.wantOver(log.ReasonLeft)
		want(4, 2)
		// A client that comes for a rest makes room. If it leaves, the run is one like others.
		back := l.send(request{method: http.MethodGet, path: otherPath + "/" + first.ID()}).want(http.StatusOK)
		want(3, 1)
		back.leave()
		l.wantOver(log.ReasonLeft)
		want(3, 1)
		splitOne(true)
		want(4, 2)
		// One of those that go on without a client may also wait for one, and leaves its room to others.
		l.send(request{method: http.MethodDelete, path: otherPath + "/" + second.ID()}).want(http.StatusNoContent)
		want(3, 1)
		l.over()
	})
}
