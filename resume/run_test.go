package resume_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// answers are next handlers whose answers are no event streams, or pass for other
// reasons.
var answers = map[string]http.HandlerFunc{
	"nothing": func(http.ResponseWriter, *http.Request) {},
	"an echo": func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) },
	"JSON": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "{}")
	},
	"an error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
	"an error that is a stream": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, event(1))
	},
	"a compressed stream": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "\x1f\x8b")
	},
	"no content": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	"flushed": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "b")
	},
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-A")
		_, _ = io.WriteString(w, "a")
		w.Header().Set("X-A", "1")
		w.Header().Set(http.TrailerPrefix+"X-B", "2")
	},
	"a header and nothing": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-A", "1") },
	"a header that goes":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Del("X-Outer") },
	"early hints": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "a")
	},
	"abort": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	},
	"abort at once": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"panic":         func(http.ResponseWriter, *http.Request) { panic("boom") },
	"another protocol": func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		_ = buf.Flush()
		conn.Close()
	},
}

// TestOtherAnswersPass compares what a client gets of answers that are no event streams
// with what it gets without resume.
func TestOtherAnswersPass(t *testing.T) {
	for name, h := range answers {
		t.Run(name, func(t *testing.T) {
			runs, store := new(resume.Runs), log.NewMemory()
			o := resume.DefaultOptions()
			o.Runs, o.Store = runs, store
			want, wantLogged := bare(t, h, "1.1", key+": k\r\n")
			got, gotLogged := bare(t, resume.New(o).Handler(h), "1.1", key+": k\r\n")
			if got != want || gotLogged != wantLogged {
				t.Errorf("the client gets\n%s\nwant\n%s\nlogged %q, want %q", got, want, gotLogged, wantLogged)
			}
			until(t, "the end of the run", func() bool { return runs.Open() == 0 }) // a hijacked connection ends before it
			if used, logs := store.Used(); used != 0 || logs != 0 {
				t.Errorf("%d bytes of %d logs are left", used, logs)
			}
		})
	}
}

// bare serves h, in front of which is a handler with a header of its own, and sends it a request with lines
// of fields. It returns the bytes of the answer, and what the server has logged.
func bare(t *testing.T, h http.Handler, version, fields string) (answer, line string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		w.Header()["Date"] = nil
		h.ServeHTTP(w, r)
	}))
	logged := logOf(srv)
	srv.Start()
	defer srv.Close()
	conn := dial(t, srv, "POST %s HTTP/%s\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s",
		otherPath, version, fields, len(asking), asking)
	b, err := io.ReadAll(conn)
	if answer = string(b); err != nil {
		answer += "\n" + err.Error()
	}
	srv.Close()
	line, _, _ = strings.Cut(logged.String(), "\n")
	_, line, _ = strings.Cut(line, ": ")
	_, line, _ = strings.Cut(line, ": ")
	return answer, line
}

// TestFailuresOfStreams reach the first client as they would without resume, others as
// a stream that breaks off; and a client that comes back later as the same. An abort, which is
// how a reverse proxy says that upstream has died, is no panic to be told of.
func TestFailuresOfStreams(t *testing.T) {
	for name, fail := range map[string]func() error{
		"abort": func() error { panic(http.ErrAbortHandler) },
		"panic": func() error { panic("boom") },
		"error": func() error { return errors.New("failed") },
	} {
		t.Run(name, func(t *testing.T) {
			may := make(chan struct{})
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				_ = streams(events(1), always())(w, r)
				<-may
				return fail()
			})
			logged := logOf(l.srv)
			var all []*reply
			for range 5 {
				r := l.send(post(key, "k")).want(http.StatusOK)
				r.next()
				all = append(all, r)
			}
			close(may)
			for i, r := range all {
				if i == 0 && name == "error" {
					if got := r.rest(); got != "" { // the lab answers with a status, too late
						t.Errorf("%q", got)
					}
					continue
				}
				r.broken()
			}
			if got := l.send(post(key, "k")).broken(); got != numbered(all[0].id(), 1, event(1)) {
				t.Errorf("later it is %q", got)
			}
			l.wantAsked(1)
			if e := l.over(); e.Panicked != nil || (e.Err != nil) != (name == "error") {
				t.Errorf("told is %+v", e)
			}
			until(t, "nothing is open", func() bool { return l.runs.Open() == 0 && l.runs.Stats().Readers == 0 })
			if name == "panic" {
				until(t, "it is logged", func() bool { return logged.has("boom") && logged.has("run_test.go") })
			}
		})
	}
}

