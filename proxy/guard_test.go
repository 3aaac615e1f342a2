package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func TestAbortBehindFramesEndsInAnErrorFinish(t *testing.T) {
	for name, c := range map[string]struct {
		frames  string
		partial bool
	}{
		"behind the role": {role, false},
		"behind text":     {role + text("Hello"), true},
		"behind a space":  {role + text(" "), false},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t)
			x.stream()
			x.write(c.frames)
			x.abort().wantSwallowed(t)
			x.wantBody(c.frames + errorFinish("upstream_aborted", c.partial))
			if !strings.HasSuffix(strings.Join(x.rec.log, "|"), done+"|flush") {
				t.Errorf("the finish was not flushed last: %q", x.rec.log)
			}
		})
	}
}

func TestErrorBehindFramesEndsInAnErrorFinish(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code string
	}{
		"some error":        {errTest, "upstream_aborted"},
		"a timeout":         {timedOut{}, "upstream_timeout"},
		"a wrapped timeout": {fmt.Errorf("reading: %w", timedOut{}), "upstream_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) {
				o.ErrorStatus = func(error) int { return http.StatusBadGateway }
			}))
			x.stream()
			x.write(role, text("Hello"))
			x.ret(c.err).wantSwallowed(t)
			x.wantBody(role + text("Hello") + errorFinish(c.code, true))
		})
	}
}

func TestCleanEndWithoutFinishIsIncomplete(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(role, text("Hello"))
	x.ret(nil).wantSwallowed(t)
	x.wantBody(role + text("Hello") + errorFinish("upstream_incomplete", true))
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

func TestTornLastFrameIsDropped(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(role, text("Hello")[:40])
	x.abort().wantSwallowed(t)
	x.wantBody(role + errorFinish("upstream_aborted", false))
}

func TestLastFrameThatLacksOnlyItsBlankLineCounts(t *testing.T) {
	for _, cut := range []int{1, 2} {
		x := begin(t)
		x.stream()
		whole := text("Hello")
		x.write(role, whole[:len(whole)-cut])
		x.abort().wantSwallowed(t)
		x.wantBody(role + whole + errorFinish("upstream_aborted", true))
	}
}

func TestHeldTextLeavesBeforeTheErrorFinish(t *testing.T) {
	x := begin(t)
	x.stream()
	held := text("`💻 ls")
	x.write(role, held)
	x.wantBody(role)
	x.abort().wantSwallowed(t)
	x.wantBody(role + held + errorFinish("upstream_aborted", true))
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

func TestForeignPanicGoesOnBehindTheFinish(t *testing.T) {
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
				t.Errorf("the observer was told of a stream that is not ours: %+v", x.ends)
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

func TestNothingTouchesTheWriterBehindTheGuard(t *testing.T) {
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
