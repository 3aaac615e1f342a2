package resume_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestHeaderOfAStream leaves before the first event if next flushes it, and an answer
// from the log has what next has set and what its own client's writer has.
func TestHeaderOfAStream(t *testing.T) {
	each := make(chan struct{})
	outer := 0
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		h := w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("X-Inner", "a")
		h.Set("Content-Length", "100")
		h.Set("Etag", "x")
		h.Del("X-Drop")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		h.Set("X-Late", "1")
		return streams(events(1), each)(w, r)
	})
	inner := l.srv.Config.Handler
	l.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outer++
		w.Header().Set("X-Outer", fmt.Sprint(outer))
		w.Header().Set("X-Drop", "1")
		inner.ServeHTTP(w, r)
	})
	first := l.send(post(key, "k")).want(http.StatusOK) // nothing has been written yet
	second := l.send(post(key, "k")).want(http.StatusOK)
	for i, r := range []*reply{first, second} {
		want := map[string]string{
			"Content-Type": "text/event-stream; charset=utf-8", "X-Inner": "a", "X-Outer": fmt.Sprint(i + 1),
			"Content-Length": "", "Etag": "", "X-Drop": "", "X-Late": "", "Idempotency-Replayed": []string{"", "true"}[i],
		}
		for name, value := range want {
			if got := r.Header.Get(name); got != value {
				t.Errorf("%d: %s is %q, want %q", i, name, got, value)
			}
		}
	}
	close(each)
	if a, b := first.rest(), second.rest(); a != b || a != numbered(first.id(), 1, event(1)) {
		t.Errorf("%q and %q", a, b)
	}
}

// panics is the writer of a client that panics when the header comes, or when events do.
type panics struct {
	http.ResponseWriter
	header bool
	with   any
}

func (w panics) WriteHeader(status int) {
	if w.header {
		panic(w.with)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w panics) Write([]byte) (int, error) { panic(w.with) }

// TestStoreThatPanicsWhenRead leaves no log that never ends: the next request with the key is answered.
func TestStoreThatPanicsWhenRead(t *testing.T) {
	runs, reads := new(resume.Runs), 0
	o := resume.DefaultOptions()
	o.Runs, o.Store = runs, &oddStore{Store: o.Store, read: func(context.Context) log.Reader {
		if reads++; reads == 1 {
			panic("boom")
		}
		return nil
	}}
	p := resume.New(o)
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("its client's goroutine panics with %v", v)
			}
		}()
		_ = p.Serve(httptest.NewRecorder(), keyed(otherPath), streams(events(5), always()))
	}()
	if n := runs.Open(); n != 0 {
		t.Errorf("%d runs are open", n)
	}
	r := keyed(otherPath)
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	w := httptest.NewRecorder()
	if err := p.Serve(w, r.WithContext(ctx), streams(events(5), always())); err != nil {
		t.Error(err)
	}
	if got, want := w.Body.String(), numbered(w.Header().Get(resume.StreamHeader), 1, events(5)...); got != want {
		t.Errorf("the next client gets %q, want %q", got, want)
	}
}

// TestWriterThatPanics panics in the goroutine of its client, and for that alone: the run goes
// on, and its stream is whole.
func TestWriterThatPanics(t *testing.T) {
	for _, header := range []bool{true, false} {
		for _, with := range []any{http.ErrAbortHandler, "boom"} {
			runs := new(resume.Runs)
			o := resume.DefaultOptions()
			o.Runs = runs
			p := resume.New(o)
			send := func(w http.ResponseWriter) (panicked any) {
				defer func() { panicked = recover() }()
				_ = p.Serve(w, keyed(otherPath), streams(events(5), always()))
				return nil
			}
			if got := send(panics{httptest.NewRecorder(), header, with}); got != with {
				t.Errorf("its client's goroutine panics with %v", got)
			}
			until(t, "the run ends", func() bool { return runs.Open() == 0 })
			again := httptest.NewRecorder()
			if v := send(again); v != nil {
				t.Errorf("panic %v", v)
			}
			if got, want := again.Body.String(), numbered(again.Header().Get(resume.StreamHeader), 1, events(5)...); got != want {
				t.Errorf("later it is %q, want %q", got, want)
			}
			if st := runs.Stats(); st.Readers != 0 || st.Detached != 0 {
				t.Errorf("stats %+v", st)
			}
		}
	}
}

