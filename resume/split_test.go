package resume_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// restPath is where a test asks for the rest of a stream, as a handler finds it that knows the split.
const restPath = "/rest"

// held is how long the runs of tests are held after a split.
const held = 5 * time.Minute

// splitter is a next handler whose stream has the events 1 and 2, and is split after each of the
// first so many. Each step waits for a word in may.
type splitter struct {
	splits int
	may    chan struct{}      // closed when the rest may come as it likes
	is     chan *resume.Split // a split that has been done, nil if it may not be
	end    func() error       // of next
	last   *resume.Split      // that rest answers
	large  string             // what it begins with
	other  *splitter          // answers the next requests
}

func newSplitter(splits int) *splitter {
	return &splitter{
		splits: splits, may: make(chan struct{}), is: make(chan *resume.Split, 10),
		end: func() error { return nil },
	}
}

func (s *splitter) next(w http.ResponseWriter, r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, restPath) {
		return s.last.Rest(w, r)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	if s.other != nil {
		return s.other.next(w, r)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Kind", "a")
	if s.large != "" {
		_, _ = io.WriteString(w, "data: "+s.large+"\n\n")
	}
	for n := 1; n <= s.splits+1; n++ {
		if _, err := io.WriteString(w, event(n)); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		select {
		case <-s.may:
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
		if n > s.splits {
			break
		}
		split := resume.NewSplit(r.Context(), held)
		if split != nil && !split.Do() {
			return errors.New("it is not split")
		}
		s.is <- split
	}
	return s.end()
}

// splitting runs a test in a bubble, with a lab in front of a splitter.
func splitting(t *testing.T, splits int, set func(*resume.Options), test func(t *testing.T, l *lab, s *splitter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // the channels are of the bubble, too
		s := newSplitter(splits)
		test(t, newLabAt(t, newPipes(), set, s.next), s)
	})
}

// split has the stream split, and returns the split.
func (s *splitter) split(t *testing.T) *resume.Split {
	t.Helper()
	select {
	case s.may <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("the run does not wait")
	}
	s.last = <-s.is
	if s.last == nil {
		t.Fatal("it may not be split")
	}
	return s.last
}

// TestSplit ends the first stream for all who read it, as a whole one, and has the run go on in
// another, which clients get from its beginning, also twice and again by its id.
func TestSplit(t *testing.T) {
	splitting(t, 1, func(o *resume.Options) { o.Keep = time.Minute }, func(t *testing.T, l *lab, s *splitter) {
		first := l.send(post(key, "k")).want(http.StatusOK)
		second := l.send(post(key, "k")).want(http.StatusOK)
		first.next()
		second.next()
		split := s.split(t)
		if got := first.rest() + second.rest(); got != "" {
			t.Errorf("the first stream goes on with %q", got)
		}
		l.wantDetached(1)
		if again := l.send(post(key, "k")).want(http.StatusOK); again.id() != first.id() || again.rest() != numbered(first.id(), 1, event(1)) {
			t.Error("a repeat gets another stream")
		}
		a := l.rest().want(http.StatusOK)
		b := l.send(request{method: http.MethodGet, path: otherPath + "/" + split.ID()}).want(http.StatusOK)
		l.wantDetached(0)
		close(s.may)
		want := numbered(split.ID(), 1, event(2))
		for _, r := range []*reply{a, b, l.rest().want(http.StatusOK)} {
			if got := r.rest(); got != want {
				t.Errorf("the rest is %q, want %q", got, want)
			}
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
				splitting(t, 1, nil, func(t *testing.T, l *lab, s *splitter) {
					l.send(chat(c.header...)).next()
					s.split(t)
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
					if e := l.over(); e.Reason != log.ReasonExpired {
						t.Errorf("%+v", e)
					}
				})
			})
		}
	}
}

// rest asks for the rest of the stream that a splitter has split.
func (l *lab) rest() *reply {
	l.t.Helper()
	return l.send(request{method: http.MethodPost, path: restPath})
}

// ask asks whether the stream may be split, and waits until the test is done with that.
func ask(may chan *resume.Split, r *http.Request) {
	may <- resume.NewSplit(r.Context(), held)
	<-may
}