// TestPanicWithoutAClient is logged.
func TestPanicWithoutAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newScript(event(1))
		l := newPipeLab(t, func(o *resume.Options) { o.Ended = resume.DefaultOptions().Ended }, up.next)
		logged := logOf(l.srv)
		l.leaves(post(key, "k"))
		up.end(func() error { panic("boom") })
		synctest.Wait()
		if !logged.has("boom") || !logged.has("run_test.go") {
			t.Errorf("logged is %q", logged)
		}
	})
}

// logged is what a server has logged.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// logOf has a server log into what it returns.
func logOf(srv *httptest.Server) *logged {
	l := new(logged)
	srv.Config.ErrorLog = stdlog.New(l, "", 0)
	return l
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *logged) has(text string) bool { return strings.Contains(l.String(), text) }

// TestKeyOfAFailureIsFree if the answer is no stream, or one that breaks off before its first
// event: there is nothing to repeat.
func TestKeyOfAFailureIsFree(t *testing.T) {
	calls := 0
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		switch calls++; calls {
		case 1:
			http.Error(w, "no", http.StatusBadGateway)
		case 2:
			_ = streams([]string{": hello\n\n"}, always())(w, r)
			panic(http.ErrAbortHandler)
		default:
			return streams(events(2), always())(w, r)
		}
		return nil
	})
	l.send(post(key, "k")).want(http.StatusBadGateway)
	l.over()
	l.send(post(key, "k")).want(http.StatusOK).broken()
	l.over()
	for _, replayed := range []string{"", "true"} {
		r := l.send(post(key, "k")).want(http.StatusOK)
		if got := r.rest(); got != numbered(r.id(), 1, events(2)...) || r.Header.Get("Idempotency-Replayed") != replayed {
			t.Errorf("%v %q", r.Header, got)
		}
	}
	l.wantAsked(3)
}

// readsHeader is the writer of a client. It reads its header with each write, as net/http does
// over HTTP/2.
type readsHeader struct {
	header http.Header
	mu     sync.Mutex
	body   strings.Builder
}

func (w *readsHeader) Header() http.Header { return w.header }
func (w *readsHeader) WriteHeader(int)     {}
func (w *readsHeader) FlushError() error   { return nil }

func (w *readsHeader) Write(p []byte) (int, error) {
	_ = w.header.Clone()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(p)
}

func (w *readsHeader) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Len()
}

// TestHeaderIsTheHandlersAlone has a timer of hermes write while the handler after it sets
// trailers, in its map and in the one that it has had from the beginning: to a client that
// the run writes to, to others, and in an answer that passes. Only the race detector sees
// what is wrong.
func TestHeaderIsTheHandlersAlone(t *testing.T) {
	for _, readers := range []int{0, 1, 2} { // of a log; 0 for an answer that passes
		t.Run(fmt.Sprint("readers ", readers), func(t *testing.T) {
			po, ro := proxy.DefaultOptions(), resume.DefaultOptions()
			po.Keepalive = time.Millisecond
			begun, may := make(chan struct{}), make(chan struct{})
			first := &readsHeader{header: http.Header{}}
			h := resume.New(ro).Handler(proxy.New(po).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				kept := w.Header()
				kept.Set("Content-Type", "text/event-stream")
				kept.Set("Trailer", "X-Sum")
				if readers == 0 { // too large to be kept
					kept.Set("X-Large", strings.Repeat("x", 100<<10))
				}
				_, _ = io.WriteString(w, chunk)
				close(begun)
				<-may
				for began := first.len(); first.len() < began+1000; { // a few keepalives
					w.Header().Set("X-Sum", "1")
					kept.Set("X-Sum", "2")
				}
				_, _ = io.WriteString(w, "data: [DONE]\n\n")
			})))
			serve := func(w http.ResponseWriter) {
				h.ServeHTTP(w, keyed(chatPath))
			}
			var all sync.WaitGroup
			all.Go(func() { serve(first) })
			<-begun
			for range readers - 1 {
				all.Go(func() { serve(&readsHeader{header: http.Header{}}) })
			}
			close(may)
			all.Wait()
		})
	}
}

