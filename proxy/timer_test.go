package proxy_test

import (
	"context"
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
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const comment = ": comment\n\n"

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

// TestTimelines: the deadlines and keepalives of an exchange.
func TestTimelines(t *testing.T) {
	form := func(f rewrite.KeepaliveForm) []setting {
		return []setting{option(func(o *proxy.Options) { o.Rewrite.KeepaliveForm = f })}
	}
	chunks, comments := form(rewrite.KeepaliveChunk), form(rewrite.KeepaliveComment)
	for _, s := range []scene{
		{name: "no deadline", limits: "", does: "+1000h header +1000h role +1000h stop +1000h running", answers: "role stop"},
		{name: "the earliest: first byte", limits: "first=1m idle=1h stall=1h grace=1h keepalive=1h", does: "header +1m!", answers: "504:upstream_timeout"},
		{name: "the earliest: idle", limits: "first=1h idle=1m stall=1h grace=1h keepalive=1h", does: "header +1m!", answers: "504:upstream_timeout"},
		{name: "the earliest: stall", limits: "first=1h idle=1h stall=1m grace=1h keepalive=1h", does: "header +1m!", answers: "504:upstream_timeout"},
		{name: "first byte", limits: "first=30s", does: "+30s!", answers: "504:upstream_timeout"},
		{name: "first byte: of the request, not of the header", limits: "first=30s", does: "+20s header +10s!", answers: "504:upstream_timeout"},
		{name: "first byte: a frame is one", limits: "first=30s", does: "header role +1h running", answers: "role"},
		{name: "first byte: part of one is", limits: "first=30s", does: "header part +1h running", answers: ""},
		{name: "first byte: a comment is", limits: "first=30s", does: "header comment +1h running", answers: "comment"},
		{name: "first byte: a keepalive is not", limits: "first=25s keepalive=10s", does: "header +10s! +10s! +5s! stopped", answers: "keepalive keepalive ..."},
		{name: "idle: no header", limits: "idle=1m", does: "+1m!", answers: "504:upstream_timeout"},
		{name: "idle: the header is a byte", limits: "idle=1m", does: "+50s header +1m!", answers: "504:upstream_timeout"},
		{name: "idle: nothing", limits: "idle=1m", does: "header role +1m!", answers: "role error:upstream_timeout"},
		{name: "idle: frames", limits: "idle=1m", does: "header role +40s text +40s text +1m!", answers: "role text text partial:upstream_timeout"},
		{name: "idle: comments", limits: "idle=1m", does: "header role +40s comment +40s comment +1m!", answers: "role comment comment error:upstream_timeout"},
		{name: "idle: part of a frame", limits: "idle=1m", does: "header role +40s part +40s part +1m!", answers: "role error:upstream_timeout"},
		{name: "stall: frames", limits: "stall=1m", does: "header +59s text +59s text +59s text +1m!", answers: "text text text partial:upstream_timeout"},
		{name: "stall: comments", limits: "idle=30s stall=1m", does: "header role +20s comment +20s comment +20s!", answers: "role comment comment error:upstream_timeout"},
		{name: "stall: blank lines", limits: "idle=30s stall=1m", does: "header role +20s line +20s line +20s!", answers: "role line line error:upstream_timeout"},
		{name: "stall: part of a frame", limits: "idle=30s stall=1m", does: "header role +20s part +20s part +20s!", answers: "role error:upstream_timeout"},
		{name: "stall: no header", limits: "stall=1m", does: "+1m!", answers: "504:upstream_timeout"},
		{name: "stall: the header is no frame", limits: "stall=1m", does: "+30s header +30s!", answers: "504:upstream_timeout"},
		{name: "stall: a comment is none", limits: "stall=1m", does: "+30s header hello +30s!", answers: "504:upstream_timeout"},
		{name: "grace: after [DONE]", limits: "grace=5s", does: "header role stop done +5s! stopped", answers: "role stop done"},
		{name: "grace: shorter than the keepalive", limits: "idle=1m keepalive=10s grace=5s", does: "header +4s role +10s! +1s stop +5s! stopped", answers: "role beat stop done"},
		{name: "keepalive: not before the header", limits: "keepalive=10s", does: "+1h header +10s! running", answers: "keepalive"},
		{name: "keepalive: from the last byte to the client", limits: "keepalive=10s", does: "header +6s role +10s! +4s half +6s! +4s rest +10s! running", answers: "role beat beat text beat"},
		{name: "keepalive: does not hide idle", limits: "keepalive=10s idle=25s", does: "header role +10s! +10s! +5s!", answers: "role beat beat error:upstream_timeout"},
		{name: "keepalive: does not hide stall", limits: "keepalive=10s stall=25s", does: "header role +10s! +10s! +5s!", answers: "role beat beat error:upstream_timeout"},
		{name: "keepalive: not after the finish", limits: "keepalive=10s", does: "header role stop +1m done +1m running", answers: "role stop done"},
		{name: "no deadline below zero", limits: "first=-1s idle=-1s stall=-1s grace=-1s keepalive=-1s", does: "+1h header +1h role +1h stop +1h running", answers: "role stop"},
		{name: "silence before a keepalive", limits: "idle=10s keepalive=10s", does: "header role +10s!", answers: "role error:upstream_timeout"},

		{name: "ends: gives up", limits: "first=30s", does: "+30s! stopped waits", answers: "504:upstream_timeout"},
		{name: "ends: gives up silently", limits: "first=30s", does: "+30s! stopped end", answers: "504:upstream_timeout"},
		{name: "ends: aborts", limits: "first=30s", does: "+30s! stopped abort", answers: "504:upstream_timeout"},
		{name: "ends: answers, too late", limits: "first=30s", does: "+30s! stopped 500 end", answers: "504:upstream_timeout"},
		{name: "ends: has an answer after all", limits: "first=30s", does: "+30s! stopped header abort", answers: "504:upstream_timeout"},
		{name: "ends: a stream that aborts", limits: "idle=1m", does: "header role +1m! stopped abort", answers: "role error:upstream_timeout"},
		{name: "ends: a stream with an error", limits: "idle=1m", does: "header role +1m! stopped error", answers: "role error:upstream_timeout"},
		{name: "ends: a stream cleanly", limits: "idle=1m", does: "header role +1m! stopped end", answers: "role error:upstream_timeout"},
		{name: "ends: panics", limits: "idle=1m", does: "header role +1m! panic", answers: "role error:upstream_timeout", goesOn: "panic"},
		{
			name: "grace: bytes begin it anew", limits: "grace=5s idle=2s stall=2s keepalive=1s",
			does:    "header role text +1s! stop +4s comment +4s comment +4s comment +5s! stopped abort",
			answers: "role text beat stop comment comment comment done",
		},

		{name: "form: no chunk yet", limits: "keepalive=10s", does: "header +10s! +10s!", answers: "keepalive keepalive"},
		{name: "form: after a chunk", limits: "keepalive=10s", does: "header role +10s! +10s!", answers: "role beat beat"},
		{name: "form: after a comment", limits: "keepalive=10s", does: "header comment +10s! +10s!", answers: "comment keepalive keepalive"},
		{name: "form: chunk", set: chunks, limits: "keepalive=10s", does: "header role +10s! +10s!", answers: "role beat beat"},
		{name: "form: chunk, none yet", set: chunks, limits: "keepalive=10s", does: "header +10s! +10s!", answers: "keepalive keepalive"},
		{name: "form: chunk, within a frame", set: chunks, limits: "keepalive=10s", does: "header role half +10s! +10s!", answers: "role beat beat"},
		{name: "form: chunk, with text held", set: chunks, limits: "keepalive=10s", does: "header role held +10s! +10s!", answers: "role beat beat"},
		{name: "form: chunk, after a tool", set: chunks, limits: "keepalive=10s", does: "header role tool +10s! +10s!", answers: "role tool-starts beat beat"},
		{name: "form: chunk, after a foreign frame", set: chunks, limits: "keepalive=10s", does: "header array +10s! +10s!", answers: "array keepalive keepalive"},
		{name: "form: comment", set: comments, limits: "keepalive=10s", does: "header role +10s! +10s!", answers: "role keepalive keepalive"},
		{name: "form: comment, after a tool", set: comments, limits: "keepalive=10s", does: "header role tool +10s! +10s!", answers: "role tool-starts keepalive keepalive"},
	} {
		s.run(t)
	}
}

func TestNoKeepaliveWithinAFrameThatLeavesInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) {
			o.Keepalive = 10 * time.Second
			o.Rewrite.MaxFrame = 512
		}))
		x.stream()
		x.write(role)
		parts := role
		for _, s := range []string{`data: {"x":"` + strings.Repeat("x", 600), strings.Repeat("y", 600), `"}` + "\n"} {
			x.write(s)
			parts += s
			advance(time.Minute)
			if got := x.rec.body.String(); !strings.HasPrefix(parts, got) {
				t.Errorf("within the frame the client was sent something else:\n%s", got)
			}
		}
		if x.rec.body.Len() <= len(role) {
			t.Fatal("no part of the frame has left")
		}
		x.write("\n")
		advance(10 * time.Second)
		x.wantBody(parts + "\n" + beatForm)
		x.ret(nil)
	})
}