// prepares is a next handler that sends an event and half of another, asks whether it may be split at
// both places, and sends the rest.
func prepares(may chan *resume.Split) resume.Next {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		ask(may, r)
		for _, part := range []string{event(1), "data:", " 2\n\n"} {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
			ask(may, r)
		}
		return nil
	}
}

// TestWhatMayNotBeSplit ends nothing and leaves nothing.
func TestWhatMayNotBeSplit(t *testing.T) {
	json := func(may chan *resume.Split) resume.Next {
		return func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
			ask(may, r)
			return nil
		}
	}
	responses := post(key, "k")
	responses.path = "/v1/responses"
	for name, c := range map[string]struct {
		set  func(*resume.Options)
		next func(chan *resume.Split) resume.Next
		q    request
		want string // where it may be split
	}{
		"a stream":                {nil, prepares, post(key, "k"), "y---"}, // given up, it is not split any more
		"no run":                  {nil, prepares, post(), "----"},
		"a response":              {nil, prepares, responses, "----"},
		"a body":                  {nil, json, post(key, "k"), "-"},
		"a body of an SDK":        {nil, json, post(retryHeader, "0"), "-"},
		"no room":                 {func(o *resume.Options) { o.MaxDetached = 0 }, prepares, post(key, "k"), "----"},
		"the storage is down":     {odd(func(n int64) error { return map[bool]error{true: errAway}[n > 1] }), prepares, post(key, "k"), "----"},
		"no stream of an agent's": {nil, prepares, request{http.MethodGet, eventsPath, "", nil}, "----"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				may := make(chan *resume.Split)
				l := newLabAt(t, newPipes(), c.set, c.next(may))
				got := make(chan *reply)
				go func() { got <- l.send(c.q) }()
				for i, want := range c.want {
					split := <-may
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
					may <- nil
				}
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
		"the end":   {func() error { return nil }, false, false},
		"an error":  {func() error { return errors.New("failed") }, false, true},
		"an abort":  {func() error { panic(http.ErrAbortHandler) }, false, true},
		"a panic":   {func() error { panic("boom") }, true, true},
		"gone away": {func() error { runtime.Goexit(); return nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			splitting(t, 1, nil, func(t *testing.T, l *lab, s *splitter) {
				s.end = c.end
				first := l.send(post(key, "k")).want(http.StatusOK)
				first.next()
				split := s.split(t)
				rest := l.rest().want(http.StatusOK)
				rest.next()
				close(s.may) // before the first client has noticed
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
				if got, want := again.next(), numbered(split.ID(), 1, event(2)); got != want {
					t.Errorf("again it is %q", got)
				}
				before := l.send(post(key, "k")).want(http.StatusOK)
				if got := before.rest(); got != numbered(first.id(), 1, event(1)) {
					t.Errorf("what came before is %q", got)
				}
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is, may := make(chan *resume.Split, 1), make(chan struct{})
				var split *resume.Split
				l := newLabAt(t, newPipes(), nil, func(w http.ResponseWriter, r *http.Request) error {
					if r.URL.Path == restPath {
						return split.Rest(w, r)
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, chunk)
					s := resume.NewSplit(r.Context(), held)
					s.Do()
					is <- s
					select {
					case <-may:
						panic(http.ErrAbortHandler)
					case <-r.Context().Done():
					}
					return context.Cause(r.Context())
				})
				first := l.send(chat(key, "k")).want(http.StatusOK)
				if first.rest() != numbered(first.id(), 1, chunk) {
					t.Error("the first stream is not whole")
				}
				split = <-is
				if end == nil {
					close(may)
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
		})
	}
}

// TestSplitTwice has the client of the rest at its end, and the next one get the rest of that.
func TestSplitTwice(t *testing.T) {
	splitting(t, 2, nil, func(t *testing.T, l *lab, s *splitter) {
		l.send(post(key, "k")).next()
		second := s.split(t)
		rest := l.rest().want(http.StatusOK)
		rest.next()
		third := s.split(t)
		if got := rest.rest(); got != "" {
			t.Errorf("the second stream goes on with %q", got)
		}
		l.wantDetached(1)
		last := l.rest().want(http.StatusOK)
		l.wantDetached(0)
		close(s.may)
		if got := last.rest(); got != numbered(third.ID(), 1, event(3)) || second.ID() == third.ID() {
			t.Errorf("the last is %q", got)
		}
		s.last = second
		if got := l.rest().rest(); got != numbered(second.ID(), 1, event(2)) {
			t.Errorf("the second is %q", got)
		}
		if e := l.over(); e.Events != 3 {
			t.Errorf("%+v", e)
		}
	})
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
			splitting(t, 2, nil, func(t *testing.T, l *lab, s *splitter) {
				first := l.send(post(key, "k"))
				first.next()
				ids := []string{first.id(), s.split(t).ID(), s.split(t).ID()}
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
				if e := l.over(); e.Reason != log.ReasonDeleted {
					t.Errorf("%+v", e)
				}
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
			synctest.Test(t, func(t *testing.T) {
				may, is := make(chan struct{}), make(chan *resume.Split)
				l := newLabAt(t, newPipes(), func(o *resume.Options) { o.MaxDetached = 1 }, func(w http.ResponseWriter, r *http.Request) error {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, event(1))
					<-may
					s := resume.NewSplit(r.Context(), held)
					is <- s
					<-may
					if !c.does {
						s.Release()
					} else if !s.Do() {
						t.Error("it is not split")
					}
					<-r.Context().Done()
					return context.Cause(r.Context())
				})
				r := l.send(post(key, "k"))
				r.next()
				if c.before {
					r.leave()
					l.wantDetached(1)
					time.Sleep(time.Minute)
				}
				may <- struct{}{}
				split := <-is
				if split == nil {
					t.Fatal("it may not be split")
				}
				r.leave()
				synctest.Wait()
				may <- struct{}{}
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
				if e := l.over(); e.Reason != log.ReasonExpired {
					t.Errorf("%+v", e)
				}
				l.wantDetached(0)
			})
		})
	}
}

// TestRestOfBothVersions of HTTP: the first client's answer has a proper end while the run goes on.
func TestRestOfBothVersions(t *testing.T) {
	for _, version := range []int{1, 2} {
		s := newSplitter(1)
		l := newLabOver(t, version, s.next)
		first := l.send(post(key, "k")).want(http.StatusOK)
		first.next()
		split := s.split(t)
		if got := first.rest(); got != "" || first.ProtoMajor != version {
			t.Errorf("HTTP/%d: the first stream goes on with %q", first.ProtoMajor, got)
		}
		if n := l.runs.Open(); n != 1 {
			t.Errorf("HTTP/%d: %d runs are open", version, n)
		}
		rest := l.rest().want(http.StatusOK)
		close(s.may)
		if got := rest.rest(); got != numbered(split.ID(), 1, event(2)) {
			t.Errorf("HTTP/%d: the rest is %q", version, got)
		}
	}
}

// newLabOver is newLab with a version of HTTP.
func newLabOver(t *testing.T, version int, next resume.Next) *lab {
	t.Helper()
	l := newLab(t, nil, next)
	if version == 2 {
		l.srv.Close()
		h := l.srv.Config.Handler
		l.srv = httptest.NewUnstartedServer(h)
		l.srv.EnableHTTP2 = true
		l.srv.StartTLS()
		t.Cleanup(l.srv.Close)
	}
	return l
}

// TestRestOfARunThatHasARun itself: the reply's stream has ids of its own, and its client ends both.
func TestRestThroughARun(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		splitting(t, 1, nil, func(t *testing.T, l *lab, s *splitter) {
			l.send(post(key, "k")).next()
			s.split(t)
			rest := l.send(request{http.MethodPost, restPath, asking, []string{key, "other", "Content-Type", "application/json"}}).want(http.StatusOK)
			if got := rest.next(); !strings.HasSuffix(got, "\nid: "+rest.id()+"/1\n\n") {
				t.Errorf("it gets %q", got)
			}
			if deletes {
				l.send(request{method: http.MethodDelete, path: restPath + "/" + rest.id()}).want(http.StatusNoContent)
				for range 2 {
					if e := l.over(); e.Reason != log.ReasonDeleted {
						t.Errorf("%+v", e)
					}
				}
				return
			}
			rest.leave() // and comes back
			synctest.Wait()
			close(s.may)
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
			may, is := make(chan struct{}), make(chan *resume.Split, 1)
			var split *resume.Split
			l := newLabAt(t, newPipes(), func(o *resume.Options) { o.MaxDetached = 1 }, func(w http.ResponseWriter, r *http.Request) error {
				if r.URL.Path == restPath {
					return split.Rest(w, r)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				s := resume.NewSplit(r.Context(), held) // nothing has been written
				is <- s
				_, _ = io.WriteString(w, event(1))
				<-may
				if does {
					s.Do()
				} else {
					s.Release()
				}
				<-may
				_, err := io.WriteString(w, event(2))
				return err
			})
			first := l.send(post(key, "k"))
			first.next()
			split = <-is
			got := make(chan *reply)
			go func() { got <- l.rest() }()
			synctest.Wait()
			may <- struct{}{}
			l.wantDetached(0)
			if !does {
				problemOf(t, <-got, http.StatusNotFound)
				may <- struct{}{}
				if got := first.rest(); got != numbered(first.id(), 2, event(2)) {
					t.Errorf("it goes on with %q", got)
				}
				return
			}
			rest := <-got
			may <- struct{}{}
			if got := rest.rest(); got != numbered(split.ID(), 1, event(2)) || first.rest() != "" {
				t.Errorf("the rest is %q", got)
			}
		})
	}
}

// TestSplitInsideAnEvent is none: an event has one stream.
func TestSplitInsideAnEvent(t *testing.T) {
	for name, begin := range map[string]string{"an event": event(1) + "data: 2", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				if begin != "" {
					_, _ = io.WriteString(w, begin)
				}
				s := resume.NewSplit(r.Context(), held)
				if s == nil || s.Do() {
					return errors.New("it is split")
				}
				_, err := io.WriteString(w, "\n\n"+event(3))
				return err
			})
			r := l.send(post(key, "k")).want(http.StatusOK)
			if got := r.rest(); !strings.Contains(got, "data: 3") {
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
	splitting(t, 1, func(o *resume.Options) {
		o.Key = func(*http.Request) []string { return []string{"chat"} }
	}, func(t *testing.T, l *lab, s *splitter) {
		first := l.send(post()).want(http.StatusOK)
		first.next()
		split := s.split(t)
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
		if e := l.over(); e.Reason != log.ReasonDeleted {
			t.Errorf("%+v", e)
		}
	})
}

// TestHeldRunGoesForWantOfMemory, as others without a client do.
func TestHeldRunGoesForWantOfMemory(t *testing.T) {
	splitting(t, 1, func(o *resume.Options) { o.MaxMemory, o.MaxStream = 64<<10, 64<<10 }, func(t *testing.T, l *lab, s *splitter) {
		l.send(post(key, "k")).next()
		s.split(t)
		large := newSplitter(0)
		large.large = strings.Repeat("x", 60<<10)
		s.other = large
		r := l.send(post(key, "other")).want(http.StatusOK)
		go func() { _, _ = io.Copy(io.Discard, r.in) }()
		if e := l.over(); e.Reason != log.ReasonMemory {
			t.Errorf("%+v", e)
		}
		close(large.may)
		l.over()
	})
}

// TestHintsAfterASplit go to no client.
func TestHintsAfterASplit(t *testing.T) {
	is := make(chan bool, 1)
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event(1))
		is <- resume.NewSplit(r.Context(), held).Do()
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusBadGateway)
		w.Header().Set("X-Trailer", "1")
		_, err := io.WriteString(w, event(2))
		return err
	})
	if got := raw(t, l.srv); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || strings.Contains(got, "Link") || strings.Contains(got, "data: 2") || !strings.HasSuffix(got, "0\r\n\r\n") {
		t.Errorf("the client gets\n%s", got)
	}
	if !<-is {
		t.Error("it is not split")
	}
	l.over()
}

