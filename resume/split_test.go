package resume_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
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
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Kind", "a")
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
		if e := l.over(); e.Events != 2 || e.Reason != resume.ReasonNone || !e.Stream {
			t.Errorf("%+v", e)
		}
		l.wantAsked(3) // twice for the rest
		time.Sleep(held - 1)
		l.rest().want(http.StatusOK).rest()
		time.Sleep(1)
		synctest.Wait()
		problemOf(t, l.rest(), http.StatusNotFound)
		l.wantEmpty()
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
		"an SDK":     {[]string{resume.RetryHeader, "0"}, 10 * time.Minute},
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
					if e := l.over(); e.Reason != resume.ReasonExpired {
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

// downStore is a store that takes no log after the first.
type downStore struct {
	resume.Store
	claims int
}

func (s *downStore) Claim(ctx context.Context, e resume.Entry, run resume.Run) (resume.Entry, resume.Writer, error) {
	if s.claims++; s.claims > 1 {
		return resume.Entry{}, nil, errors.New("the storage is down")
	}
	return s.Store.Claim(ctx, e, run)
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
		"a stream":                {nil, prepares, post(key, "k"), "-y-y"},
		"no run":                  {nil, prepares, post(), "----"},
		"a response":              {nil, prepares, responses, "----"},
		"a body":                  {nil, json, post(key, "k"), "-"},
		"a body of an SDK":        {nil, json, post(resume.RetryHeader, "0"), "-"},
		"no room":                 {func(o *resume.Options) { o.MaxDetached = 0 }, prepares, post(key, "k"), "----"},
		"the storage is down":     {func(o *resume.Options) { o.Store = &downStore{Store: o.Store} }, prepares, post(key, "k"), "----"},
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
				if st := l.runs.Stats(); st.Detached != 0 || st.TotalDetached != 0 {
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
