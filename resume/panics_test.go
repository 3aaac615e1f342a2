package resume_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// panicsLater is a writer of a client that panics when events come.
type panicsLater struct {
	http.ResponseWriter
	with any
}

func (w panicsLater) Write([]byte) (int, error) { panic(w.with) }

// TestWriterThatPanicsInTheMiddle panics in the goroutine of its client, and for that
// alone: the run goes on, and its stream is whole.
func TestWriterThatPanicsInTheMiddle(t *testing.T) {
	for name, with := range map[string]any{"abort": http.ErrAbortHandler, "panic": "boom"} {
		t.Run(name, func(t *testing.T) {
			runs := new(resume.Runs)
			o := resume.DefaultOptions()
			o.Runs = runs
			p := resume.New(o)
			send := func(w http.ResponseWriter) (panicked any) {
				defer func() { panicked = recover() }()
				r := httptest.NewRequest(http.MethodPost, otherPath, strings.NewReader(asking))
				r.Header.Set(key, "k")
				_ = p.Serve(w, r, streams(events(5), always()))
				return nil
			}
			got := send(panicsLater{httptest.NewRecorder(), with})
			if got != with {
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
		})
	}
}

// panickingLogs are logs that a run that was cancelled cannot read.
type panickingLogs struct{ resume.Store }

func (s panickingLogs) Read(ctx context.Context, id string, n uint64) resume.Reader {
	if ctx.Err() != nil {
		panic("boom")
	}
	return s.Store.Read(ctx, id, n)
}

// TestPanicAtTheEndOfARun that was cancelled breaks the stream off, and is told once.
func TestPanicAtTheEndOfARun(t *testing.T) {
	l := newLab(t, func(o *resume.Options) { o.Store = panickingLogs{resume.NewMemory()} }, silent)
	r := l.send(chat(key, "k")).want(http.StatusOK)
	r.next()
	l.send(request{http.MethodDelete, chatPath + "/" + r.id(), "", nil}).want(http.StatusNoContent)
	r.broken()
	if e := l.over(); e.Panicked == nil || !strings.Contains(e.Panicked.Error(), "boom") || !strings.Contains(e.Panicked.Error(), "panics_test.go") {
		t.Errorf("told is %v", e.Panicked)
	}
	until(t, "nothing is open", func() bool { return l.runs.Open() == 0 && l.runs.Stats().Readers == 0 })
}

// TestPanicOfARunThatWasCancelled is told to the Observer: its client gets a stream that is
// whole, with an error finish.
func TestPanicOfARunThatWasCancelled(t *testing.T) {
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunk)
		<-r.Context().Done()
		panic("boom")
	})
	r := l.send(chat(key, "k")).want(http.StatusOK)
	r.next()
	l.send(request{http.MethodDelete, chatPath + "/" + r.id(), "", nil}).want(http.StatusNoContent)
	checkFinish(t, r.rest(), r.id(), 2, "upstream_aborted")
	if e := l.over(); e.Panicked == nil || !strings.Contains(e.Panicked.Error(), "boom") {
		t.Errorf("told is %v", e.Panicked)
	}
}

// TestUpstreamThatDiesInTheMiddle is what a reverse proxy makes of it: a panic with
// http.ErrAbortHandler. Everybody who reads is cut off, nobody is told of a panic, and
// nothing is left.
func TestUpstreamThatDiesInTheMiddle(t *testing.T) {
	dies := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event(1))
		_ = http.NewResponseController(w).Flush()
		<-dies
		panic(http.ErrAbortHandler)
	}))
	defer up.Close()
	to, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		proxy.ServeHTTP(w, r)
		return nil
	})
	var all []*reply
	for range 5 {
		r := l.send(post(key, "k")).want(http.StatusOK)
		r.next()
		all = append(all, r)
	}
	close(dies)
	for _, r := range all {
		r.broken()
	}
	if e := l.over(); e.Panicked != nil || e.Err != nil && !errors.Is(e.Err, context.Canceled) {
		t.Errorf("told is %+v", e)
	}
	until(t, "nothing is open", func() bool { return l.runs.Open() == 0 && l.runs.Stats().Readers == 0 })
	l.wantAsked(1)
}

// panicking is a writer that panics.
type panicking struct{ http.ResponseWriter }

func (panicking) WriteHeader(int) { panic("boom") }

// TestWriterThatPanics leaves no reader behind: the run goes on as without a client, and
// ends.
func TestWriterThatPanics(t *testing.T) {
	runs := new(resume.Runs)
	o := resume.DefaultOptions()
	o.Runs = runs
	r := httptest.NewRequest(http.MethodPost, otherPath, strings.NewReader(asking))
	r.Header.Set(key, "k")
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("panic %v", v)
			}
		}()
		_ = resume.New(o).Serve(panicking{httptest.NewRecorder()}, r, streams(events(3), always()))
	}()
	until(t, "the run ends", func() bool { return runs.Open() == 0 })
	if st := runs.Stats(); st.Readers != 0 || st.Detached != 0 {
		t.Errorf("stats %+v", st)
	}
}