// TestSplitThatIsNeverDone takes no room for longer than its run, whether that has a client or none.
func TestSplitThatIsNeverDone(t *testing.T) {
	for name, panics := range map[string]bool{"forgotten": false, "a panic": true} {
		for _, leaves := range []bool{false, true} {
			t.Run(name+", the client leaves: "+strconv.FormatBool(leaves), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					may := make(chan struct{})
					l := newLabAt(t, newPipes(), odd(func(n int64) error {
						if panics && n > 1 {
							panic("boom")
						}
						return nil
					}), func(w http.ResponseWriter, r *http.Request) error {
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = io.WriteString(w, event(1))
						<-may
						resume.NewSplit(r.Context(), held)
						return nil
					})
					r := l.send(post(key, "k"))
					r.next()
					if leaves {
						r.leave()
						l.wantDetached(1)
					}
					may <- struct{}{}
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				may := make(chan struct{})
				l := newLabAt(t, newPipes(), nil, func(w http.ResponseWriter, r *http.Request) error {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, chunk)
					var split *resume.Split
					if late {
						split = resume.NewSplit(r.Context(), held)
					}
					<-may
					if !late {
						split = resume.NewSplit(r.Context(), held)
					}
					if (split != nil) != late || late && split.Do() {
						t.Error("it is split")
					}
					return nil
				})
				r := l.send(chat(key, "k"))
				r.next()
				l.send(request{method: http.MethodDelete, path: chatPath + "/" + r.id()}).want(http.StatusNoContent)
				may <- struct{}{}
				checkFinish(t, r.rest(), r.id(), 2, "upstream_aborted")
				if e := l.over(); e.Reason != log.ReasonDeleted {
					t.Errorf("%+v", e)
				}
				l.wantDetached(0)
				l.wantEmpty()
			})
		})
	}
}

