package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

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
