package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func TestStreamThatBreaksOffEndsInAnErrorFinish(t *testing.T) {
	hello, held := text("Hello"), text("`💻 ls")
	aborts := (*exchange).abort
	returns := func(err error) func(*exchange) ending {
		return func(x *exchange) ending { return x.ret(err) }
	}
	for name, c := range map[string]struct {
		frames, want string
		end          func(*exchange) ending
		code         string
		partial      bool
	}{
		"abort after the role":           {role, role, aborts, "upstream_aborted", false},
		"abort after text":               {role + hello, role + hello, aborts, "upstream_aborted", true},
		"abort after a space":            {role + text(" "), role + text(" "), aborts, "upstream_aborted", false},
		"abort in a frame":               {role + hello[:40], role, aborts, "upstream_aborted", false},
		"abort before a blank line":      {role + hello[:len(hello)-1], role + hello, aborts, "upstream_aborted", true},
		"abort before the end of a line": {role + hello[:len(hello)-2], role + hello, aborts, "upstream_aborted", true},
		"abort with text held":           {role + held, role + held, aborts, "upstream_aborted", true},
		"error":                          {role + hello, role + hello, returns(errTest), "upstream_aborted", true},
		"timeout":                        {role + hello, role + hello, returns(timedOut{}), "upstream_timeout", true},
		"wrapped timeout":                {role + hello, role + hello, returns(fmt.Errorf("reading: %w", timedOut{})), "upstream_timeout", true},
		"clean end without a finish":     {role + hello, role + hello, returns(nil), "upstream_incomplete", true},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, statusOf(http.StatusBadGateway))
			x.stream()
			x.write(c.frames)
			c.end(x).wantSwallowed(t)
			x.wantBody(c.want + errorFinish(c.code, c.partial))
			if !strings.HasSuffix(strings.Join(x.rec.log, "|"), done+"|flush") {
				t.Errorf("the finish was not flushed last: %q", x.rec.log)
			}
		})
	}
}

func TestFinishedStreamGetsOnlyWhatItLacks(t *testing.T) {
	for name, c := range map[string]struct{ in, added string }{
		"finish chunk":                       {stop, done},
		"finish chunk and torn [DONE]":       {stop + "data: [DO", done},
		"finish chunk and unfinished [DONE]": {stop + "data: [DONE]", ""},
		"finish chunk and [DONE]":            {stop + done, ""},
	} {
		for how, end := range map[string]func(*exchange) ending{
			"abort": (*exchange).abort,
			"error": func(x *exchange) ending { return x.ret(errTest) },
			"clean": func(x *exchange) ending { return x.ret(nil) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				x := begin(t)
				x.stream()
				x.write(role, text("Hello"), c.in)
				end(x).wantSwallowed(t)
				x.wantBody(role + text("Hello") + stop + done)
				if got := x.result(); got.Outcome != proxy.OutcomeOK || got.FinishReason != "stop" {
					t.Errorf("outcome %q, finish reason %q; want ok, stop", got.Outcome, got.FinishReason)
				}
			})
		}
	}
}

func TestOpenToolIsCompletedBeforeTheErrorFinish(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(role, text("\\n`💻 ls`\\n"))
	x.abort().wantSwallowed(t)
	got := x.rec.body.String()
	running, completed := strings.Index(got, `"status":"running"`), strings.Index(got, `"status":"completed"`)
	if running < 0 || completed < running || strings.Index(got, `"error":{`) < completed {
		t.Errorf("want running, completed, error in this order:\n%s", got)
	}
	if !strings.HasSuffix(got, errorFinish("upstream_aborted", false)) {
		t.Errorf("want an error finish at the end:\n%s", got)
	}
}

// explodingHandler is looked for in stacks.
func explodingHandler(v any) { panic(v) }