func TestKeepaliveThatTheClientDoesNotTakeCancelsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive = 10 * time.Second }))
		x.stream()
		x.write(role)
		x.rec.onWrite = func([]byte) (int, error) { return 0, errTest }
		advance(10 * time.Second)
		if cause := context.Cause(x.up.Context()); cause != errTest { //nolint:errorlint // the very error
			t.Errorf("upstream's request ended with the cause %v, want the inner writer's error", cause)
		}
		x.abort().wantPanic(t, http.ErrAbortHandler)
	})
}

// slowly has the client take d for a write of s.
func (x *exchange) slowly(s string, d time.Duration) {
	x.t.Helper()
	x.rec.onWrite = func(b []byte) (int, error) {
		time.Sleep(d)
		return len(b), nil
	}
	x.write(s)
	x.rec.onWrite = nil
	synctest.Wait()
}

func TestSlowClientIsNotTakenForUpstreamsSilence(t *testing.T) {
	for name, set := range map[string]func(*proxy.Options){
		"first byte": func(o *proxy.Options) { o.FirstByteTimeout = time.Minute },
		"idle":       func(o *proxy.Options) { o.IdleTimeout = time.Minute },
		"stall":      func(o *proxy.Options) { o.StallTimeout = time.Minute },
		"grace":      func(o *proxy.Options) { o.DoneGrace = time.Minute },
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(set))
			x.stream()
			frames := role + text("Hello")
			if name == "grace" {
				frames += stop
			}
			x.slowly(frames, time.Minute)
			x.wantRunning()
			advance(time.Minute - 1)
			x.wantRunning()
			x.wantBody(frames)
			x.write(text("on"))
			x.ret(nil)
		})
	}
}

func TestSlowClientGetsNoKeepaliveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive = 10 * time.Second }))
		x.stream()
		x.slowly(role, 10*time.Second)
		x.wantLog("header 200", "write "+role, "flush")
		advance(10 * time.Second)
		if got := x.rec.body.String(); !strings.HasSuffix(got, beatForm) {
			t.Errorf("no keepalive 10s after the last byte:\n%s", got)
		}
		x.ret(nil)
	})
}

// asking gives the request a body.
func asking(body string) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

// slowly gives the request a body for which the client takes its time: meanwhile
// runs once it is being read.
func slowly(body string, meanwhile func()) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		begun, rest := false, strings.NewReader(body)
		r.ContentLength = int64(len(body))
		r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
			if !begun {
				begun = true
				meanwhile()
			}
			return rest.Read(b[:min(len(b), 10)])
		}))
	}
}

func timeouts(d time.Duration) setting {
	return option(func(o *proxy.Options) { o.FirstByteTimeout, o.IdleTimeout = d, d })
}

// deadlines are the timeouts that count from the request on, one at a time.
var deadlines = map[string]func(time.Duration) setting{
	"first byte": func(d time.Duration) setting { return option(func(o *proxy.Options) { o.FirstByteTimeout = d }) },
	"idle":       func(d time.Duration) setting { return option(func(o *proxy.Options) { o.IdleTimeout = d }) },
	"stall":      func(d time.Duration) setting { return option(func(o *proxy.Options) { o.StallTimeout = d }) },
}

const plainAnswer = `{"object":"chat.completion"}`

// answers has the handler answer with JSON, which must pass.
func (x *exchange) answers() {
	x.t.Helper()
	x.do(func() {
		x.w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(x.w, plainAnswer)
	})
	x.ret(nil).wantSwallowed(x.t)
	x.wantBody(plainAnswer)
	if x.rec.status != http.StatusOK || len(x.ends) != 0 {
		x.t.Errorf("status %d, %d results; want 200 and none", x.rec.status, len(x.ends))
	}
}

