package proxytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// An Exchange is a request under guard whose handler does what the test says, step by step.
type Exchange struct {
	T     *testing.T
	Rec   *Recorder
	R     *http.Request      // the client's
	Leave context.CancelFunc // what the client does

	W       http.ResponseWriter // the handler's, once it runs
	Up      *http.Request       // the handler's
	Streams *proxy.Streams

	Ack   chan struct{} // says that the handler runs, and after Start that it has done its step
	Ended chan Ending   // says how the guard let the request go
	Over  bool          // the handler has ended, or never runs
	steps chan func() (last bool, err error)

	*Observer
}

// An Ending is how the guard let a request go.
type Ending struct {
	Err      error
	Panicked any
	Stack    string
}

// New returns an exchange that Launch begins.
func New(t *testing.T) *Exchange {
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, ChatPath, nil)
	return &Exchange{
		T: t, Rec: NewRecorder(t), R: r, Leave: cancel,
		steps: make(chan func() (bool, error)), Ack: make(chan struct{}), Ended: make(chan Ending, 1),
		Observer: &Observer{t: t, r: r},
	}
}

// Launch has serve serve the request, and observes that with o. Ack says when the handler runs.
func (x *Exchange) Launch(o *proxy.Options, serve func(http.ResponseWriter, *http.Request, func(http.ResponseWriter, *http.Request) error) error) {
	x.T.Helper()
	o.Observer = x.Observer
	if o.Streams == nil {
		o.Streams = new(proxy.Streams)
	}
	x.Streams = o.Streams
	go func() {
		var e Ending
		defer func() {
			if e.Panicked = recover(); e.Panicked != nil {
				e.Stack = string(debug.Stack())
			}
			x.Rec.sealed.Store(true)
			x.Ended <- e
		}()
		e.Err = serve(x.Rec, x.R, x.next)
	}()
	x.T.Cleanup(func() {
		if !x.Over {
			close(x.steps)
			if x.W == nil {
				x.Leave()
			}
			<-x.Ended
		}
		x.Leave()
	})
}

// next is the next handler.
func (x *Exchange) next(w http.ResponseWriter, r *http.Request) error {
	x.W, x.Up = w, r
	x.Ack <- struct{}{}
	for step := range x.steps {
		last, err := step()
		if last {
			return err
		}
		x.Ack <- struct{}{}
	}
	return nil
}

// Do runs f in the handler.
func (x *Exchange) Do(f func()) {
	x.T.Helper()
	x.Start(f)
	<-x.Ack
}

// Start has the handler run f, and does not wait for it: x.Ack tells.
func (x *Exchange) Start(f func()) {
	x.T.Helper()
	x.steps <- func() (bool, error) { f(); return false, nil }
}

// Last has the handler do what f says and end, and does not wait for it: Ended tells, or Ack if the
// handler is run again.
func (x *Exchange) Last(f func() error) {
	x.T.Helper()
	x.steps <- func() (bool, error) { return true, f() }
}

// Finish has the handler do what f says and end.
func (x *Exchange) Finish(f func() error) Ending {
	x.T.Helper()
	x.Last(f)
	x.Over = true
	return <-x.Ended
}

// Ret has the handler return err.
func (x *Exchange) Ret(err error) Ending {
	x.T.Helper()
	return x.Finish(func() error { return err })
}

// Panics has the handler panic with v.
func (x *Exchange) Panics(v any) Ending {
	x.T.Helper()
	return x.Finish(func() error { panic(v) })
}

// Abort has the handler panic with http.ErrAbortHandler.
func (x *Exchange) Abort() Ending {
	x.T.Helper()
	return x.Panics(http.ErrAbortHandler)
}

// Head has the handler write a header with a status and fields, given as name, value, name, value.
func (x *Exchange) Head(status int, fields ...string) {
	x.T.Helper()
	x.Do(func() {
		for i := 0; i < len(fields); i += 2 {
			x.W.Header().Set(fields[i], fields[i+1])
		}
		x.W.WriteHeader(status)
	})
}

// Stream has the handler write the header of an event stream, with more fields.
func (x *Exchange) Stream(fields ...string) {
	x.T.Helper()
	x.Head(http.StatusOK, append([]string{"Content-Type", "text/event-stream"}, fields...)...)
}

// Write has the handler write the pieces, which the writer must take.
func (x *Exchange) Write(pieces ...string) {
	x.T.Helper()
	x.Do(func() {
		for _, s := range pieces {
			if n, err := x.W.Write([]byte(s)); n != len(s) || err != nil {
				x.T.Errorf("Write(%q) = %d, %v; want %d, nil", s, n, err, len(s))
			}
		}
	})
}

// TryWrite has the handler write s, and returns the result.
func (x *Exchange) TryWrite(s string) (n int, err error) {
	x.T.Helper()
	x.Do(func() { n, err = x.W.Write([]byte(s)) })
	return n, err
}

// Flush has the handler flush.
func (x *Exchange) Flush() {
	x.T.Helper()
	x.Do(func() {
		Equal(x.T, http.NewResponseController(x.W).Flush(), nil, "Flush")
	})
}

// Result returns what the observer observed at the end, of which there must be one.
func (x *Exchange) Result() proxy.Result {
	x.T.Helper()
	if len(x.Ends) != 1 {
		x.T.Fatalf("%d ends were observed, want one", len(x.Ends))
	}
	return x.Ends[0]
}

// WantBody compares what the client was sent.
func (x *Exchange) WantBody(want string) {
	x.T.Helper()
	Equal(x.T, x.Rec.Body.String(), want, "what the client was sent")
}