// TestSlowClientOfASplit gets the whole of its stream after the run has ended, which does not concern
// it.
func TestSlowClientOfASplit(t *testing.T) {
	splitting(t, 1, nil, func(t *testing.T, l *lab, s *splitter) {
		s.large = strings.Repeat("x", 32<<10)
		s.end = func() error { panic("boom") }
		first := l.send(post(key, "k")).want(http.StatusOK)
		s.split(t)
		close(s.may)
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
	splitting(t, 1, func(o *resume.Options) {
		o.Store = &oddStore{Store: o.Store, find: func(id string) error { return map[bool]error{true: errAway}[id == lost] }}
	}, func(t *testing.T, l *lab, s *splitter) {
		first := l.send(post(key, "k"))
		first.next()
		lost = s.split(t).ID()
		q := request{method: http.MethodDelete, path: otherPath + "/" + first.id()}
		l.send(q).want(http.StatusNoContent) // the first stream is gone
		l.send(q).want(http.StatusServiceUnavailable)
		l.wantOpen(1)
		lost = ""
		l.send(q).want(http.StatusNoContent)
		if e := l.over(); e.Reason != log.ReasonDeleted {
			t.Errorf("%+v", e)
		}
	})
}

// TestToolsOfARestEnd in the form that the first client has asked for.
func TestToolsOfARestEnd(t *testing.T) {
	const tool = `: hermes.tool.progress {"tool":"terminal","toolCallId":"call_1","status":"`
	synctest.Test(t, func(t *testing.T) {
		var split *resume.Split
		l := newLabAt(t, newPipes(), nil, func(w http.ResponseWriter, r *http.Request) error {
			if r.URL.Path == restPath {
				return split.Rest(w, r)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, chunk)
			split = resume.NewSplit(r.Context(), held)
			split.Do()
			_, _ = io.WriteString(w, chunk+tool+"running\"}\n\n")
			<-r.Context().Done()
			return context.Cause(r.Context())
		})
		l.send(chat(key, "k", proxy.ProgressHeader, "comment")).want(http.StatusOK).rest()
		l.runs.Shutdown(1)
		l.over()
		if got := l.rest().rest(); !strings.Contains(got, tool+"running\"}\n"+tool+"completed\"}\ndata: {\"error\":") {
			t.Errorf("the rest is\n%s", got)
		}
	})
}

// TestRandomSplits has runs split, given up, deleted and left at random, and clients read what comes
// before and after at any time: each stream has its own events, to the byte, and nothing is left.
func TestRandomSplits(t *testing.T) {
	rounds, atOnce := 100, 8
	if s := os.Getenv("HERMES_RESUME_SEQUENCES"); s != "" { // more of them
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for worker := range atOnce {
		all.Go(func() {
			for round := worker; round < rounds && !t.Failed(); round += atOnce {
				(&splits{t: t, seed: seed + uint64(round)}).run()
			}
		})
	}
	all.Wait()
}

// splits is a round of TestRandomSplits.
type splits struct {
	t    *testing.T
	seed uint64

	mu    sync.Mutex
	rests []*resume.Split
	ids   []string            // of all streams
	want  map[string][]string // the events of each
	ended map[string]bool     // whole
	kills bool                // a client deletes a stream
}

func (s *splits) run() {
	s.want, s.ended = map[string][]string{}, map[string]bool{}
	r := rand.New(rand.NewPCG(s.seed, 0))
	store, runs := log.NewMemory(), new(resume.Runs)
	o := resume.DefaultOptions()
	o.Store, o.Runs, o.MaxDetached = store, runs, r.IntN(3)
	s.kills = r.IntN(4) == 0
	srv := httptest.NewServer(resume.New(o).Handler(http.HandlerFunc(s.serve)))
	var all sync.WaitGroup
	for c := range 5 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(s.seed, uint64(c+1)))
			for range 3 {
				s.step(r, srv)
			}
		})
	}
	all.Wait()
	runs.Shutdown(5 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	srv.Close()
	runs.Wait(ctx)
	if st := runs.Stats(); runs.Open() != 0 || st.Detached != 0 || st.Readers != 0 {
		s.t.Errorf("seed %d: %d are open, stats %+v", s.seed, runs.Open(), st)
	}
}

