package resume_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestRequestsThatDoNotAskAreNotTouched gives next the very request and writer.
func TestRequestsThatDoNotAskAreNotTouched(t *testing.T) {
	id := "stream_" + strings.Repeat("A", 22)
	for name, r := range map[string]*http.Request{
		"POST":                    httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking)),
		"GET with a key":          httptest.NewRequest(http.MethodGet, chatPath, nil),
		"HEAD of another id":      httptest.NewRequest(http.MethodHead, "/v1/responses/resp_1", nil),
		"GET of another id":       httptest.NewRequest(http.MethodGet, "/v1/responses/resp_1", nil),
		"DELETE of another id":    httptest.NewRequest(http.MethodDelete, "/v1/responses/resp_1", nil),
		"PUT with a key":          httptest.NewRequest(http.MethodPut, chatPath+"/"+id, nil),
		"GET of the bare id":      httptest.NewRequest(http.MethodGet, "/"+id[:8], nil),
		"OPTIONS":                 httptest.NewRequest(http.MethodOptions, chatPath, nil),
		"POST of somebody's id":   httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking)),
		"POST with an empty key":  httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking)),
		"POST that turns it off":  httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking)),
		"POST, always, of a file": httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader("x")),
	} {
		o := resume.DefaultOptions()
		switch name {
		case "GET with a key", "PUT with a key":
			r.Header.Set(key, "k")
		case "POST of somebody's id":
			r.Header.Set("Last-Event-ID", "17")
		case "POST with an empty key":
			r.Header.Set(key, "")
		case "POST that turns it off":
			r.Header.Set(resume.DetachHeader, "0s")
			r.Header.Set("Content-Type", "application/json")
			o.Always = true
		case "POST, always, of a file":
			r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
			o.Always = true
		}
		p := resume.New(o)
		rec := httptest.NewRecorder()
		want := errors.New("its error")
		called := false
		err := p.Serve(rec, r, func(gotW http.ResponseWriter, gotR *http.Request) error {
			called = true
			if gotW != rec || gotR != r {
				t.Errorf("%s: next got others", name)
			}
			return want
		})
		if !called || err != want { //nolint:errorlint // the very error
			t.Errorf("%s: called %v, error %v", name, called, err)
		}
		if allocs := testing.AllocsPerRun(100, func() {
			_ = p.Serve(rec, r, func(http.ResponseWriter, *http.Request) error { return nil })
		}); allocs != 0 && name != "POST, always, of a file" && name != "POST of somebody's id" {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

// TestAlwaysAsksForEveryPOSTOfJSON asks without any header.
func TestAlwaysAsksForEveryPOSTOfJSON(t *testing.T) {
	l := newLab(t, func(o *resume.Options) { o.Always = true }, streams(events(2), always()))
	r := l.send(post()).want(http.StatusOK)
	if got := r.rest(); r.id() == "" || got != numbered(r.id(), 1, events(2)...) {
		t.Errorf("%q", got)
	}
	if r := l.send(request{http.MethodPost, otherPath, "x", nil}).want(http.StatusOK); r.id() != "" {
		t.Error("a POST of anything has a log")
	}
}

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
			runs, store := new(resume.Runs), resume.NewMemory()
			o := resume.DefaultOptions()
			o.Runs, o.Store = runs, store
			var mu sync.Mutex
			var logged bytes.Buffer
			serve := func(h http.Handler) (string, string) {
				srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("X-Outer", "1")
					w.Header()["Date"] = nil
					h.ServeHTTP(w, r)
				}))
				mu.Lock()
				logged.Reset()
				mu.Unlock()
				srv.Config.ErrorLog = log.New(locked{&mu, &logged}, "", 0)
				srv.Start()
				defer srv.Close()
				got := raw(t, srv.Listener.Addr().String())
				srv.Close()
				mu.Lock()
				defer mu.Unlock()
				line, _, _ := strings.Cut(logged.String(), "\n")
				_, line, _ = strings.Cut(line, ": ")
				_, line, _ = strings.Cut(line, ": ")
				return got, line
			}
			want, wantLogged := serve(h)
			got, gotLogged := serve(resume.New(o).Handler(h))
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

type locked struct {
	mu *sync.Mutex
	io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Writer.Write(p)
}

// raw sends a request with a key, and returns the bytes of the answer.
func raw(t *testing.T, addr string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s", otherPath, len(asking), asking)
	b, err := io.ReadAll(conn)
	if err != nil {
		return string(b) + "\n" + err.Error()
	}
	return string(b)
}

// TestEarlyHintsOfAStream leave as they come.
func TestEarlyHintsOfAStream(t *testing.T) {
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		return streams(events(1), always())(w, r)
	})
	hints := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		if hints++; code != http.StatusEarlyHints || h.Get("Link") != "</a>" {
			t.Errorf("%d %v", code, h)
		}
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.srv.URL+otherPath, strings.NewReader(asking))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(key, "k")
	res, err := l.srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := bufio.NewReader(res.Body).ReadString(' '); err != nil || hints != 1 {
		t.Errorf("%d hints, %v", hints, err)
	}
}

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

// TestBodiesThatCannotBeKept pass as they come.
func TestBodiesThatCannotBeKept(t *testing.T) {
	failure := errors.New("torn")
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		want   string
		err    error
	}{
		"as large as may be":     {strings.NewReader("0123456789"), 10, "0123456789", nil},
		"of unknown length":      {strings.NewReader("0123456789"), -1, "0123456789", nil},
		"too large":              {strings.NewReader("0123456789a"), 11, "0123456789a", nil},
		"too large, not said":    {strings.NewReader("0123456789abc"), -1, "0123456789abc", nil},
		"that cannot be read":    {io.MultiReader(strings.NewReader("0123"), failing{failure}), -1, "0123", failure},
		"that ends too early":    {io.MultiReader(strings.NewReader("0123"), failing{io.ErrUnexpectedEOF}), 10, "0123", io.ErrUnexpectedEOF},
		"none":                   {nil, 0, "", nil},
		"that is empty, chunked": {strings.NewReader(""), -1, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := resume.DefaultOptions()
			o.MaxRequest = func() int64 { return 10 }
			r := httptest.NewRequest(http.MethodPost, otherPath, c.body)
			r.ContentLength = c.length
			r.Header.Set(key, "k")
			w := httptest.NewRecorder()
			err := resume.New(o).Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
				got, err := io.ReadAll(r.Body)
				if string(got) != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
					t.Errorf("next reads %q, %v; want %q, %v", got, err, c.want, c.err)
				}
				return streams(events(1), always())(w, r)
			})
			if err != nil {
				t.Error(err)
			}
			fits := c.err == nil && len(c.want) <= 10
			if got := w.Header().Get(resume.StreamHeader) != ""; got != fits {
				t.Errorf("it has a log: %v", got)
			}
		})
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
