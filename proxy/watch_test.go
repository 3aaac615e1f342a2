package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

const comment = ": comment\n\n"

// untilCancelled is a handler's step that gives upstream's request up when it
// is told to, with the cause.
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
	if err := context.Cause(x.up.Context()); err != nil {
		x.t.Errorf("upstream's request was ended: %v", err)
	}
}

// wantStopped checks that upstream's request was ended, with a cause, and that
// the handler, which does not look, can write no more.
func (x *exchange) wantStopped() {
	x.t.Helper()
	cause := context.Cause(x.up.Context())
	if cause == nil || cause == context.Canceled { //nolint:errorlint // it may wrap it
		x.t.Errorf("upstream's request ended with the cause %v, want one that says why", cause)
	}
	// What is no timeout is no fault of upstream's, and Caddy counts none whose
	// error is context.Canceled.
	var late interface{ Timeout() bool }
	if timeout := errors.As(cause, &late) && late.Timeout(); timeout == errors.Is(cause, context.Canceled) {
		x.t.Errorf("the cause %v is a timeout: %v, and a cancellation: %v", cause, timeout, !timeout)
	}
	calls := len(x.rec.log)
	if n, err := x.tryWrite(text("late")); n != 0 || err == nil {
		x.t.Errorf("a late Write = %d, %v; want an error", n, err)
	}
	x.flush()
	if later := x.rec.log[calls:]; len(later) > 0 {
		x.t.Errorf("behind the end the inner writer was called %q", later)
	}
}

func TestFirstByteTimeoutBeforeTheHeader(t *testing.T) {
	for how, end := range map[string]func(*exchange) ending{
		"gives up":                (*exchange).untilCancelled,
		"gives up silently":       func(x *exchange) ending { return x.ret(nil) },
		"aborts":                  (*exchange).abort,
		"answers, too late":       func(x *exchange) ending { x.do(func() { x.w.WriteHeader(http.StatusBadGateway) }); return x.ret(nil) },
		"has an answer after all": func(x *exchange) ending { x.stream(); return x.abort() },
	} {
		bubble(t, how, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) { o.FirstByteTimeout = 30 * time.Second }))
			advance(30*time.Second - 1)
			x.wantRunning()
			x.wantLog()
			advance(1)
			x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout") // although the handler goes on
			x.wantStopped()
			var timeout interface{ Timeout() bool }
			if cause := context.Cause(x.up.Context()); !errors.As(cause, &timeout) || !timeout.Timeout() {
				t.Errorf("upstream's request ended with the cause %v, want a timeout", cause)
			}
			end(x).wantSwallowed(t)
			x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			if res := x.result(); res.Outcome != "upstream_timeout" || res.Duration != 30*time.Second {
				t.Errorf("outcome %q after %v, want upstream_timeout after 30s", res.Outcome, res.Duration)
			}
		})
	}
}

func TestFirstByteTimeoutBehindTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.FirstByteTimeout = 30 * time.Second }))
		advance(20 * time.Second)
		x.stream()
		advance(10*time.Second - 1) // of the request, not of the header
		x.wantRunning()
		x.wantLog()
		advance(1)
		x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout") // although the handler goes on
		x.wantStopped()
		x.abort().wantSwallowed(t)
		x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
	})
}

func TestAnyByteIsTheFirst(t *testing.T) {
	for name, first := range map[string]string{"a frame": role, "part of one": "d", "a comment": comment} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) { o.FirstByteTimeout = 30 * time.Second }))
			x.stream()
			x.write(first)
			advance(time.Hour)
			x.wantRunning()
			x.ret(nil)
		})
	}
}

func TestKeepaliveIsNoFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.FirstByteTimeout, o.Keepalive = 25*time.Second, 10*time.Second }))
		x.stream()
		advance(25 * time.Second)
		if got := x.rec.body.String(); !strings.HasPrefix(got, beat+beat+`data: {"error":`) || !strings.Contains(got, `"code":"upstream_timeout"`) {
			t.Errorf("want two keepalives and a timeout:\n%s", got)
		}
		x.wantStopped()
	})
}

func TestIdleTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		keep string // what upstream goes on to send
		want bool   // it is bytes
	}{
		"frames":      {text("a"), true},
		"comments":    {comment, true},
		"part of one": {"d", true},
		"nothing":     {"", false},
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) { o.IdleTimeout = time.Minute }))
			x.stream()
			x.write(role)
			for range 3 {
				advance(40 * time.Second)
				if c.keep != "" {
					x.write(c.keep)
				}
			}
			if !c.want {
				x.wantBody(role + errorFinish("upstream_timeout", false))
				x.wantStopped()
				return
			}
			x.wantRunning()
			advance(time.Minute - 1)
			x.wantRunning()
			advance(1)
			if got := x.rec.body.String(); !strings.Contains(got, `"code":"upstream_timeout"`) || !strings.HasSuffix(got, done) {
				t.Errorf("want a timeout at the end:\n%s", got)
			}
			x.wantStopped()
		})
	}
}

func TestIdleTimeoutBeforeTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.IdleTimeout = time.Minute }))
		advance(time.Minute)
		x.untilCancelled().wantSwallowed(t)
		x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
	})
}

func TestHeaderResetsTheIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.IdleTimeout = time.Minute }))
		advance(50 * time.Second)
		x.stream()
		advance(50 * time.Second)
		x.wantRunning()
		advance(10 * time.Second)
		x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
		x.wantStopped()
	})
}

