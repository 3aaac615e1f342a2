package integration

import (
	"net/http"
	"testing"
	"time"
)

// A client that leaves takes upstream's request with it, whenever it leaves and
// whatever it speaks. Nothing else would before patience ends: no keepalive finds
// out, and no timeout.
func TestClientGone(t *testing.T) {
	type moment struct {
		play  script
		reads int // frames that the client reads before it leaves
	}
	moments := map[string]moment{
		"before the header":     {(*exchange).silence, 0},
		"before the first byte": {func(x *exchange) { x.events(); x.silence() }, 0},
		"mid-stream": {func(x *exchange) {
			x.events()
			for range 100 {
				x.frame(delta("content", "a"))
				x.pause(5 * time.Millisecond)
			}
		}, 3},
		"in silence":        {func(x *exchange) { x.events(); x.frame(role); x.frame(delta("content", "hi")); x.silence() }, 2},
		"while a tool runs": {func(x *exchange) { x.events(); x.frame(delta("content", "\n`💻 ls`\n")); x.silence() }, 1},
	}
	asked, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	up := newUpstream(t, func(x *exchange) {
		asked <- struct{}{}
		moments[x.req.Header.Get("X-Play")].play(x)
		x.silence()
		gone <- struct{}{}
	})
	dir, pool := certificate(t)
	listen := freePort(t)
	run(t, t.TempDir(), config{sites: []site{{listen: listen, upstream: up.addr, tls: dir, options: options{"keepalive": 0, "idle_timeout": 0}}}})
	for protocol, transport := range protocols(t, pool) {
		for name, m := range moments {
			t.Run(protocol+" "+name, func(t *testing.T) {
				abandon(t, clientOver(t, transport, "https://"+listen), protocol, name, m.reads, asked)
				select {
				case <-gone:
				case <-time.After(patience / 2):
					t.Fatal("upstream was never left")
				}
			})
		}
	}
}

// abandon sends a request, reads some frames of the answer and leaves.
func abandon(t testing.TB, c *client, protocol, name string, reads int, asked <-chan struct{}) {
	t.Helper()
	if reads > 0 {
		r := c.play(name)
		<-asked
		for range reads {
			r.frame()
		}
		if r.Proto != protocol {
			t.Errorf("spoken was %s", r.Proto)
		}
		r.leave()
		return
	}
	ctx, stop := patiently()
	defer stop()
	go func() {
		<-asked
		stop()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/chat/completions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Play", name)
	if res, err := c.http.Do(req); err == nil {
		t.Errorf("an answer before the first byte: %s", res.Status)
		res.Body.Close()
	}
}