// WantLog compares the calls of the inner writer.
func (x *Exchange) WantLog(want ...string) {
	x.T.Helper()
	if !slices.Equal(x.Rec.Log, want) {
		x.T.Errorf("calls of the inner writer\n%q\nwant\n%q", x.Rec.Log, want)
	}
}

// Want checks how the next handler ended: how is "abort", "panic" (with boom), "error" or anything else
// for a return. No other panic or error may leave the proxy.
func (e Ending) Want(t *testing.T, how string) {
	t.Helper()
	panicked := map[string]any{"abort": http.ErrAbortHandler, "panic": "boom"}[how]
	e.WantEnd(t, panicked, map[string]error{"error": ErrTest}[how])
}

// WantSwallowed checks that the guard returned nil.
func (e Ending) WantSwallowed(t *testing.T) {
	t.Helper()
	e.WantEnd(t, nil, nil)
}

// WantEnd checks that the guard panicked with the very value, or returned the very error.
func (e Ending) WantEnd(t *testing.T, panicked any, err error) {
	t.Helper()
	if e.Panicked != panicked || e.Err != err {
		t.Errorf("the guard ended with panic %v, error %v; want panic %v, error %v", e.Panicked, e.Err, panicked, err)
	}
}

// WantAnswer checks that the client was sent an error as JSON, which says that the
// agent may be running.
func (x *Exchange) WantAnswer(status int, code string) {
	x.T.Helper()
	x.WantAnswerOf(status, code, true)
}

// WantAnswerOf checks the same of an error after which the agent may be running,
// or not.
func (x *Exchange) WantAnswerOf(status int, code string, running bool) {
	x.T.Helper()
	Equal(x.T, x.Rec.Status, status, "status")
	CheckAnswer(x.T, x.Rec.Sent, x.Rec.Body.Bytes(), code, running)
}

// happened is what an error says that stands in place of an answer, by its code.
var happened = map[string]string{
	"upstream_aborted": "the connection to the agent was lost before its answer", "upstream_timeout": "the agent was silent for too long",
	"upstream_incomplete": "the agent's answer ended before it had begun", "shutting_down": "the service is shutting down",
}

// CheckAnswer checks the header and the body of an error as JSON.
func CheckAnswer(t *testing.T, h http.Header, body []byte, code string, running bool) {
	t.Helper()
	Equal(t, h.Get("Content-Type"), "application/json", "Content-Type")
	Equal(t, h.Get("Content-Length"), fmt.Sprint(len(body)), "Content-Length")
	var a struct {
		Error struct {
			Message, Type, Code string
			Param               any
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("the answer %q is no JSON: %v", body, err)
	}
	if a.Error.Code != code || a.Error.Type != "upstream_error" || a.Error.Message == "" || a.Error.Param != nil {
		t.Errorf("the answer is %s, want an upstream_error with a message, param null and the code %s", body, code)
	}
	retry, says := "", a.Error.Message == happened[code]+"; the agent may be running"
	if running {
		retry = "false"
	}
	if got := h.Get("X-Should-Retry"); got != retry || says != running {
		t.Errorf("X-Should-Retry %q with %q; the agent may be running: %v", got, a.Error.Message, running)
	}
}

// UntilCancelled is a handler's step that gives upstream's request up when it
// is cancelled, with the cause.
func (x *Exchange) UntilCancelled() Ending {
	x.T.Helper()
	return x.Finish(func() error {
		<-x.Up.Context().Done()
		return context.Cause(x.Up.Context())
	})
}

// WantRunning checks that upstream's request goes on.
func (x *Exchange) WantRunning() {
	x.T.Helper()
	Equal(x.T, context.Cause(x.Up.Context()), nil, "why upstream's request was ended")
}

// WantStopped checks that upstream's request was ended, with a cause, and that
// the handler, which does not look, can write no more.
func (x *Exchange) WantStopped() {
	x.T.Helper()
	cause := context.Cause(x.Up.Context())
	if cause == nil || cause == context.Canceled {
		x.T.Errorf("upstream's request ended with the cause %v, want one that says why", cause)
	}
	// Only a timeout is a fault of upstream's, and Caddy counts none whose
	// error is context.Canceled.
	var late interface{ Timeout() bool }
	if timeout := errors.As(cause, &late) && late.Timeout(); timeout == errors.Is(cause, context.Canceled) {
		x.T.Errorf("the cause %v is a timeout: %v, and a cancellation: %v", cause, timeout, !timeout)
	}
	if late != nil && late.Timeout() && !strings.Contains(cause.Error(), "silent") {
		x.T.Errorf("the cause is %v", cause)
	}
	calls := len(x.Rec.Log)
	if n, err := x.TryWrite(Text("late")); n != 0 || err == nil {
		x.T.Errorf("a late Write = %d, %v; want an error", n, err)
	}
	x.Flush()
	if later := x.Rec.Log[calls:]; len(later) > 0 {
		x.T.Errorf("after the end the inner writer was called %q", later)
	}
}

// Answer has the next handler answer with the status, the type and the pieces of a body.
func (x *Exchange) Answer(status int, media string, pieces ...string) {
	x.T.Helper()
	x.Head(status, "Content-Type", media)
	x.Write(pieces...)
}

// AnswerWhole has the next handler answer with status 200, the fields and body.
func (x *Exchange) AnswerWhole(body string, fields ...string) {
	x.T.Helper()
	x.Head(http.StatusOK, append([]string{
		"Content-Type", "application/json; charset=utf-8", "Content-Length", fmt.Sprint(len(body)), "X-Hermes-Session-Id", "b58e0870",
	}, fields...)...)
}