func TestForeignPanicGoesOnAfterTheFinish(t *testing.T) {
	for name, v := range map[string]any{
		"an error":        errTest,
		"a pointer":       &struct{ int }{1},
		"a string":        "boom",
		"a wrapped abort": fmt.Errorf("no sentinel: %w", http.ErrAbortHandler),
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t)
			x.stream()
			x.write(role, text("Hello"))
			e := x.finish(func() error { explodingHandler(v); return nil })
			e.wantPanic(t, v)
			if !strings.Contains(e.stack, "explodingHandler") {
				t.Errorf("the stack does not show who panicked:\n%s", e.stack)
			}
			x.wantBody(role + text("Hello") + errorFinish("upstream_aborted", true))
			if res := x.result(); res.Outcome != rewrite.CodeAborted || res.Err == nil {
				t.Errorf("outcome %q, error %v; want upstream_aborted and the panic", res.Outcome, res.Err)
			}
		})
	}
}

func TestForeignPanicBeforeTheHeaderGoesOn(t *testing.T) {
	x := begin(t)
	e := x.finish(func() error { explodingHandler("boom"); return nil })
	e.wantPanic(t, "boom")
	if !strings.Contains(e.stack, "explodingHandler") {
		t.Errorf("the stack does not show who panicked:\n%s", e.stack)
	}
	x.wantLog()
}

func TestAbortBeforeTheHeaderGoesOn(t *testing.T) {
	for _, p := range []string{chatPath, otherPath} {
		x := begin(t, path(p))
		x.abort().wantPanic(t, http.ErrAbortHandler)
		x.wantLog()
	}
}

func TestAbortOfWhatIsNoStreamGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		media  string
		coding string
		method string
	}{
		"JSON":           {status: 200, media: "application/json"},
		"an error":       {status: 500, media: "text/event-stream"},
		"a coded stream": {status: 200, media: "text/event-stream", coding: "gzip"},
		"HEAD":           {status: 200, media: "text/event-stream", method: http.MethodHead},
	} {
		for how, end := range map[string]func(*exchange) ending{
			"abort": (*exchange).abort,
			"panic": func(x *exchange) ending { return x.panics("boom") },
			"error": func(x *exchange) ending { return x.ret(errTest) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				x := begin(t)
				if c.method != "" {
					x = begin(t, method(c.method))
				}
				x.do(func() {
					x.w.Header().Set("Content-Type", c.media)
					if c.coding != "" {
						x.w.Header().Set("Content-Encoding", c.coding)
					}
					x.w.WriteHeader(c.status)
				})
				x.write("half of i")
				switch e := end(x); how {
				case "abort":
					e.wantPanic(t, http.ErrAbortHandler)
				case "panic":
					e.wantPanic(t, "boom")
				default:
					e.wantError(t, errTest)
				}
				x.wantLog(fmt.Sprintf("header %d", c.status), "write half of i")
			})
		}
	}
}

func TestInactiveStreamKeepsItsTail(t *testing.T) {
	for how, end := range map[string]func(*exchange) ending{
		"abort": (*exchange).abort,
		"panic": func(x *exchange) ending { return x.panics("boom") },
		"error": func(x *exchange) ending { return x.ret(errTest) },
		"clean": func(x *exchange) ending { return x.ret(nil) },
	} {
		t.Run(how, func(t *testing.T) {
			x := begin(t, path(otherPath))
			x.stream()
			x.write(foreign, "data: {\"torn\":")
			e := end(x)
			x.wantBody(foreign + "data: {\"torn\":")
			e.want(t, how)
			if len(x.ends) > 0 {
				t.Errorf("the observer observed a stream that is not ours: %+v", x.ends)
			}
		})
	}
}

func TestUpstreamsRequestEndsWithTheHandler(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(role, stop, done)
	x.ret(nil).wantSwallowed(t)
	if x.up.Context().Err() == nil {
		t.Error("the context of upstream's request was leaked")
	}
}