// sink is a writer that keeps nothing.
type sink struct{ h http.Header }

func (s sink) Header() http.Header       { return s.h }
func (sink) WriteHeader(int)             {}
func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) FlushError() error           { return nil }

// TestMaxMemoryBoundsStreams has clients read streams at once that have large pieces, and a header
// of any size and form: beyond max_memory, and what they take without a log, they take 36 KiB each. An
// answer with a header above 16 KiB passes.
func TestMaxMemoryBoundsStreams(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	const clients, most = 10, 1 << 20
	large := event(1) + strings.Repeat("x", 256<<10) + "\n\nd"
	bound := func(without int64) int64 { // the next handler has a map of its own
		return 2*max(without, 0) + most + clients*(36<<10)
	}
	fields := func(h http.Header, n int) {
		for i := range n {
			h.Set(fmt.Sprintf("X%06x", i), "a")
		}
	}
	values := func(h http.Header, n int) {
		for i := range n {
			h.Add("Set-Cookie", fmt.Sprintf("%06x", i))
		}
	}
	value := func(h http.Header, n int) { h.Set("X-Long", strings.Repeat("v", n)) }
	name := func(h http.Header, n int) { h.Set("X"+strings.Repeat("n", n), "a") }
	for _, form := range []struct {
		name   string
		set    func(h http.Header, n int)
		n      int
		passes bool
	}{
		{"no field", fields, 0, false},
		{"fields", fields, 80, false}, {"too many fields", fields, 10_000, true},
		{"values", values, 410, false}, {"too many values", values, 10_000, true},
		{"a long value", value, 15 << 10, false}, {"too long a value", value, 1 << 20, true},
		{"a long name", name, 15 << 10, false}, {"too long a name", name, 1 << 20, true},
	} {
		open := func(asks bool) (grown int64, logs int) {
			s := log.NewMemory()
			o := resume.DefaultOptions()
			o.Store, o.MaxMemory = s, most
			p := resume.New(o)
			rest := make(chan struct{})
			var begun, over sync.WaitGroup
			begun.Add(clients)
			before := alone.Heap()
			for i := range clients {
				over.Go(func() {
					r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking))
					if asks {
						r.Header.Set(key, fmt.Sprint(i))
					}
					_ = p.Serve(sink{http.Header{}}, r, func(w http.ResponseWriter, r *http.Request) error {
						form.set(w.Header(), form.n)
						w.Header().Set("Content-Type", "text/event-stream")
						for range 2 { // large pieces, with the beginning of a line at their ends
							_, _ = io.WriteString(w, large)
						}
						begun.Done()
						<-rest
						runtime.KeepAlive(w)
						return nil
					})
				})
			}
			begun.Wait()
			grown = alone.Heap() - before
			_, logs = s.Used()
			close(rest)
			over.Wait()
			return grown, logs
		}
		var with, without int64
		var logs int
		for range 5 { // a client may not have got to its wait, or what was before may go meanwhile
			without, _ = open(false)
			if with, logs = open(true); with <= bound(without) {
				break
			}
		}
		if with > bound(without) {
			t.Errorf("%s: %d bytes are taken, %d without a log", form.name, with, without)
		}
		if (logs == 0) != form.passes {
			t.Errorf("%s: %d logs", form.name, logs)
		}
	}
}

// TestEndedStreamsTakeWhatIsCounted has clients send requests with large headers and
// bodies: of a stream that has ended, its log stays and nothing of its request.
func TestEndedStreamsTakeWhatIsCounted(t *testing.T) {
	l := newLab(t, nil, streams(events(3), always()))
	l.srv.Config.SetKeepAlivesEnabled(false)
	large := strings.Repeat("x", 250<<10)
	ask := func(n int) {
		t.Helper()
		res, err := do(t.Context(), l.srv, request{
			http.MethodPost, otherPath + "?" + large, asking + large,
			[]string{key, fmt.Sprint(n), "X-Large", large, proxy.ProgressHeader, large},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err, string(b))
		}
		l.over()
	}
	ask(0)
	before := alone.Heap()
	const streams = 40
	for n := range streams {
		ask(n + 1)
	}
	used, _ := l.store.Used()
	if grown := alone.Heap() - before; grown > used+int64(len(large)*streams/4) {
		t.Errorf("the heap has grown by %d, counted are %d", grown, used)
	}
}