func TestTimeoutsDoNotCountTheClientsUpload(t *testing.T) {
	for name, timeout := range deadlines {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, timeout(time.Minute), slowly(polluted, func() { advance(time.Hour) }))
			advance(time.Minute - 1)
			if x.rec.status != 0 {
				t.Fatalf("answered with %d already", x.rec.status)
			}
			advance(1)
			x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			x.ret(nil).wantSwallowed(t)
			if d := x.result().Duration; d != time.Hour+time.Minute {
				t.Errorf("duration %v, want that since the request came", d)
			}
		})
	}
}

// Timeouts and the drain are about streams: an answer that is none may take its
// time.
func TestAnswersThatAreNoStreamsHaveNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, body := range []string{`{}`, `{"stream":false}`, `{"messages":[],"stream":null}`, strings.Replace(polluted, "true", "false", 1)} {
			streams := new(proxy.Streams)
			stall := deadlines["stall"](time.Minute)
			x := begin(t, timeouts(time.Minute), stall, among(streams, time.Minute), asking(body))
			advance(24 * time.Hour)
			streams.Shutdown(0)
			advance(24 * time.Hour)
			x.answers()
		}
	})
}

// Where the body does not say, or was not read, the answer may be a stream.
func TestAnswersThatMayBeStreamsHaveDeadlines(t *testing.T) {
	keep := option(func(o *proxy.Options) { o.History = proxy.HistoryKeep })
	small := option(func(o *proxy.Options) { o.MaxRequest = 5 })
	none := option(func(*proxy.Options) {})
	for name, c := range map[string]struct {
		body string
		set  setting
	}{
		"a stream": {`{"stream":true}`, none}, "a number": {`{"stream":1}`, none}, "no JSON": {`stream=false`, none},
		"cut off": {`{"stream":false`, none}, "nothing": {``, none}, "history keep": {`{"stream":false}`, keep},
		"too large": {`{"stream":false}`, small}, "compressed": {`{"stream":false}`, header("Content-Encoding", "gzip")},
	} {
		bubble(t, name, func(t *testing.T) {
			for _, timeout := range deadlines {
				x := begin(t, timeout(time.Minute), asking(c.body), c.set)
				advance(time.Minute)
				x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
				x.ret(nil).wantSwallowed(t)
			}

			streams := new(proxy.Streams)
			x := begin(t, among(streams, time.Minute), asking(c.body), c.set)
			streams.Shutdown(0)
			advance(time.Minute)
			x.wantAnswer(http.StatusBadGateway, "shutting_down")
			x.ret(nil).wantSwallowed(t)
		})
	}
}

// A stream that the request does not ask for is one all the same, from its header on.
func TestStreamsThatAreNotAskedForHaveDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, timeout := range deadlines {
			x := begin(t, timeout(time.Minute), asking(`{}`))
			advance(time.Hour)
			x.stream()
			advance(time.Minute - 1)
			if x.rec.status != 0 {
				t.Fatalf("%s: answered with %d already", name, x.rec.status)
			}
			advance(1)
			x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			x.ret(nil).wantSwallowed(t)
		}

		streams := new(proxy.Streams)
		x := begin(t, among(streams, time.Minute), asking(`{}`))
		streams.Shutdown(0)
		advance(time.Minute)
		x.stream()
		if n, err := x.tryWrite(role); n != len(role) && err == nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		x.wantBody(role + errorFinish("shutting_down", false))
		x.ret(nil).wantSwallowed(t)
	})
}