func TestNothingTouchesTheWriterAfterTheGuard(t *testing.T) {
	begins := map[string]func(*exchange){
		"a stream":           func(x *exchange) { x.stream(); x.write(role) },
		"a held header":      func(x *exchange) { x.stream() },
		"no header":          func(*exchange) {},
		"JSON":               func(x *exchange) { x.write("{}") },
		"an inactive stream": func(x *exchange) { x.stream(); x.write(foreign) },
	}
	ends := map[string]func(*exchange) ending{
		"clean": func(x *exchange) ending { return x.ret(nil) },
		"error": func(x *exchange) ending { return x.ret(errTest) },
		"abort": (*exchange).abort,
		"panic": func(x *exchange) ending { return x.panics("boom") },
		"gone":  func(x *exchange) ending { x.leave(); return x.abort() },
	}
	for from, start := range begins {
		for how, end := range ends {
			bubble(t, from+", "+how, func(t *testing.T) {
				streams := new(proxy.Streams)
				p := chatPath
				if from == "an inactive stream" {
					p = otherPath
				}
				x := begin(t, path(p), option(func(o *proxy.Options) {
					o.FirstByteTimeout, o.IdleTimeout, o.StallTimeout = time.Hour, time.Hour, time.Hour
					o.Keepalive, o.DoneGrace, o.DrainTimeout = time.Second, time.Second, time.Second
					o.Streams = streams
				}))
				start(x)
				streams.Shutdown(0)
				end(x) // seals the writer
				advance(24 * time.Hour)
				x.w.WriteHeader(http.StatusEarlyHints)
				x.w.WriteHeader(http.StatusOK)
				if n, err := x.w.Write([]byte(role)); n != 0 || err == nil {
					t.Errorf("a late Write = %d, %v; want an error", n, err)
				}
				_ = http.NewResponseController(x.w).Flush()
				if rf, ok := x.w.(io.ReaderFrom); ok {
					if n, err := rf.ReadFrom(strings.NewReader(role)); n != 0 || err == nil {
						t.Errorf("a late ReadFrom = %d, %v; want an error", n, err)
					}
				}
			})
		}
	}
}

func TestClientGoneNothingIsWritten(t *testing.T) {
	leaves := map[string]func(*exchange){
		"its context ends": func(x *exchange) { x.leave() },
		"a write fails": func(x *exchange) {
			x.rec.onWrite = func([]byte) (int, error) { return 0, errTest }
			if n, err := x.tryWrite(text("lost")); n != 0 || err != errTest { //nolint:errorlint // the very error
				x.t.Errorf("Write = %d, %v; want 0 and the inner writer's error", n, err)
			}
		},
		"a flush fails": func(x *exchange) {
			x.rec.onFlush = func() error { return errTest }
			if _, err := x.tryWrite(text("lost")); err != errTest { //nolint:errorlint // the very error
				x.t.Errorf("Write: %v; want the inner writer's error", err)
			}
		},
	}
	for name, leave := range leaves {
		for how, end := range map[string]func(*exchange) ending{
			"abort": (*exchange).abort,
			"panic": func(x *exchange) ending { return x.panics("boom") },
			"error": func(x *exchange) ending { return x.ret(errTest) },
			"clean": func(x *exchange) ending { return x.ret(nil) },
		} {
			bubble(t, name+", "+how, func(t *testing.T) {
				x := begin(t, option(func(o *proxy.Options) {
					o.IdleTimeout, o.StallTimeout, o.Keepalive = time.Minute, time.Minute, time.Second
				}))
				x.stream()
				x.write(role)
				leave(x)
				calls := len(x.rec.log)
				advance(time.Hour)
				e := end(x)
				e.want(t, how)
				if later := x.rec.log[calls:]; len(later) > 0 {
					t.Errorf("the client was gone, and was sent %q", later)
				}
				if res := x.result(); res.Outcome != proxy.OutcomeClientGone {
					t.Errorf("outcome %q, want %q", res.Outcome, proxy.OutcomeClientGone)
				}
			})
		}
	}
}

func TestClientGoneBeforeTheHeaderNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) {
			o.ErrorStatus = func(error) int { return http.StatusBadGateway }
			o.FirstByteTimeout = time.Second
		}))
		x.leave()
		advance(time.Hour)
		x.ret(errTest).wantError(t, errTest)
		x.wantLog()
	})
}

