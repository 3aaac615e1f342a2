package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// slowly has the client take a write of s only once the clock has moved by d,
// and lets what became due in between happen behind it.
func (x *exchange) slowly(s string, d time.Duration) {
	x.t.Helper()
	taking, took := make(chan struct{}), make(chan struct{})
	x.rec.onWrite = func(b []byte) (int, error) {
		close(taking)
		<-took
		return len(b), nil
	}
	x.start(func() {
		if n, err := x.w.Write([]byte(s)); n != len(s) || err != nil {
			x.t.Errorf("Write = %d, %v; want %d, nil", n, err, len(s))
		}
	})
	receive(x.t, taking)
	x.rec.onWrite = nil
	x.clock.Skip(d)
	close(took)
	receive(x.t, x.ack)
	x.clock.Advance(0)
}

func TestSlowClientIsNotTakenForUpstreamsSilence(t *testing.T) {
	for name, set := range map[string]func(*proxy.Options){
		"first byte": func(o *proxy.Options) { o.FirstByteTimeout = time.Minute },
		"idle":       func(o *proxy.Options) { o.IdleTimeout = time.Minute },
		"stall":      func(o *proxy.Options) { o.StallTimeout = time.Minute },
		"grace":      func(o *proxy.Options) { o.DoneGrace = time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, option(set))
			x.stream()
			frames := role + text("Hello")
			if name == "grace" {
				frames += stop
			}
			x.slowly(frames, time.Hour)
			x.wantRunning()
			x.clock.Advance(time.Minute - 1)
			x.wantRunning()
			x.wantBody(frames)
			x.write(text("on"))
			x.ret(nil)
		})
	}
}

func TestSlowClientGetsNoKeepaliveAtOnce(t *testing.T) {
	x := begin(t, option(func(o *proxy.Options) { o.Keepalive = 10 * time.Second }))
	x.stream()
	x.slowly(role, time.Hour)
	x.wantLog("header 200", "write "+role, "flush")
	x.clock.Advance(10 * time.Second)
	if got := x.rec.body.String(); !strings.HasSuffix(got, beatForm) {
		t.Errorf("no keepalive 10s behind the last byte:\n%s", got)
	}
	x.ret(nil)
}
