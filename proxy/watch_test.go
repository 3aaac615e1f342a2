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

// written are the words of a timeline that upstream writes, and those for the answer.
var written = map[string]string{
	"role": role, "text": text("a"), "half": text("a")[:30], "rest": text("a")[30:], "stop": stop, "done": done,
	"comment": comment, "hello": ": hello", "part": "d", "line": "\n",
	"keepalive": beat, "beat": beatForm, "timeout": errorFinish("upstream_timeout", false), "partial-timeout": errorFinish("upstream_timeout", true),
}

// A timeline has upstream write words or its header. With +10s nothing happens for 10 s,
// with +10s! something does at their end, and nothing before. It ends with the answer: in
// words, or a status.
func TestTimelines(t *testing.T) {
	const s, m = time.Second, time.Minute
	all := proxy.Options{FirstByteTimeout: time.Hour, IdleTimeout: time.Hour, StallTimeout: time.Hour, DoneGrace: time.Hour, Keepalive: time.Hour}
	firstOfAll, idleOfAll, stallOfAll := all, all, all
	firstOfAll.FirstByteTimeout, idleOfAll.IdleTimeout, stallOfAll.StallTimeout = m, m, m
	for _, c := range []struct {
		name              string
		o                 proxy.Options
		timeline, answers string
	}{
		{"no deadline", proxy.Options{}, "+1000h header +1000h role +1000h stop +1000h", "role stop"},
		{"the earliest: first byte", firstOfAll, "header +1m!", "504"},
		{"the earliest: idle", idleOfAll, "header +1m!", "504"},
		{"the earliest: stall", stallOfAll, "header +1m!", "504"},
		{"first byte", proxy.Options{FirstByteTimeout: 30 * s}, "+30s!", "504"},
		{"first byte: of the request, not of the header", proxy.Options{FirstByteTimeout: 30 * s}, "+20s header +10s!", "504"},
		{"first byte: a frame is one", proxy.Options{FirstByteTimeout: 30 * s}, "header role +1h", "role"},
		{"first byte: part of one is", proxy.Options{FirstByteTimeout: 30 * s}, "header part +1h", ""},
		{"first byte: a comment is", proxy.Options{FirstByteTimeout: 30 * s}, "header comment +1h", "comment"},
		{"first byte: a keepalive is not", proxy.Options{FirstByteTimeout: 25 * s, Keepalive: 10 * s}, "header +10s! +10s! +5s!", "keepalive keepalive ..."},
		{"idle: no header", proxy.Options{IdleTimeout: m}, "+1m!", "504"},
		{"idle: the header is a byte", proxy.Options{IdleTimeout: m}, "+50s header +1m!", "504"},
		{"idle: nothing", proxy.Options{IdleTimeout: m}, "header role +1m!", "role timeout"},
		{"idle: frames", proxy.Options{IdleTimeout: m}, "header role +40s text +40s text +1m!", "role text text partial-timeout"},
		{"idle: comments", proxy.Options{IdleTimeout: m}, "header role +40s comment +40s comment +1m!", "role comment comment timeout"},
		{"idle: part of a frame", proxy.Options{IdleTimeout: m}, "header role +40s part +40s part +1m!", "role timeout"},
		{"stall: frames", proxy.Options{StallTimeout: m}, "header +59s text +59s text +59s text +1m!", "text text text partial-timeout"},
		{"stall: comments", proxy.Options{IdleTimeout: 30 * s, StallTimeout: m}, "header role +20s comment +20s comment +20s!", "role comment comment timeout"},
		{"stall: blank lines", proxy.Options{IdleTimeout: 30 * s, StallTimeout: m}, "header role +20s line +20s line +20s!", "role line line timeout"},
		{"stall: part of a frame", proxy.Options{IdleTimeout: 30 * s, StallTimeout: m}, "header role +20s part +20s part +20s!", "role timeout"},
		{"stall: no header", proxy.Options{StallTimeout: m}, "+1m!", "504"},
		{"stall: the header is no frame", proxy.Options{StallTimeout: m}, "+30s header +30s!", "504"},
		{"stall: a comment is none", proxy.Options{StallTimeout: m}, "+30s header hello +30s!", "504"},
		{"grace: after [DONE]", proxy.Options{DoneGrace: 5 * s}, "header role stop done +5s!", "role stop done"},
		{"grace: shorter than the keepalive", proxy.Options{IdleTimeout: m, Keepalive: 10 * s, DoneGrace: 5 * s}, "header +4s role +10s! +1s stop +5s!", "role beat stop done"},
		{"keepalive: not before the header", proxy.Options{Keepalive: 10 * s}, "+1h header +10s!", "keepalive"},
		{"keepalive: from the last byte to the client", proxy.Options{Keepalive: 10 * s}, "header +6s role +10s! +4s half +6s! +4s rest +10s!", "role beat beat text beat"},
		{"keepalive: does not hide idle", proxy.Options{Keepalive: 10 * s, IdleTimeout: 25 * s}, "header role +10s! +10s! +5s!", "role beat beat timeout"},
		{"keepalive: does not hide stall", proxy.Options{Keepalive: 10 * s, StallTimeout: 25 * s}, "header role +10s! +10s! +5s!", "role beat beat timeout"},
		{"keepalive: not after the finish", proxy.Options{Keepalive: 10 * s}, "header role stop +1m done +1m", "role stop done"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) { *o = c.o }))
			for word := range strings.FieldsSeq(c.timeline) {
				x.happens(word)
			}
			if strings.Contains(c.answers, "timeout") || c.answers == "504" || strings.HasSuffix(c.answers, "done") && c.o.DoneGrace > 0 {
				x.wantStopped()
			} else if !strings.HasSuffix(c.answers, "...") {
				x.wantRunning()
			}
			var want strings.Builder
			for word := range strings.FieldsSeq(c.answers) {
				want.WriteString(written[word])
			}
			switch begins, cut := strings.CutSuffix(c.answers, " ..."); {
			case c.answers == "504":
				x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			case cut: // the error has an id of its own
				if got := x.rec.body.String(); !strings.HasPrefix(got, want.String()+`data: {"error":`) || !strings.Contains(got, `"code":"upstream_timeout"`) {
					t.Errorf("want %s and a timeout:\n%s", begins, got)
				}
				x.wantStopped()
			default:
				x.wantBody(want.String())
			}
		})
	}
}

// happens has a word of a timeline happen.
func (x *exchange) happens(word string) {
	x.t.Helper()
	after, waits := strings.CutPrefix(word, "+")
	switch {
	case word == "header":
		x.stream()
		return
	case !waits:
		x.write(written[word])
		return
	}
	after, due := strings.CutSuffix(after, "!")
	d, err := time.ParseDuration(after)
	if err != nil {
		x.t.Fatal(err)
	}
	calls := len(x.rec.log)
	advance(d - 1)
	x.wantRunning()
	if got := x.rec.log[calls:]; len(got) > 0 {
		x.t.Errorf("before the end of %s the inner writer was called %q", word, got)
	}
	advance(1)
	if happened := len(x.rec.log) > calls || x.up.Context().Err() != nil; happened != due {
		x.t.Errorf("at the end of %s something happened: %t", word, happened)
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