func TestClientGoneWithTheHeaderHeldNothingIsWritten(t *testing.T) {
	x := begin(t)
	x.stream()
	x.leave()
	x.abort().wantPanic(t, http.ErrAbortHandler)
	x.wantLog()
}

func TestClientGoneCancelsUpstream(t *testing.T) {
	for name, leave := range map[string]func(*exchange){
		"its context ends": func(x *exchange) { x.leave() },
		"a write fails": func(x *exchange) {
			x.rec.onWrite = func([]byte) (int, error) { return 0, errTest }
			_, _ = x.tryWrite(text("lost"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t)
			x.stream()
			x.write(role)
			if err := x.up.Context().Err(); err != nil {
				t.Fatalf("upstream's request was cancelled before: %v", err)
			}
			leave(x)
			<-x.up.Context().Done()
		})
	}
}

func TestEndIsToldOnceWithItsOutcome(t *testing.T) {
	abort := (*exchange).abort
	returns := func(err error) func(*exchange) ending {
		return func(x *exchange) ending { return x.ret(err) }
	}
	for name, c := range map[string]struct {
		frames  string
		end     func(*exchange) ending
		outcome string
		code    string
		reason  string
	}{
		"well":                    {role + text("a") + stop + done, returns(nil), "ok", "", "stop"},
		"length":                  {role + text("a") + strings.Replace(stop, `"stop"`, `"length"`, 1) + done, returns(nil), "ok", "", "length"},
		"well, but for [DONE]":    {role + text("a") + stop, abort, "ok", "", "stop"},
		"aborted":                 {role + text("a"), abort, "upstream_aborted", "upstream_aborted", "error"},
		"incomplete":              {role + text("a"), returns(nil), "upstream_incomplete", "upstream_incomplete", "error"},
		"[DONE] without a finish": {role + text("a") + done, returns(nil), "upstream_incomplete", "upstream_incomplete", "error"},
		"timeout":                 {role + text("a"), returns(timedOut{}), "upstream_timeout", "upstream_timeout", "error"},
		"false stop":              {role + zeroStop + done, returns(nil), "agent_crashed", "agent_crashed", "error"},
		"no answer":               {role + fullStop + done, returns(nil), "empty_answer", "empty_answer", "error"},
		"the agent says so":       {role + strings.Replace(stop, `"stop"`, `"error"`, 1) + done, abort, "agent_error", "agent_error", "error"},
		"no frame":                {"", abort, "upstream_aborted", "upstream_aborted", ""},
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) {
				o.Upstream = func(*http.Request) string { return "10.0.0.1:8642" }
			}))
			advance(2 * time.Second)
			x.stream()
			x.write(c.frames)
			advance(3 * time.Second)
			if len(x.ends) > 0 {
				t.Fatal("the observer saw the end before the end")
			}
			c.end(x).wantSwallowed(t)
			res := x.result()
			if res.Outcome != c.outcome || res.Code != c.code {
				t.Errorf("outcome %q, code %q; want %q, %q", res.Outcome, res.Code, c.outcome, c.code)
			}
			if c.frames != "" {
				if res.FinishReason != c.reason || res.ID != "chatcmpl-1" || res.Model != "hermes-agent" || res.Status != 200 {
					t.Errorf("finish reason %q, id %q, model %q, status %d; want %s, chatcmpl-1, hermes-agent, 200",
						res.FinishReason, res.ID, res.Model, res.Status, c.reason)
				}
			}
			if res.Upstream != "10.0.0.1:8642" || res.Duration != 5*time.Second {
				t.Errorf("upstream %q, duration %v; want 10.0.0.1:8642, 5s", res.Upstream, res.Duration)
			}
		})
	}
}

func TestResultHasWhatTheHandlerEndedWith(t *testing.T) {
	end := func(f func(*exchange) ending) error {
		x := begin(t)
		x.stream()
		x.write(role)
		f(x)
		return x.result().Err
	}
	if err := end(func(x *exchange) ending { return x.ret(errTest) }); !errors.Is(err, errTest) {
		t.Errorf("error %v, want the handler's", err)
	}
	if err := end((*exchange).abort); !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("error %v, want http.ErrAbortHandler", err)
	}
	if err := end(func(x *exchange) ending { return x.panics("boom") }); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("error %v, want the panic's value in it", err)
	}
	if err := end(func(x *exchange) ending { return x.ret(nil) }); err != nil {
		t.Errorf("error %v, want none", err)
	}
}

func TestResultCountsWhatTheStreamHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive = time.Second }))
		x.stream()
		x.write(role, text("\\n`💻 ls`\\n"))
		advance(time.Second)
		x.write(text("Hello"), stop, done)
		x.ret(nil)
		res := x.result()
		got := fmt.Sprint(res.Frames, res.Chunks, res.Tools, res.Markers, res.Keepalives)
		if want := "5 4 1 1 1"; got != want {
			t.Errorf("frames, chunks, tools, markers, keepalives are %s, want %s", got, want)
		}
	})
}

func TestClientThatLeavesAfterDoneWasServed(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(role, text("a"), stop, done)
	x.leave()
	x.ret(nil)
	if res := x.result(); res.Outcome != proxy.OutcomeOK {
		t.Errorf("outcome %q, want ok", res.Outcome)
	}
}

func TestClientThatLeavesBeforeTheEndIsGone(t *testing.T) {
	for name, frames := range map[string]string{"before the header": "-", "before a frame": "", "mid-stream": role, "before [DONE]": role + stop} {
		t.Run(name, func(t *testing.T) {
			x := begin(t)
			if frames != "-" {
				x.stream()
				x.write(frames)
			}
			x.leave()
			x.abort()
			if res := x.result(); res.Outcome != proxy.OutcomeClientGone {
				t.Errorf("outcome %q, want client_gone", res.Outcome)
			}
		})
	}
}

// memory remembers who has reported usage.
type memory struct {
	mu       sync.Mutex
	reported map[string]bool
}

func (m *memory) of(upstream string) rewrite.UsageMemory { return memoryOf{m, upstream} }

// memoryOf is the part of a memory that belongs to an upstream.
type memoryOf struct {
	*memory
	upstream string
}

func (m memoryOf) Reported(model string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reported[m.upstream+" "+model]
}

func (m memoryOf) Report(model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reported[m.upstream+" "+model] = true
}

func (memoryOf) Missed(string)        {}
func (memoryOf) ReportsFailures(bool) {}

func TestUsageIsRememberedByUpstreamAndModel(t *testing.T) {
	m := &memory{reported: make(map[string]bool)}
	answer := func(upstream, model, finish string) string {
		x := begin(t, option(func(o *proxy.Options) {
			o.Usage = m.of
			o.Upstream = func(*http.Request) string { return upstream }
		}))
		x.stream()
		for _, s := range []string{role, text("Hello"), finish, done} {
			x.write(strings.Replace(s, "hermes-agent", model, 1))
		}
		x.ret(nil)
		return x.result().Outcome
	}
	for i, c := range []struct{ upstream, model, finish, want string }{
		{"a", "m", zeroStop, "ok"},
		{"a", "m", fullStop, "ok"},
		{"a", "m", zeroStop, "agent_crashed"},
		{"b", "m", zeroStop, "ok"},
		{"a", "n", zeroStop, "ok"},
	} {
		if got := answer(c.upstream, c.model, c.finish); got != c.want {
			t.Errorf("%d: upstream %s, model %s: outcome %q, want %q", i, c.upstream, c.model, got, c.want)
		}
	}
	if len(m.reported) != 1 || !m.reported["a m"] {
		t.Errorf("remembered %v, want a m", m.reported)
	}
}

func TestUpstreamIsAskedForAfterTheHeader(t *testing.T) {
	var asked int
	x := begin(t, option(func(o *proxy.Options) {
		o.Usage = (&memory{reported: make(map[string]bool)}).of
		o.Upstream = func(*http.Request) string { asked++; return "a" }
	}))
	if asked != 0 {
		t.Error("upstream was asked for before the header had come")
	}
	x.stream()
	x.write(role, text("a"), stop, done)
	x.ret(nil)
	if asked == 0 {
		t.Error("upstream was never asked for")
	}
}