func TestStallTimeoutIsNotResetByComments(t *testing.T) {
	for name, c := range map[string]struct{ keep string }{
		"comments":    {comment},
		"blank lines": {"\n"},
		"a part":      {"d"},
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) { o.IdleTimeout, o.StallTimeout = 30*time.Second, time.Minute }))
			x.stream()
			x.write(role)
			for range 5 {
				advance(10 * time.Second)
				x.write(c.keep)
			}
			advance(10*time.Second - 1)
			x.wantRunning()
			advance(1)
			if got := x.rec.body.String(); !strings.HasSuffix(got, errorFinish("upstream_timeout", false)) {
				t.Errorf("want a timeout at the end:\n%s", got)
			}
			x.wantStopped()
		})
	}
}

func TestStallTimeoutIsResetByFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.StallTimeout = time.Minute }))
		x.stream()
		for range 3 {
			advance(time.Minute - 1)
			x.write(text("a"))
		}
		advance(time.Minute - 1)
		x.wantRunning()
		advance(1)
		x.wantStopped()
	})
}

// The timeout covers an agent that freezes before its header, or behind it: the
// header is no frame, and no comment is.
func TestStallTimeoutCountsFromTheRequest(t *testing.T) {
	for name, meanwhile := range map[string]func(*exchange){
		"no header": func(*exchange) {},
		"a header":  func(x *exchange) { x.stream() },
		"a comment": func(x *exchange) { x.stream(); x.write(": hello") },
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) { o.StallTimeout = time.Minute }))
			advance(time.Minute / 2)
			meanwhile(x)
			advance(time.Minute/2 - 1)
			x.wantRunning()
			x.wantLog()
			advance(1)
			x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			x.wantStopped()
		})
	}
}

func TestEarliestDeadlineCounts(t *testing.T) {
	for name, set := range map[string]func(*proxy.Options){
		"first byte": func(o *proxy.Options) { o.FirstByteTimeout = time.Minute },
		"idle":       func(o *proxy.Options) { o.IdleTimeout = time.Minute },
		"stall":      func(o *proxy.Options) { o.StallTimeout = time.Minute },
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) {
				o.FirstByteTimeout, o.IdleTimeout, o.StallTimeout = time.Hour, time.Hour, time.Hour
				o.DoneGrace, o.Keepalive = time.Hour, time.Hour
				set(o)
			}))
			x.stream()
			advance(time.Minute - 1)
			x.wantRunning()
			advance(1)
			x.wantStopped()
		})
	}
}

func TestZeroMeansNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t)
		advance(1000 * time.Hour)
		x.stream()
		advance(1000 * time.Hour)
		x.write(role)
		advance(1000 * time.Hour)
		x.write(stop)
		advance(1000 * time.Hour)
		x.wantRunning()
		x.ret(nil).wantSwallowed(t)
		x.wantBody(role + stop + done)
	})
}

func TestDoneGraceEndsAFinishedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) {
			o.DoneGrace, o.IdleTimeout, o.StallTimeout, o.Keepalive = 5*time.Second, 2*time.Second, 2*time.Second, time.Second
		}))
		x.stream()
		x.write(role, text("Hello"))
		advance(time.Second)
		x.write(stop)
		sent := role + text("Hello") + beatForm + stop
		for range 3 { // bytes begin the grace anew
			advance(5*time.Second - 1)
			x.wantRunning()
			x.write(comment)
			sent += comment
		}
		advance(5*time.Second - 1)
		x.wantRunning()
		x.wantBody(sent)
		advance(1)
		x.wantBody(sent + done)
		x.wantStopped()
		x.abort().wantSwallowed(t)
		x.wantBody(sent + done)
		if res := x.result(); res.Outcome != proxy.OutcomeOK || res.Code != "" {
			t.Errorf("outcome %q, code %q; want ok", res.Outcome, res.Code)
		}
	})
}

func TestDoneGraceEndsUpstreamsRequestBehindDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.DoneGrace = 5 * time.Second }))
		x.stream()
		x.write(role, stop, done)
		advance(5*time.Second - 1)
		x.wantRunning()
		advance(1)
		x.wantStopped()
		x.abort().wantSwallowed(t)
		x.wantBody(role + stop + done)
	})
}

func TestDeadlineAppliesToAHandlerThatIgnoresIt(t *testing.T) {
	for how, end := range map[string]func(*exchange) ending{
		"abort": (*exchange).abort,
		"error": func(x *exchange) ending { return x.ret(errTest) },
		"clean": func(x *exchange) ending { return x.ret(nil) },
	} {
		bubble(t, how, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) { o.IdleTimeout = time.Minute }))
			x.stream()
			x.write(role)
			advance(time.Minute)
			x.wantBody(role + errorFinish("upstream_timeout", false))
			x.wantStopped()
			end(x).wantSwallowed(t)
			x.wantBody(role + errorFinish("upstream_timeout", false))
			if res := x.result(); res.Outcome != "upstream_timeout" {
				t.Errorf("outcome %q, want upstream_timeout", res.Outcome)
			}
		})
	}
}

func TestForeignPanicBehindADeadlineGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.IdleTimeout = time.Minute }))
		x.stream()
		x.write(role)
		advance(time.Minute)
		x.panics("boom").wantPanic(t, "boom")
		x.wantBody(role + errorFinish("upstream_timeout", false))
	})
}