func TestShutdownWhileTheClientSends(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		passed time.Duration // of the drain_timeout while the client sends
		asked  bool          // whether upstream is asked
	}{
		"a stream, over":         {polluted, time.Minute, false},
		"a stream, in time":      {polluted, time.Minute - 1, true},
		"not a stream, over":     {`{}`, time.Hour, true},
		"not a stream, in time":  {`{}`, time.Second, true},
		"cut off, over":          {polluted[:30], time.Minute, false},
		"no object at all, over": {`[`, time.Minute, false},
	} {
		bubble(t, name, func(t *testing.T) {
			streams := new(proxy.Streams)
			meanwhile := slowly(c.body, func() {
				if n := streams.Open(); n != 1 {
					t.Errorf("%d requests are under way, want 1", n)
				}
				streams.Shutdown(0)
				advance(c.passed)
			})
			if c.asked {
				x := begin(t, among(streams, time.Minute), meanwhile)
				advance(time.Hour)
				if c.body == `{}` {
					x.answers()
				} else {
					x.wantAnswer(http.StatusBadGateway, "shutting_down")
					x.ret(nil).wantSwallowed(t)
				}
			} else {
				rec := &recorder{t: t, header: make(http.Header)}
				o := proxy.Options{}
				r := httptest.NewRequest(http.MethodPost, chatPath, nil)
				among(streams, time.Minute)(&o, r, rec)
				meanwhile(&o, r, rec)
				err := proxy.New(o).Serve(rec, r, func(http.ResponseWriter, *http.Request) error {
					t.Error("upstream is asked")
					return nil
				})
				if err != nil || rec.status != http.StatusBadGateway {
					t.Errorf("status %d, error %v; want 502", rec.status, err)
				}
				checkAnswer(t, rec.sent, rec.body.Bytes(), "shutting_down", false)
			}
			if n := streams.Open(); n != 0 {
				t.Errorf("%d requests are left", n)
			}
		})
	}
}

// unread are settings with which a body goes on while it comes.
var unread = map[string]setting{
	"history keep": option(func(o *proxy.Options) { o.History = proxy.HistoryKeep }),
	"too large":    option(func(o *proxy.Options) { o.MaxRequest = 5 }),
	"incremental":  header("Incremental", "?1"),
	"compressed":   header("Content-Encoding", "gzip"),
	"no JSON":      option(func(*proxy.Options) {}),
}

// sending gives the request a body each of whose portions takes the client what
// meanwhile does.
func sending(portions int, meanwhile func()) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		first := true
		r.ContentLength = int64(portions)
		r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
			if first {
				first = false // where the beginning is looked at
			} else {
				meanwhile()
			}
			if portions--; portions < 0 {
				return 0, io.EOF
			}
			b[0] = '['
			return 1, nil
		}))
	}
}

// A body that goes on while it comes has been read when its end has: until then
// upstream may wait for as long as the client takes, for one portion or for all.
func TestTimeoutsDoNotCountAnUploadThatGoesOnWhileItComes(t *testing.T) {
	for name, set := range unread {
		for of, timeout := range deadlines {
			bubble(t, name+", "+of, func(t *testing.T) {
				beats := option(func(o *proxy.Options) { o.Keepalive = time.Second }) // of which none may leave before the header
				x := begin(t, timeout(time.Minute), beats, sending(100, func() { advance(10 * time.Minute) }), set)
				x.do(func() {
					if b, err := io.ReadAll(x.up.Body); len(b) != 100 || err != nil {
						t.Errorf("upstream gets %d bytes, %v", len(b), err)
					}
				})
				advance(time.Minute - 1)
				if x.rec.status != 0 {
					t.Fatalf("answered with %d already", x.rec.status)
				}
				advance(1)
				x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
				x.ret(nil).wantSwallowed(t)
			})
		}
	}
}

// An upstream that does not take what the client sends is silent.
func TestTimeoutsCountWhatUpstreamDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, set := range unread {
			for of, timeout := range deadlines {
				x := begin(t, timeout(time.Minute), sending(100, func() {}), set)
				for range 5 {
					x.do(func() { _, _ = x.up.Body.Read(make([]byte, 1)) })
					advance(time.Minute - 1)
				}
				if x.rec.status != 0 {
					t.Fatalf("%s, %s: answered with %d already", name, of, x.rec.status)
				}
				advance(1)
				x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
				x.ret(nil)
			}
		}
	})
}

// Once the answer has begun it is the answer that must not be silent.
func TestUploadsDoNotHideASilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, timeouts(time.Minute), sending(100, func() {}), unread["history keep"])
		x.stream()
		x.write(role)
		for range 2 {
			advance(30 * time.Second)
			x.do(func() { _, _ = x.up.Body.Read(make([]byte, 1)) })
		}
		x.wantBody(role + errorFinish("upstream_timeout", false))
		x.ret(nil).wantSwallowed(t)
	})
}