// breaking is an inner writer that panics with what it is given where at says, and must not be used again then.
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

// exiting is an inner writer that ends the goroutine of the first write.
type exiting struct {
	*recorder
	exited bool
}

func (w *exiting) Write(b []byte) (int, error) {
	if !w.exited {
		w.exited = true
		runtime.Goexit()
	}
	return w.recorder.Write(b)
}

// TestWriterThatEndsItsGoroutineHoldsNothingUp: the first bytes of a stream have a goroutine
// of their own.
func TestWriterThatEndsItsGoroutineHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &exiting{recorder: &recorder{t: t, header: make(http.Header)}}
		err := proxy.New(proxy.Options{}).Serve(w, chatRequest(`{"stream":true}`), func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(role + text("hi")))
			return nil
		})
		if err != nil || !w.exited {
			t.Errorf("exited %v, %v", w.exited, err)
		}
	})
}

// TestPanicUnderATimerGoesOnInTheHandler: it ends upstream's request, and not the
// process. The handler gets an error, and the server gets the panic with its stack.
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

// TestNothingIsTorn has the three that write, the handler, the goroutine in
// which a proxy flushes and the timer, do so at once. The recorder has no lock:
// the race detector sees when two of them use it.
func TestNothingIsTorn(t *testing.T) {
	var frames strings.Builder
	frames.WriteString(role)
	for range 200 {
		frames.WriteString(text("Hello, ") + comment + text("world"))
	}
	frames.WriteString(text("end"))
	want := frames.String()

	for name, size := range map[string]int{"small pieces": 37, "whole": len(want)} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) {
				o.Keepalive, o.IdleTimeout, o.StallTimeout = time.Millisecond, 10000*time.Hour, 10000*time.Hour
			}))
			x.stream()
			x.write(role) // so that keepalives are chunks

			over := make(chan struct{})
			var others sync.WaitGroup
			repeat := func(f func()) {
				others.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
							time.Sleep(time.Millisecond)
							f()
						}
					}
				})
			}
			repeat(func() { _ = http.NewResponseController(x.w).Flush() })
			repeat(func() { x.w.WriteHeader(http.StatusEarlyHints) })

			for rest := want[len(role):]; len(rest) > 0; {
				n := min(size, len(rest))
				time.Sleep(time.Millisecond)
				x.write(rest[:n])
				rest = rest[n:]
			}
			close(over)
			others.Wait()
			advance(time.Millisecond)

			x.ret(nil).wantSwallowed(t)
			got := x.rec.body.String()
			beats := strings.Count(got, beatForm)
			if beats == 0 {
				t.Error("no keepalive was sent")
			}
			if got, want := strings.ReplaceAll(got, beatForm, ""), want+errorFinish("upstream_incomplete", true); got != want {
				t.Errorf("without its keepalives the stream is\n%.2000s\nwant\n%.2000s", got, want)
			}
			if res := x.result(); res.Keepalives != beats {
				t.Errorf("%d keepalives were counted, %d sent", res.Keepalives, beats)
			}
		})
	}
}

// TestEndsAtOnce has a stream end for several reasons at the same time.
func TestEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 100 {
			streams := new(proxy.Streams)
			x := begin(t, option(func(o *proxy.Options) {
				o.Streams = streams
				o.IdleTimeout, o.Keepalive, o.DrainTimeout = time.Second, time.Second/2, time.Second
			}))
			x.stream()
			x.write(role)
			streams.Shutdown(time.Second)
			time.Sleep(time.Second)
			if i%4 == 0 {
				go x.leave()
			}
			e := x.abort()
			synctest.Wait()
			if i%4 == 0 {
				continue // the panic goes on when the client left first
			}
			e.wantSwallowed(t)
			got := strings.ReplaceAll(x.rec.body.String(), beatForm, "")
			if strings.Count(got, `"error":{`) != 1 || strings.Count(got, done) != 1 || !strings.HasSuffix(got, done) {
				t.Fatalf("want one end:\n%s", got)
			}
			x.result()
		}
	})
}

