package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// breaking is an inner writer that panics with what it is given where it is told
// to, and must not be used again then.
type breaking struct {
	*recorder
	at    string // "header", "write" or "flush"; "" for not yet
	value any
	broke bool
	seen  *observer
}

func (w *breaking) use(what string) {
	moves.Load()
	if w.broke {
		w.t.Errorf("the writer is used again, for its %s", what)
	}
	if w.at == what {
		w.broke = true
		panic(w.value)
	}
}

func (w *breaking) WriteHeader(status int) {
	w.use("header")
	w.recorder.WriteHeader(status)
}

func (w *breaking) Write(b []byte) (int, error) {
	w.use("write")
	return w.recorder.Write(b)
}

func (w *breaking) FlushError() error {
	w.use("flush")
	return w.recorder.FlushError()
}

// guardedBy serves a request with an inner writer that breaks, and returns how
// the guard let it go, which it must.
func guardedBy(t *testing.T, w *breaking, o proxy.Options, p string, next func(http.ResponseWriter, *http.Request) error) ending {
	t.Helper()
	streams := o.Streams
	if streams == nil {
		streams = new(proxy.Streams)
		o.Streams = streams
	}
	r := chatRequest(`{"stream":true}`)
	r.URL.Path = p
	w.seen = &observer{t: t, r: r}
	o.Observer = w.seen
	ended := make(chan ending, 1)
	go func() {
		var e ending
		defer func() {
			e.panicked = recover()
			w.sealed.Store(true)
			ended <- e
		}()
		e.err = proxy.New(o).Serve(w, r, next)
	}()
	e := <-ended
	if n := streams.Open(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
	return e
}

func newBreaking(t *testing.T, at string, value any) *breaking {
	return &breaking{recorder: &recorder{t: t, header: make(http.Header)}, at: at, value: value}
}

// TestPanicOfTheWriterGoesOn: in the handler's goroutine, once, and holds nothing
// up, whatever the handler does and whatever the answer is.
func TestPanicOfTheWriterGoesOn(t *testing.T) {
	for _, media := range []string{"text/event-stream", "application/json", "text/plain", "" /* an error's */} {
		for _, p := range []string{chatPath, otherPath} {
			for _, at := range []string{"header", "write", "flush"} {
				for name, act := range map[string]func(http.ResponseWriter){
					"Write":       func(w http.ResponseWriter) { _, _ = w.Write([]byte(role + text("hi"))) },
					"ReadFrom":    func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader(role)) },
					"Flush":       func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
					"WriteHeader": func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) },
				} {
					t.Run(fmt.Sprint(media, p, at, name), func(t *testing.T) {
						o := proxy.Options{ErrorStatus: func(error) int { return http.StatusBadGateway }}
						w := newBreaking(t, at, "boom")
						e := guardedBy(t, w, o, p, func(w http.ResponseWriter, _ *http.Request) error {
							if media == "" {
								return errTest
							}
							w.Header().Set("Content-Type", media)
							act(w)
							return nil
						})
						if got := fmt.Sprint(e.panicked); w.broke != (e.panicked != nil) || w.broke && !strings.HasPrefix(got, "boom") {
							t.Errorf("the writer broke: %v; the guard panicked with %v", w.broke, got)
						}
						if p == chatPath && media == "text/event-stream" && len(w.seen.ends) != 1 {
							t.Errorf("%d ends were observed", len(w.seen.ends))
						}
					})
				}
			}
		}
	}
}

// TestPanicUnderATimerGoesOnInTheHandler: it ends upstream's request, and not the
// process. The handler is told, and the server gets the panic with its stack.
func TestPanicUnderATimerGoesOnInTheHandler(t *testing.T) {
	type timer struct {
		set   func(*proxy.Options)
		at    string
		begun bool // the stream has
	}
	for name, c := range map[string]timer{
		"keepalive":                     {func(o *proxy.Options) { o.Keepalive = time.Second }, "write", true},
		"keepalive, flush":              {func(o *proxy.Options) { o.Keepalive = time.Second }, "flush", true},
		"keepalive that is first":       {func(o *proxy.Options) { o.Keepalive = time.Second }, "header", false},
		"idle timeout":                  {func(o *proxy.Options) { o.IdleTimeout = time.Second }, "write", true},
		"idle timeout before the first": {func(o *proxy.Options) { o.IdleTimeout = time.Second }, "header", false},
		"drain":                         {func(o *proxy.Options) { o.Streams.Shutdown(0) }, "write", true},
		"drain before the first":        {func(o *proxy.Options) { o.Streams.Shutdown(0) }, "header", false},
	} {
		for _, value := range []any{"boom", errTest, http.ErrAbortHandler} {
			for how, finish := range map[string]func() error{
				"returns":        func() error { return nil },
				"returns errors": func() error { return errors.New("another") },
				"aborts":         func() error { panic(http.ErrAbortHandler) },
			} {
				bubble(t, fmt.Sprint(name, " ", value, " ", how), func(t *testing.T) {
					o := proxy.Options{Streams: new(proxy.Streams), DrainTimeout: time.Second}
					c.set(&o)
					w := newBreaking(t, "", value)
					e := guardedBy(t, w, o, chatPath, func(rw http.ResponseWriter, up *http.Request) error {
						rw.Header().Set("Content-Type", "text/event-stream")
						rw.WriteHeader(http.StatusOK)
						if c.begun {
							_, _ = rw.Write([]byte(role))
						}
						w.at = c.at
						advance(time.Second)
						if up.Context().Err() == nil {
							t.Error("upstream's request goes on")
						}
						if _, err := rw.Write([]byte(role)); err == nil {
							t.Error("the handler may write on")
						}
						return finish()
					})
					if !w.broke {
						t.Fatal("the timer has written nothing")
					}
					checkLate(t, e.panicked, value)
				})
			}
		}
	}
}

// checkLate checks that got is the panic with value, and shows where it came from.
func checkLate(t *testing.T, got, value any) {
	t.Helper()
	if value == http.ErrAbortHandler {
		if got != value {
			t.Errorf("the guard panicked with %v, want %v", got, value)
		}
		return
	}
	err, ok := got.(error)
	if !ok {
		t.Fatalf("the guard panicked with %v", got)
	}
	if s := err.Error(); !strings.HasPrefix(s, fmt.Sprint(value)) || !strings.Contains(s, "(*breaking).use") {
		t.Errorf("the panic is\n%s", s)
	}
	if value == errTest && !errors.Is(err, errTest) {
		t.Error("the error is lost")
	}
}

// TestPanicOfTheHandlerIsMoreThanTheTimers: what the handler itself panics with
// goes on.
func TestPanicOfTheHandlerIsMoreThanTheTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBreaking(t, "", "boom")
		e := guardedBy(t, w, proxy.Options{IdleTimeout: time.Second}, chatPath,
			func(http.ResponseWriter, *http.Request) error {
				w.at = "header"
				advance(time.Second)
				panic("mine")
			})
		e.wantPanic(t, "mine")
	})
}

// chatRequest is a request for chat completions.
func chatRequest(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}
