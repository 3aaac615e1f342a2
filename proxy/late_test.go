package proxy_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

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
func TestHijackBehindADeadline(t *testing.T) {
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
	x.do(func() { x.w.Header()["X-A"][0] = "behind" })
	x.write(role)
	if got := x.rec.sent.Get("X-A"); got != "before" {
		t.Errorf("X-A: %s", got)
	}
}

// The first error of the client's connection is the one that is told.
func TestTheFirstErrorOfTheClientIsKept(t *testing.T) {
	first := errors.New("broken pipe")
	x := begin(t)
	x.stream()
	x.rec.onWrite = func([]byte) (int, error) { return 0, first }
	x.rec.onFlush = func() error { return errors.New("another") }
	for range 2 {
		if _, err := x.tryWrite(text("a")); !errors.Is(err, first) {
			t.Errorf("Write: %v", err)
		}
		x.do(func() { _ = http.NewResponseController(x.w).Flush() })
	}
	x.ret(nil)
}

// Requests that are none for chat completions are not told of, even when their client
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

// A request that was read to its end is not the failure of its client.
func TestTheEndOfABodyIsNoFailure(t *testing.T) {
	for _, body := range []string{`{"stream": true, "messages": []}`, `{"messages": [{"role": "assistant", "content": "x"}]}`, `[]`, ""} {
		x := begin(t, withStatuses(), asking(body))
		e := x.ret(statusError(http.StatusBadGateway))
		var failed *proxy.RequestError
		if errors.As(e.err, &failed) || x.rec.status != http.StatusBadGateway {
			t.Errorf("%q: status %d, error %v", body, x.rec.status, e.err)
		}
	}
}