// TestHeaderIsTheHandlersAlone has the timer send the header while the handler
// sets a trailer, which net/http lets it do at any time.
func TestHeaderIsTheHandlersAlone(t *testing.T) {
	for name, set := range map[string]func(*proxy.Options){
		"keepalive":               func(o *proxy.Options) { o.Keepalive = time.Second },
		"an answer at a deadline": func(o *proxy.Options) { o.IdleTimeout = time.Second },
	} {
		for _, headerCame := range []bool{true, false} {
			bubble(t, name, func(t *testing.T) {
				x := begin(t, option(set))
				if headerCame {
					x.stream("Trailer", "X-Sum")
				}
				x.do(func() {
					time.Sleep(time.Second)
					for range 100 {
						x.w.Header().Set("X-Sum", "1")
					}
				})
				x.ret(nil)
			})
		}
	}
}

// A stream is recorded from its first byte on if up to 64 KiB of it have come before it
// is known, to the byte.
func TestWhatIsRecordedOfAnUnknownStream(t *testing.T) {
	for more, kept := range map[int]bool{0: true, 1: false} {
		x := begin(t, recorded(), path("/elsewhere"))
		x.stream()
		early := ": " + strings.Repeat("c", 64<<10-4+more) + "\n\n"
		x.write(early)
		x.write(role, stop, done)
		x.ret(nil)
		if kept {
			x.wantRecorded(early + role + stop + done)
		} else {
			x.wantRecorded("")
		}
	}
}

// 101 is the answer, not a word before it: what comes after it is no stream, and no
// timeout ends it.
func TestSwitchingProtocolsIsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, p := range []string{chatPath, otherPath} {
			x := begin(t, path(p), option(func(o *proxy.Options) { o.IdleTimeout, o.Keepalive = time.Second, time.Second }))
			x.do(func() {
				x.w.Header().Set("Content-Type", "text/event-stream")
				x.w.WriteHeader(http.StatusSwitchingProtocols)
				x.w.WriteHeader(http.StatusOK)
			})
			x.wantLog("header 101")
			advance(time.Minute)
			x.write("raw")
			x.ret(nil).wantSwallowed(t)
			x.wantLog("header 101", "write raw")
		}
	})
}

// To read nothing of a request's body is no end of it.
func TestReadingNothingOfARequest(t *testing.T) {
	for _, body := range []string{clean, polluted, "[" + clean, ""} {
		x := begin(t, func(_ *proxy.Options, r *http.Request, _ *recorder) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		})
		x.do(func() {
			var all []byte
			for {
				if n, err := x.up.Body.Read(nil); len(all) < int(x.up.ContentLength) && (n != 0 || err != nil) {
					t.Errorf("after %d bytes Read(nil) = %d, %v", len(all), n, err)
					return
				}
				b := make([]byte, 7)
				n, err := x.up.Body.Read(b)
				if all = append(all, b[:n]...); err != nil {
					break
				}
			}
			if len(all) != int(x.up.ContentLength) {
				t.Errorf("%d bytes of %d", len(all), x.up.ContentLength)
			}
		})
		x.ret(nil)
	}
}

// Without ErrorStatus, it stands for none.
func TestErrorsStandForNoStatusByDefault(t *testing.T) {
	x := begin(t, asking(clean))
	x.do(func() { x.try("lost") })
	x.ret(errTest).wantError(t, errTest)
	if got := x.rec.header.Get("X-Should-Retry"); got != "false" || x.rec.status != 0 {
		t.Errorf("X-Should-Retry %q, status %d", got, x.rec.status)
	}
}

// What ends upstream's request says why, for logs.
func TestCauseOfTheEndOfUpstreamsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.IdleTimeout = time.Second }))
		x.stream()
		x.write(role)
		advance(time.Second)
		x.do(func() {
			err := context.Cause(x.up.Context())
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || !strings.Contains(err.Error(), "silent") {
				t.Errorf("upstream's request ends for %v", err)
			}
		})
		x.abort()
	})
}