// TestWhatIsForTheFirstClient: cookies, and trailers as they would be without resume. A client
// that comes later gets the events.
func TestWhatIsForTheFirstClient(t *testing.T) {
	l := newLab(t, nil, func(w http.ResponseWriter, _ *http.Request) error {
		h := w.Header()
		h["Set-Cookie"] = []string{"session=1", "other=2"}
		h.Set("X-Inner", "a")
		h.Set("Content-Type", "text/event-stream")
		h.Set("Trailer", "X-A")
		h.Set(http.TrailerPrefix+"X-Early", "3")
		_, _ = io.WriteString(w, event(1))
		_ = http.NewResponseController(w).Flush()
		h.Set("X-A", "1")
		h.Set("X-Other", "no trailer")
		h.Set(http.TrailerPrefix+"X-B", "2")
		return nil
	})
	plain, first := l.send(post()).want(http.StatusOK), l.send(post(key, "k")).want(http.StatusOK)
	plain.rest()
	first.wantRest(numbered(first.id(), 1, event(1)))
	if want := (http.Header{"X-A": {"1"}, "X-B": {"2"}, "X-Early": {"3"}}); !reflect.DeepEqual(first.Trailer, want) || !reflect.DeepEqual(plain.Trailer, want) {
		t.Errorf("trailers %v, without resume %v, want %v", first.Trailer, plain.Trailer, want)
	}
	if got := first.Header["Set-Cookie"]; !slices.Equal(got, []string{"session=1", "other=2"}) {
		t.Errorf("the first client gets the cookies %q", got)
	}
	named := request{http.MethodGet, otherPath + "/" + first.id(), "", nil}
	asksForHead := named
	asksForHead.method = http.MethodHead
	for _, q := range []request{post(key, "k"), post("Last-Event-ID", first.id()+"/0"), named, asksForHead} {
		r := l.send(q).want(http.StatusOK)
		want := numbered(first.id(), 1, event(1))
		if q.method == http.MethodHead {
			want = ""
		}
		if got := r.rest(); got != want || len(r.Trailer) > 0 || r.Header["Set-Cookie"] != nil || r.Header.Get("X-Inner") != "a" {
			t.Errorf("%s: %q, header %v, trailers %v", q.method, got, r.Header, r.Trailer)
		}
	}
}

// TestWriterThatCannotFlush gets all, as without resume; so does one that comes later.
func TestWriterThatCannotFlush(t *testing.T) {
	p := resume.New(resume.DefaultOptions())
	id := ""
	for i, calls := range []int{1, 0} {
		called := 0
		rec := httptest.NewRecorder()
		w := struct{ http.ResponseWriter }{rec} // which has no other methods
		err := p.Serve(w, keyed(otherPath), func(w http.ResponseWriter, r *http.Request) error {
			called++
			return streams(events(3), always())(w, r)
		})
		if id == "" {
			id = rec.Header().Get(resume.StreamHeader)
		}
		if got := rec.Body.String(); err != nil || called != calls || id == "" || got != numbered(id, 1, events(3)...) {
			t.Errorf("%d: %v, next was called %d times, %q", i, err, called, got)
		}
	}
}

// TestSlowReaderHoldsNobodyUp has a client that does not read at all. Others go on, and
// once what it needs has gone, it is cut off.
func TestSlowReaderHoldsNobodyUp(t *testing.T) {
	const size, n = 64 << 10, 400 // more than a connection holds
	each, all := make(chan struct{}), bursts(n, size)
	l := newLab(t, func(o *resume.Options) { o.MaxStream = 1 << 20 }, streams(all, each))
	slow := bufio.NewReader(silentClient(t, l))
	each <- struct{}{}
	res, err := http.ReadResponse(slow, nil)
	if err != nil {
		t.Fatal(err)
	}
	second := l.send(post(key, "k")).want(http.StatusOK)
	second.next()
	for range n - 1 {
		each <- struct{}{}
		second.next() // however far the first lags
	}
	second.wantRest("")
	if b, err := io.ReadAll(res.Body); err == nil || len(b) >= n*size {
		t.Errorf("the slow one got %d bytes, %v", len(b), err)
	}
	if used, _ := l.store.Used(); used > 1<<20+64<<10 {
		t.Errorf("%d bytes are kept", used)
	}
	p := problemOf(t, l.send(post(key, "k")), http.StatusGone)
	begin := int(p["first"].(float64))
	if begin < n-20 || begin > n {
		t.Fatalf("the first that is there is %d", begin)
	}
	at := func(n int) string { return fmt.Sprintf("%s/%d", second.id(), n) }
	problemOf(t, l.send(post("Last-Event-ID", at(begin-2))), http.StatusGone)
	l.send(post("Last-Event-ID", at(begin-1))).want(http.StatusOK).wantRest(numbered(second.id(), begin, all[begin-1:]...))
	l.wantAsked(1)
}