// serve is upstream, and answers those that ask for the rest after a split.
func (s *splits) serve(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == restPath {
		n, _ := strconv.Atoi(q.URL.RawQuery)
		s.mu.Lock()
		var split *resume.Split
		if n < len(s.rests) {
			split = s.rests[n]
		}
		s.mu.Unlock()
		if split == nil || split.Rest(w, q) != nil {
			w.WriteHeader(http.StatusNotFound)
		}
		return
	}
	s.mu.Lock()
	r := rand.New(rand.NewPCG(s.seed, 1000+uint64(len(s.ids))))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	var split *resume.Split
	part := 0
	for n := 1; n <= 12; n++ {
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
		}
		_, err := io.WriteString(w, event(1000*part+n))
		if err != nil || q.Context().Err() != nil {
			return
		}
		switch {
		case split == nil && r.IntN(4) == 0:
			if split = resume.NewSplit(q.Context(), time.Minute); split != nil {
				s.mu.Lock()
				s.rests = append(s.rests, split)
				s.mu.Unlock()
			}
		case split == nil:
		case r.IntN(12) == 0:
			split.Release()
			split = nil
		case r.IntN(2) == 0:
			if split.Do() {
				part++
			}
			split = nil
		}
	}
}

// step does one thing as a client.
func (s *splits) step(r *rand.Rand, srv *httptest.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.IntN(4) == 0 { // it leaves, whatever there is
		time.AfterFunc(time.Duration(r.IntN(6))*time.Millisecond, cancel)
	}
	s.mu.Lock()
	rests, ids := len(s.rests), len(s.ids)
	path, method := chatPath, http.MethodPost
	switch what := r.IntN(4); {
	case what <= 1 && rests > 0:
		path = restPath + "?" + strconv.Itoa(r.IntN(rests))
	case what == 2 && ids > 0:
		method, path = http.MethodGet, chatPath+"/"+s.ids[r.IntN(ids)]
		if s.kills {
			method = http.MethodDelete
		}
	}
	s.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, method, srv.URL+path, strings.NewReader(asking))
	if err != nil {
		s.t.Error(err)
		return
	}
	if path == chatPath {
		req.Header.Set(key, strconv.Itoa(r.IntN(2)))
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		return // it has left
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	id := res.Header.Get(resume.StreamHeader)
	if res.StatusCode != http.StatusOK || id == "" {
		if res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotFound {
			s.t.Errorf("seed %d: %s %s", s.seed, res.Status, b)
		}
		return
	}
	s.got(id, string(b), err == nil)
}