// A field that is nil keeps net/http from setting it, and has to arrive so.
func TestFieldsThatAreNil(t *testing.T) {
	for _, p := range []string{chatPath, otherPath} {
		x := begin(t, path(p))
		x.do(func() { x.w.Header()["Date"] = nil })
		x.stream("X-One", "1")
		x.write(role)
		if date, ok := x.rec.sent["Date"]; !ok || date != nil || x.rec.sent.Get("X-One") != "1" {
			t.Errorf("%s: the header is %v", p, x.rec.sent)
		}
		x.abort()
	}
}

// honest remembers who reports failures.
type honest struct{ names []string }

func (h *honest) of(upstream string) rewrite.UsageMemory {
	return honestOf{memoryOf{new(memory), upstream}, h}
}

type honestOf struct {
	memoryOf
	*honest
}

func (h honestOf) ReportsFailures(does bool) {
	if does {
		h.upstream += " does"
	}
	h.names = append(h.names, h.upstream)
}

// An upstream that says in its header whether its agent has ended well reports its
// failures, whatever its answer is. What the sidecar says of one does not count.
func TestUpstreamsThatSayWhetherTheyHaveCompleted(t *testing.T) {
	events, whole := "text/event-stream", "application/json"
	for name, c := range map[string]struct {
		path, media string
		status      int
		completed   []string // nil for no header
		want        []string
	}{
		"a stream":         {chatPath, events, 200, []string{"true"}, []string{"a does"}},
		"a failed one":     {chatPath, events, 200, []string{"false"}, []string{"a does"}},
		"an empty one":     {chatPath, events, 200, []string{""}, []string{"a does"}},
		"an answer":        {chatPath, whole, 200, []string{"true"}, []string{"a does"}},
		"an error":         {chatPath, whole, 502, []string{"false"}, []string{"a does"}},
		"an old stream":    {chatPath, events, 200, nil, nil},
		"an old answer":    {chatPath, whole, 200, nil, nil},
		"another path":     {otherPath, whole, 200, []string{"true"}, nil},
		"another's stream": {otherPath, events, 200, []string{"true"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, store := range []*honest{{}, nil} {
				x := begin(t, path(c.path), option(func(o *proxy.Options) {
					o.Upstream = func(*http.Request) string { return "a" }
					if store != nil {
						o.Usage = store.of
					}
				}))
				x.do(func() {
					x.w.Header().Set("Content-Type", c.media)
					if c.completed != nil {
						x.w.Header()["X-Hermes-Completed"] = c.completed
					}
					x.w.WriteHeader(http.StatusContinue)
					x.w.WriteHeader(c.status)
				})
				x.abort()
				if store != nil && !slices.Equal(store.names, c.want) {
					t.Errorf("the store got %q, want %q", store.names, c.want)
				}
			}
		})
	}

	// A legacy agent's failure, to which the sidecar gives the header.
	store := new(honest)
	x := begin(t, option(func(o *proxy.Options) { o.Usage = store.of }))
	body := completion("", zeroTokens)
	x.answerWhole(body)
	x.write(body)
	x.ret(nil).wantSwallowed(t)
	if x.rec.sent.Get("X-Hermes-Completed") != "false" || store.names != nil {
		t.Errorf("the answer is %v, the store got %q", x.rec.sent, store.names)
	}
}

// The defaults are those of the contract, written out here.
func TestDefaults(t *testing.T) {
	o := proxy.DefaultOptions()
	if o.MaxRequest != 10_000_000 || o.FirstByteTimeout != 0 || o.IdleTimeout != 15*time.Minute || o.StallTimeout != 0 ||
		o.Keepalive != 10*time.Second || o.DoneGrace != 5*time.Second || o.DrainTimeout != 10*time.Second {
		t.Errorf("defaults %+v", o)
	}
	if v := proxy.HistoryValues(); !slices.Equal(v, []proxy.History{"heal", "keep"}) {
		t.Errorf("values of History %q", v)
	}
}