// fillMemory has a log with a reader take more than most: others can make no room.
func fillMemory(t *testing.T, s *log.Memory, most int) {
	t.Helper()
	_, w, err := s.Claim(context.Background(), log.Entry{ID: "full", MaxStream: 1 << 30, MaxMemory: 1 << 30}, log.Run{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Read(context.Background(), "full", 0).Close)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // wait for no reader
	all := strings.Join(bursts(1, most+most/4), "")
	for p := range slices.Chunk([]byte(all), 1000) {
		if err := w.Append(ctx, log.Part{Header: http.Header{}, Data: p}); err != nil {
			t.Fatal(err)
		}
	}
}

// bursts returns n events of the size, in pieces of one write each.
func bursts(n, size int) (all []string) {
	for range n {
		all = append(all, "data: "+strings.Repeat("x", size-8)+"\n\n")
	}
	return all
}

// inPromptBubble runs a test in a bubble, in which no client takes too long. Upstream sends the
// first piece, and the others in a burst when the test closes the channel.
func inPromptBubble(t *testing.T, maxStream, maxMemory int64, pieces []string, test func(t *testing.T, l *lab, burst chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		burst := make(chan struct{}, 1)
		burst <- struct{}{}
		test(t, newPipeLab(t, func(o *resume.Options) {
			o.MaxStream, o.MaxMemory = maxStream, maxMemory
		}, streams(pieces, burst)), burst)
	})
}

// TestClientIsNotCutOffBecauseAnotherHasRead: once another client has read a stream, upstream
// goes on waiting for the client that is still there.
func TestClientIsNotCutOffBecauseAnotherHasRead(t *testing.T) {
	for name, back := range map[string][]string{"the first": nil, "one that has come back": {key, "k"}} {
		t.Run(name, func(t *testing.T) {
			const memory = 1 << 20
			pieces := append([]string{event(1)}, bursts(20, 8<<10)...)
			inPromptBubble(t, 512<<10, memory, pieces, func(t *testing.T, l *lab, burst chan struct{}) {
				fillMemory(t, l.store, memory)
				first := l.send(post(key, "k"))
				id := first.id()
				first.next()
				second := l.send(post(key, "k"))
				second.next()
				stays, leaves := first, second
				if back != nil {
					stays, leaves = second, first
				}
				leaves.leave()
				synctest.Wait()
				close(burst)
				stays.wantRest(numbered(id, 2, pieces[1:]...))
				l.wantAsked(1)
			})
		})
	}
}

// TestPromptReadersAreNeverCutOff has some read at once what comes much faster than they
// take it, in pieces smaller and larger than what is kept, with room in memory and without.
func TestPromptReadersAreNeverCutOff(t *testing.T) {
	for _, size := range []int{100, 5000, 16 << 10, 40000, 300000} {
		for _, memory := range []int64{64 << 10, 64 << 20} {
			pieces := append([]string{event(1)}, bursts(4<<20/size, size)...)
			inPromptBubble(t, 64<<10, memory, pieces, func(t *testing.T, l *lab, burst chan struct{}) {
				if memory < 1<<20 {
					fillMemory(t, l.store, int(memory))
				}
				var all sync.WaitGroup
				first := l.send(post(key, "k"))
				want := numbered(first.id(), 1, pieces...)
				for i := range 3 {
					r := first
					if i > 0 {
						r = l.send(post(key, "k"))
					}
					all.Go(func() {
						if b, err := io.ReadAll(r.in); string(b) != want || err != nil {
							t.Errorf("events of %d bytes, memory of %d: the reader %d gets %d bytes of %d, %v", size, memory, i, len(b), len(want), err)
						}
					})
				}
				synctest.Wait()
				close(burst)
				all.Wait()
				l.wantAsked(1)
			})
		}
	}
}

// TestUpstreamWaitsForASlowClient that is the only one, although there is room, until another
// client reads, its stream is deleted or the process drains.
func TestUpstreamWaitsForASlowClient(t *testing.T) {
	for _, ends := range []log.Reason{log.ReasonNone, log.ReasonDeleted, log.ReasonShutdown} {
		all, maxStream := bursts(1000, 10<<10), int64(64<<20)
		if ends != log.ReasonNone {
			all, maxStream = bursts(100, 1<<20), 64<<10
		}
		pieces := append([]string{event(1)}, all...)
		inPromptBubble(t, maxStream, 64<<20, pieces, func(t *testing.T, l *lab, burst chan struct{}) {
			slow, read := l.send(post(key, "k")), ""
			if ends == log.ReasonDeleted { // one that has come back
				first := slow
				first.next()
				slow = l.send(post(key, "k"))
				first.leave()
			} else {
				read = slow.next()
			}
			synctest.Wait()
			close(burst)
			time.Sleep(time.Hour)
			l.wantOpen(1)
			if used, _ := l.store.Used(); used > 3<<20 || ends == log.ReasonNone && used > 1<<20 {
				t.Errorf("upstream has not waited: %d bytes have come", used)
			}
			switch ends {
			case log.ReasonDeleted:
				l.send(request{http.MethodDelete, otherPath + "/" + slow.id(), "", nil}).want(http.StatusNoContent)
			case log.ReasonShutdown:
				l.runs.Shutdown(1)
			default:
				want := numbered(slow.id(), 1, pieces...)
				if second := l.send(post(key, "k")).rest(); second != want {
					t.Errorf("the second got %d bytes, want %d", len(second), len(want))
				}
				slow.wantRest(strings.TrimPrefix(want, read))
			}
			l.wantOver(ends)
			slow.leave()
		})
	}
}
