package proxy_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

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
			t.Errorf("no keepalive 10s behind the last byte:\n%s", got)
		}
		x.ret(nil)
	})
}
