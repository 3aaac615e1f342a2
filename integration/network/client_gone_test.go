package network

import (
	"net/http"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A client that leaves takes upstream's request with it, whenever it leaves and
// whatever it speaks. Nothing else would before patience ends: no keepalive finds
// out, and no timeout.
func TestClientGone(t *testing.T) {
	type moment struct {
		play  upstream.Script
		reads int // frames that the client reads before it leaves
	}
	moments := map[string]moment{
		"before the header":     {(*upstream.Exchange).Silence, 0},
		"before the first byte": {func(x *upstream.Exchange) { x.Events(); x.Silence() }, 0},
		"mid-stream": {func(x *upstream.Exchange) {
			x.Events()
			for range 100 {
				x.Frame(hermes.Delta("content", "a"))
				x.Pause(5 * time.Millisecond)
			}
		}, 3},
		"in silence": {func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Silence()
		}, 2},
		"while a tool runs": {func(x *upstream.Exchange) { x.Events(); x.Frame(hermes.Delta("content", "\n`💻 ls`\n")); x.Silence() }, 1},
	}
	asked, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	up := upstream.New(t, func(x *upstream.Exchange) {
		asked <- struct{}{}
		moments[x.Req.Header.Get("X-Play")].play(x)
		x.Silence()
		gone <- struct{}{}
	})
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: listen, Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"keepalive": 0, "idle_timeout": 0}}}})
	for protocol, transport := range client.Protocols(t, pool) {
		for name, m := range moments {
			t.Run(protocol+" "+name, func(t *testing.T) {
				abandon(t, client.Over(t, transport, "https://"+listen), protocol, name, m.reads, asked)
				select {
				case <-gone:
				case <-time.After(harness.Patience / 2):
					t.Fatal("upstream was never left")
				}
			})
		}
	}
}

// abandon sends a request, reads some frames of the answer and leaves.
func abandon(t testing.TB, c *client.Client, protocol, name string, reads int, asked <-chan struct{}) {
	t.Helper()
	if reads > 0 {
		r := c.Play(name)
		<-asked
		for range reads {
			r.Frame()
		}
		if r.Proto != protocol {
			t.Errorf("spoken was %s", r.Proto)
		}
		r.Leave()
		return
	}
	ctx, stop := patiently()
	defer stop()
	go func() {
		<-asked
		stop()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/chat/completions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Play", name)
	if res, err := c.Do(req); err == nil {
		t.Errorf("an answer before the first byte: %s", res.Status)
		res.Body.Close()
	}
}
