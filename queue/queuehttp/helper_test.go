package queuehttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue/queuehttp"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	chatPath = "/v1/chat/completions"

	envelope = `"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795164799,"model":"hermes-agent","choices":`
	role     = `data: {` + envelope + `[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}` + "\n\n"
	fullStop = `data: {` + envelope + `[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\n"
	done     = "data: [DONE]\n\n"
	beat     = ": keepalive\n\n"
)

// text returns a chunk with the content s, the inside of a JSON string.
func text(s string) string {
	return `data: {` + envelope + `[{"index":0,"delta":{"content":"` + s + `"},"finish_reason":null}]}` + "\n\n"
}

// bubble runs f as a test of its own, with a clock of its own.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// moves counts the calls of advance. To load it orders the load after what a test has done
// before it called advance, which package synctest does not.
var moves atomic.Int64

// advance lets d pass, and all happen that becomes due.
func advance(d time.Duration) {
	moves.Add(1)
	time.Sleep(max(d, 1))
	synctest.Wait()
}

// recorder is the inner writer. Like Caddy's it has no lock of its own, so that
// the race detector sees who does not hold ours, and no Flush but FlushError.
type recorder struct {
	t       *testing.T
	header  http.Header
	log     []string // what was called
	sent    http.Header
	status  int
	body    bytes.Buffer
	onWrite func(b []byte) (int, error) // in place of taking b
	onFlush func() error
	sealed  atomic.Bool // nothing may be called any more
}

func (rec *recorder) called(format string, args ...any) {
	moves.Load()
	call := fmt.Sprintf(format, args...)
	if rec.sealed.Load() {
		rec.t.Errorf("the writer was touched after the guard: %s", call)
	}
	rec.log = append(rec.log, call)
}

func (rec *recorder) Header() http.Header {
	moves.Load()
	return rec.header
}

func (rec *recorder) WriteHeader(status int) {
	rec.called("header %d", status)
	if status >= 200 || status == http.StatusSwitchingProtocols {
		if rec.status != 0 {
			rec.t.Errorf("WriteHeader(%d) after WriteHeader(%d)", status, rec.status)
		}
		rec.status, rec.sent = status, rec.header.Clone()
	}
}

func (rec *recorder) Write(b []byte) (int, error) {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	rec.called("write %s", b)
	if rec.onWrite != nil {
		if n, err := rec.onWrite(b); err != nil {
			rec.body.Write(b[:n])
			return n, err
		}
	}
	return rec.body.Write(b)
}

func (rec *recorder) FlushError() error {
	rec.called("flush")
	if rec.onFlush != nil {
		return rec.onFlush()
	}
	return nil
}

// ending is how the guard let a request go.
type ending struct {
	err      error
	panicked any
}

// exchange is a request under guard whose handler does what the test says, step
// by step.
type exchange struct {
	t     *testing.T
	rec   *recorder
	r     *http.Request      // the client's
	leave context.CancelFunc // what the client does

	w  http.ResponseWriter // the handler's
	up *http.Request       // the handler's

	steps chan func() (last bool, err error)
	ack   chan struct{}
	ended chan ending
	over  bool
	*observer

	streams *proxy.Streams
}

// options are those of the Proxy and of the Queue.
type options struct {
	proxy.Options
	queue queuehttp.Queue
}

// serve has the Queue serve a request.
func (o *options) serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error) error {
	o.queue.Proxy = proxy.New(o.Options)
	return o.queue.Serve(w, r, next)
}

// setting changes what an exchange begins with.
type setting func(*options, *http.Request, *recorder)

func path(p string) setting {
	return func(_ *options, r *http.Request, _ *recorder) { r.URL.Path = p }
}

func method(m string) setting {
	return func(_ *options, r *http.Request, _ *recorder) { r.Method = m }
}

func header(name, value string) setting {
	return func(_ *options, r *http.Request, _ *recorder) { r.Header.Set(name, value) }
}

func option(f func(*options)) setting {
	return func(o *options, _ *http.Request, _ *recorder) { f(o) }
}

// begin begins an exchange with options that are all off, and returns when its
// handler runs.
func begin(t *testing.T, settings ...setting) *exchange {
	t.Helper()
	x := launch(t, settings...)
	<-x.ack
	return x
}

// launch is begin for an exchange whose handler may not run yet: x.ack tells.
func launch(t *testing.T, settings ...setting) *exchange {
	t.Helper()
	x := &exchange{
		t:     t,
		rec:   &recorder{t: t, header: make(http.Header)},
		steps: make(chan func() (bool, error)),
		ack:   make(chan struct{}),
		ended: make(chan ending, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.leave = cancel
	x.r = httptest.NewRequestWithContext(ctx, http.MethodPost, chatPath, nil)
	var o options
	for _, set := range settings {
		set(&o, x.r, x.rec)
	}
	x.observer = &observer{t: t, r: x.r}
	o.Observer = x.observer
	if o.Streams == nil {
		o.Streams = new(proxy.Streams)
	}
	x.streams = o.Streams
	go func() {
		var e ending
		defer func() {
			e.panicked = recover()
			x.rec.sealed.Store(true)
			x.ended <- e
		}()
		e.err = o.serve(x.rec, x.r, x.next)
	}()
	t.Cleanup(func() {
		if !x.over {
			close(x.steps)
			if x.w == nil {
				cancel()
			}
			<-x.ended
		}
		cancel()
	})
	return x
}

// next is the next handler.
func (x *exchange) next(w http.ResponseWriter, r *http.Request) error {
	x.w, x.up = w, r
	x.ack <- struct{}{}
	for step := range x.steps {
		last, err := step()
		if last {
			return err
		}
		x.ack <- struct{}{}
	}
	return nil
}

// do runs f in the handler.
func (x *exchange) do(f func()) {
	x.t.Helper()
	x.start(f)
	<-x.ack
}

// start has the handler run f, and does not wait for it: x.ack tells.
func (x *exchange) start(f func()) {
	x.t.Helper()
	x.steps <- func() (bool, error) { f(); return false, nil }
}

// finish has the handler do what f says and end.
func (x *exchange) finish(f func() error) ending {
	x.t.Helper()
	x.steps <- func() (bool, error) { return true, f() }
	x.over = true
	return <-x.ended
}

func (x *exchange) ret(err error) ending {
	x.t.Helper()
	return x.finish(func() error { return err })
}

func (x *exchange) panics(v any) ending {
	x.t.Helper()
	return x.finish(func() error { panic(v) })
}

func (x *exchange) abort() ending {
	x.t.Helper()
	return x.panics(http.ErrAbortHandler)
}

// stream has the handler write the header of an event stream, with more fields.
func (x *exchange) stream(fields ...string) {
	x.t.Helper()
	x.do(func() {
		x.w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; i < len(fields); i += 2 {
			x.w.Header().Set(fields[i], fields[i+1])
		}
		x.w.WriteHeader(http.StatusOK)
	})
}

// write has the handler write the pieces, which the writer must take.
func (x *exchange) write(pieces ...string) {
	x.t.Helper()
	x.do(func() {
		for _, s := range pieces {
			if n, err := x.w.Write([]byte(s)); n != len(s) || err != nil {
				x.t.Errorf("Write(%q) = %d, %v; want %d, nil", s, n, err, len(s))
			}
		}
	})
}

// tryWrite has the handler write s, and returns the result.
func (x *exchange) tryWrite(s string) (n int, err error) {
	x.t.Helper()
	x.do(func() { n, err = x.w.Write([]byte(s)) })
	return n, err
}

func (x *exchange) flush() {
	x.t.Helper()
	x.do(func() {
		equal(x.t, http.NewResponseController(x.w).Flush(), nil, "Flush")
	})
}

// result returns what the observer observed at the end, which must have come once.
func (x *exchange) result() proxy.Result {
	x.t.Helper()
	if len(x.ends) != 1 {
		x.t.Fatalf("%d ends were observed, want one", len(x.ends))
	}
	return x.ends[0]
}

// wantBody compares what the client was sent.
func (x *exchange) wantBody(want string) {
	x.t.Helper()
	equal(x.t, x.rec.body.String(), want, "what the client was sent")
}

// wantLog compares the calls of the inner writer.
func (x *exchange) wantLog(want ...string) {
	x.t.Helper()
	if !slices.Equal(x.rec.log, want) {
		x.t.Errorf("calls of the inner writer\n%q\nwant\n%q", x.rec.log, want)
	}
}

// want checks that what the handler did, an "abort", a "panic" with boom, or to
// return an "error", has gone on, and that nothing went on of all else.
func (e ending) want(t *testing.T, how string) {
	t.Helper()
	panicked := map[string]any{"abort": http.ErrAbortHandler, "panic": "boom"}[how]
	e.wantEnd(t, panicked, map[string]error{"error": errTest}[how])
}

// wantSwallowed checks that the guard returned nil.
func (e ending) wantSwallowed(t *testing.T) {
	t.Helper()
	e.wantEnd(t, nil, nil)
}

// wantEnd checks that the guard panicked with the very value, or returned the very error.
func (e ending) wantEnd(t *testing.T, panicked any, err error) {
	t.Helper()
	if e.panicked != panicked || e.err != err {
		t.Errorf("the guard ended with panic %v, error %v; want panic %v, error %v", e.panicked, e.err, panicked, err)
	}
}

// wantAnswer checks that the client was sent an error as JSON, which says that the
// agent may be running.
func (x *exchange) wantAnswer(status int, code string) {
	x.t.Helper()
	x.wantAnswerOf(status, code, true)
}

// wantAnswerOf checks the same of an error after which the agent may be running,
// or not.
func (x *exchange) wantAnswerOf(status int, code string, running bool) {
	x.t.Helper()
	equal(x.t, x.rec.status, status, "status")
	checkAnswer(x.t, x.rec.sent, x.rec.body.Bytes(), code, running)
}

// happened is what an error says that stands in place of an answer, by its code.
var happened = map[string]string{
	"upstream_aborted": "the connection to the agent was lost before its answer", "upstream_timeout": "the agent was silent for too long",
	"upstream_incomplete": "the agent's answer ended before it had begun", "shutting_down": "the service is shutting down",
}

// checkAnswer checks the header and the body of an error as JSON.
func checkAnswer(t *testing.T, h http.Header, body []byte, code string, running bool) {
	t.Helper()
	equal(t, h.Get("Content-Type"), "application/json", "Content-Type")
	equal(t, h.Get("Content-Length"), fmt.Sprint(len(body)), "Content-Length")
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

// equal fails if got is not want.
func equal[T comparable](t testing.TB, got, want T, what any) {
	t.Helper()
	if got != want {
		t.Errorf("%v: got %v, want %v", what, got, want)
	}
}

// errTest is some error of a handler.
var errTest = errors.New("some error")

// observer is an Observer that records what it observes.
type observer struct {
	t     *testing.T
	r     *http.Request // the client's
	begun proxy.Begun
	lines []string
	raw   string
	ends  []proxy.Result
}

func (o *observer) check(r *http.Request) {
	if r != o.r {
		o.t.Error("the observer was not given the client's request")
	}
}

func (o *observer) Request(r *http.Request, _ rewrite.Healed) {
	o.check(r)
}

func (o *observer) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	o.check(r)
	o.begun = b
	o.add("begin " + r.URL.Path + " " + string(b.Kind))
	return o
}

func (o *observer) Raw(b []byte) { o.raw += string(b) }

func (o *observer) Read(now time.Time, chunks int, s proxy.Summarizer) {
	o.add(fmt.Sprintf("%d chunks of %q after %v", chunks, s.Summary().ID, now.Sub(o.begun.Since)))
}

func (o *observer) Tool(now time.Time, e rewrite.ToolEvent) {
	o.add(fmt.Sprintf("tool %s %t %s after %v", e.Name, e.Completed, e.Source, now.Sub(o.begun.Since)))
}

func (o *observer) End(r *http.Request, res proxy.Result) {
	o.check(r)
	if res.Whole != (o.begun.Kind == proxy.KindWhole) {
		o.t.Errorf("the end of a %s is %+v", o.begun.Kind, res)
	}
	o.add("end " + res.Outcome)
	o.ends = append(o.ends, res)
}

func (o *observer) add(line string) {
	if o.begun.Kind != proxy.KindWhole {
		o.lines = append(o.lines, line)
	}
}

// limits sets the options that look at a clock.
func limits(all string) setting {
	return option(func(o *options) {
		for one := range strings.FieldsSeq(all) {
			name, value, _ := strings.Cut(one, "=")
			d, err := time.ParseDuration(value)
			if err != nil {
				panic(err)
			}
			*map[string]*time.Duration{
				"first": &o.FirstByteTimeout, "idle": &o.IdleTimeout, "stall": &o.StallTimeout,
				"grace": &o.DoneGrace, "keepalive": &o.Keepalive, "drain": &o.DrainTimeout,
			}[name] = d
		}
	})
}

// answerWhole has the next handler answer with status 200, the fields and body.
func (x *exchange) answerWhole(body string, fields ...string) {
	x.do(func() {
		h := x.w.Header()
		h.Set("Content-Type", "application/json; charset=utf-8")
		h.Set("Content-Length", fmt.Sprint(len(body)))
		h.Set("X-Hermes-Session-Id", "b58e0870")
		for i := 0; i < len(fields); i += 2 {
			h.Set(fields[i], fields[i+1])
		}
		x.w.WriteHeader(http.StatusOK)
	})
}

// untilCancelled is a handler's step that gives upstream's request up when it
// is cancelled, with the cause.
func (x *exchange) untilCancelled() ending {
	x.t.Helper()
	return x.finish(func() error {
		<-x.up.Context().Done()
		return context.Cause(x.up.Context())
	})
}

// wantRunning checks that upstream's request goes on.
func (x *exchange) wantRunning() {
	x.t.Helper()
	equal(x.t, context.Cause(x.up.Context()), nil, "why upstream's request was ended")
}

// wantStopped checks that upstream's request was ended, with a cause, and that
// the handler, which does not look, can write no more.
func (x *exchange) wantStopped() {
	x.t.Helper()
	cause := context.Cause(x.up.Context())
	if cause == nil || cause == context.Canceled {
		x.t.Errorf("upstream's request ended with the cause %v, want one that says why", cause)
	}
	// What is no timeout is no fault of upstream's, and Caddy counts none whose
	// error is context.Canceled.
	var late interface{ Timeout() bool }
	if timeout := errors.As(cause, &late) && late.Timeout(); timeout == errors.Is(cause, context.Canceled) {
		x.t.Errorf("the cause %v is a timeout: %v, and a cancellation: %v", cause, timeout, !timeout)
	}
	if late != nil && late.Timeout() && !strings.Contains(cause.Error(), "silent") {
		x.t.Errorf("the cause is %v", cause)
	}
	calls := len(x.rec.log)
	if n, err := x.tryWrite(text("late")); n != 0 || err == nil {
		x.t.Errorf("a late Write = %d, %v; want an error", n, err)
	}
	x.flush()
	if later := x.rec.log[calls:]; len(later) > 0 {
		x.t.Errorf("after the end the inner writer was called %q", later)
	}
}

// statusOf says that errors stand for a status.
func statusOf(status int) setting {
	return option(func(o *options) { o.ErrorStatus = func(error) int { return status } })
}

func withStatuses() setting {
	return option(func(o *options) {
		o.ErrorStatus = func(err error) int {
			var s statusError
			errors.As(err, &s)
			return int(s)
		}
	})
}

// try has the handler send its request as a proxy does, to an agent that answers or cannot be reached.
func (x *exchange) try(answers bool) {
	x.t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer srv.Close()
	if !answers {
		srv.Close()
	}
	tr := new(http.Transport)
	defer tr.CloseIdleConnections()
	r, err := http.NewRequestWithContext(x.up.Context(), http.MethodPost, srv.URL, io.NopCloser(x.up.Body))
	if err != nil {
		x.t.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	equal(x.t, err == nil, answers, "it answers")
	if err == nil {
		res.Body.Close()
	}
}

// statusError is an error of a handler that stands for a status.
type statusError int

func (statusError) Error() string { return "status" }