// got checks what a client has of the stream with the id: events of one part, in order, as all others
// have them.
func (s *splits) got(id, text string, whole bool) {
	text, _, failed := strings.Cut(text, `data: {"error"`)
	whole = whole && !failed
	var events []string
	for e := range strings.SplitSeq(text, "\n\n") {
		if strings.Contains(e, "id: "+id+"/") {
			events = append(events, e)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, known := s.want[id]
	if !known {
		s.ids = append(s.ids, id)
	}
	for i := range min(len(have), len(events)) {
		if have[i] != events[i] {
			s.t.Errorf("seed %d: event %d of %s is %q, and %q", s.seed, i+1, id, events[i], have[i])
		}
	}
	for i, e := range events {
		n, _ := strconv.Atoi(strings.TrimPrefix(strings.SplitN(e, "\n", 2)[0], "data: "))
		first, _ := strconv.Atoi(strings.TrimPrefix(strings.SplitN(events[0], "\n", 2)[0], "data: "))
		if n != first+i || !strings.HasSuffix(e, "\nid: "+id+"/"+strconv.Itoa(i+1)) {
			s.t.Errorf("seed %d: event %d of %s is %q after %d", s.seed, i+1, id, e, first)
		}
	}
	if whole && len(events) < len(have) || s.ended[id] && len(events) > len(have) {
		s.t.Errorf("seed %d: %s has %d events, and %d", s.seed, id, len(events), len(have))
	}
	if s.ended[id] = s.ended[id] || whole; len(events) > len(have) || !known {
		s.want[id] = events
	}
}

// TestRunsThatAwaitAClientHaveRoomOfTheirOwn: as many as MaxDetached, beside those whose clients have left.
func TestRunsThatAwaitAClientHaveRoomOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		splits := make(chan *resume.Split)
		l := newLabAt(t, newPipes(), func(o *resume.Options) { o.MaxDetached = 2 }, func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, event(1))
			_ = http.NewResponseController(w).Flush()
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
		l.left(post(key, "a"))
		l.left(post(key, "b"))
		want(4, 2)
		l.left(post(key, "c")) // which is one more
		if e := l.over(); e.Reason != log.ReasonLeft {
			t.Errorf("ended for %v", e.Reason)
		}
		splitOne(false) // so is this, and it is none that goes on
		if e := l.over(); e.Reason != log.ReasonLeft {
			t.Errorf("ended for %v", e.Reason)
		}
		want(4, 2)
		// A client that comes for a rest makes room. If it leaves, the run is one like others.
		back := l.send(request{method: http.MethodGet, path: otherPath + "/" + first.ID()}).want(http.StatusOK)
		want(3, 1)
		back.leave()
		if e := l.over(); e.Reason != log.ReasonLeft {
			t.Errorf("ended for %v", e.Reason)
		}
		want(3, 1)
		splitOne(true)
		want(4, 2)
		// One of those that go on without a client may wait for one, too, and leaves its room to others.
		l.send(request{method: http.MethodDelete, path: otherPath + "/" + second.ID()}).want(http.StatusNoContent)
		want(3, 1)
		l.over()
	})
}

// TestSplitsAtTheEndOfTheProcess, which looks at all runs while they are split.
func TestSplitsAtTheEndOfTheProcess(t *testing.T) {
	runs := new(resume.Runs)
	o := resume.DefaultOptions()
	o.Store, o.Runs = log.NewMemory(), runs
	splits := 0
	srv := httptest.NewServer(resume.New(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 20 {
			_, _ = io.WriteString(w, event(n+1))
			if resume.NewSplit(r.Context(), time.Minute).Do() {
				splits++
			}
			time.Sleep(time.Millisecond)
		}
	})))
	defer srv.Close()
	r, err := http.NewRequest(http.MethodPost, srv.URL+chatPath, strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "key")
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if runs.Wait(ctx); splits != 20 || ctx.Err() != nil {
		t.Errorf("%d splits, %v", splits, ctx.Err())
	}
}