// The request is read on while the client does not read its answer.
func TestUploadsDoNotWaitForTheAnswer(t *testing.T) {
	blocked, goOn := make(chan bool), make(chan bool)
	x := begin(t, timeouts(time.Minute), sending(100, func() {}), unread["history keep"],
		func(_ *proxy.Options, _ *http.Request, rec *recorder) {
			rec.onWrite = func(b []byte) (int, error) {
				close(blocked)
				<-goOn
				return len(b), nil
			}
		})
	x.stream()
	x.start(func() { _, _ = io.WriteString(x.w, role) })
	<-blocked
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(x.up.Body)
		read <- err
	}()
	if err := <-read; err != nil {
		t.Error(err)
	}
	close(goOn)
	<-x.ack
}

// Without a deadline that it could move, a body stays what it is.
func TestBodiesThatAreNotFollowed(t *testing.T) {
	none := func(_ *proxy.Options, r *http.Request, _ *recorder) { r.Body = nil }
	nothing := func(_ *proxy.Options, r *http.Request, _ *recorder) { r.Body = http.NoBody }
	for name, sets := range map[string][]setting{
		"no deadline": {sending(9, func() {})}, "no chat": {timeouts(1), path(otherPath), sending(9, func() {})},
		"none": {timeouts(1), none}, "nothing": {timeouts(1), nothing},
	} {
		x := begin(t, append(sets, unread["history keep"])...)
		x.do(func() {
			if fmt.Sprintf("%T", x.up.Body) != fmt.Sprintf("%T", x.r.Body) {
				t.Errorf("%s: the body became a %T", name, x.up.Body)
			}
		})
	}
}

// A timer that comes too late to be stopped does nothing to what has ended, or is not
// its own.
func TestTimersThatComeTooLateDoNothing(t *testing.T) {
	answer := func(media string) func(*exchange) {
		return func(x *exchange) {
			x.do(func() {
				x.w.Header().Set("Content-Type", media)
				x.w.WriteHeader(http.StatusOK)
			})
			x.write("as it is")
		}
	}
	for name, until := range map[string]func(x *exchange){
		"a stream that has ended": func(x *exchange) {
			x.stream()
			x.write(role, text("Hello"), stop, done)
			x.ret(nil).wantSwallowed(t)
		},
		"a stream that has been drained": func(x *exchange) {
			x.stream()
			x.write(role)
			advance(20 * time.Second)
		},
		"a request that has been drained": func(x *exchange) { advance(20 * time.Second) },
		"JSON lines":                      answer("application/jsonl"),
		"a download":                      answer("application/octet-stream"),
		"a client that has left": func(x *exchange) {
			x.stream()
			x.write(role)
			x.leave()
		},
	} {
		bubble(t, name, func(t *testing.T) {
			streams := new(proxy.Streams)
			x := begin(t, among(streams, 20*time.Second), option(func(o *proxy.Options) {
				o.FirstByteTimeout, o.IdleTimeout, o.Keepalive = time.Minute, time.Minute, 45*time.Second
			}))
			streams.Shutdown(0)
			until(x)
			before := len(x.rec.log)
			advance(time.Hour)
			proxy.FireLate(x.w)
			if got := x.rec.log[before:]; len(got) > 0 {
				t.Errorf("the client was sent %q", got)
			}
			if !x.over {
				x.ret(nil).wantSwallowed(t)
			}
		})
	}
}

// What has been ended cannot be taken over.
func TestHijackAfterADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, timeouts(time.Minute))
		advance(time.Minute)
		x.do(func() {
			if conn, _, err := http.NewResponseController(x.w).Hijack(); err == nil || errors.Is(err, http.ErrNotSupported) {
				t.Errorf("Hijack: %v, %v", conn, err)
			}
		})
	})
}

// The values of the handler's header are its own as well: the header of a stream is the
// one that it had when it was written.
func TestValuesOfTheHeaderAreTheHandlers(t *testing.T) {
	x := begin(t)
	x.stream("X-A", "before")
	x.do(func() { x.w.Header()["X-A"][0] = "after" })
	x.write(role)
	if got := x.rec.sent.Get("X-A"); got != "before" {
		t.Errorf("X-A: %s", got)
	}
}

// Requests that are none for chat completions are not observed, even when their client
// has left.
func TestOtherRequestsWhoseClientLeavesAreNotTold(t *testing.T) {
	for _, p := range []string{otherPath, "/v1/runs/run_1/events", "/api/sessions/s/chat/stream"} {
		x := begin(t, path(p))
		x.leave()
		x.ret(nil)
		if len(x.ends) != 0 {
			t.Errorf("%s: %+v", p, x.ends)
		}
	}
}
