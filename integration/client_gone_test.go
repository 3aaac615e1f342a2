package integration

import (
	"net/http"
	"testing"
	"time"
)

// atOnce is how soon upstream is left by a sidecar whose client has left. A busy
// machine gets three attempts.
const (
	atOnce   = 100 * time.Millisecond
	attempts = 3
)

// A client that leaves takes upstream's request with it, whenever it leaves and
// whatever it speaks.
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
			for range 3000 {
				x.frame(delta("content", "a"))
				x.pause(5 * time.Millisecond)
			}
		}, 3},
		"in silence":        {func(x *exchange) { x.events(); x.frame(role); x.frame(delta("content", "hi")); x.silence() }, 2},
		"while a tool runs": {func(x *exchange) { x.events(); x.frame(delta("content", "\n`💻 ls`\n")); x.silence() }, 1},
	}
	asked, gone := make(chan struct{}, 1), make(chan time.Time, 1)
	up := newUpstream(t, func(x *exchange) {
		asked <- struct{}{}
		moments[x.req.Header.Get("X-Play")].play(x)
		x.silence()
		gone <- time.Now()
	})
	dir, pool := certificate(t)
	listen := freePort(t)
	run(t, t.TempDir(), config{sites: []site{{listen: listen, upstream: up.addr, tls: dir}}})
	for protocol, transport := range protocols(t, pool) {
		for name, m := range moments {
			t.Run(protocol+" "+name, func(t *testing.T) {
				var took time.Duration
				for range attempts {
					c := &client{t: t, http: &http.Client{Transport: transport}, base: "https://" + listen}
					left := abandon(c, protocol, name, m.reads, asked)
					select {
					case at := <-gone:
						took = at.Sub(left)
					case <-time.After(patience):
						t.Fatal("upstream was never left")
					}
					t.Logf("upstream was left after %v", took)
					if took <= atOnce {
						return
					}
				}
				t.Errorf("upstream was left after %v", took)
			})
		}
	}
}

// abandon sends a request, reads some frames of the answer and leaves, and
// returns when it left.
func abandon(c *client, protocol, name string, reads int, asked <-chan struct{}) (left time.Time) {
	c.t.Helper()
	if reads > 0 {
		r := c.play(name)
		<-asked
		for range reads {
			r.frame()
		}
		if r.Proto != protocol {
			c.t.Errorf("spoken was %s", r.Proto)
		}
		left = time.Now()
		r.leave()
		return left
	}
	ctx, stop := patiently()
	defer stop()
	at := make(chan time.Time, 1)
	go func() {
		<-asked
		at <- time.Now()
		stop()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/chat/completions", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Play", name)
	if res, err := c.http.Do(req); err == nil {
		c.t.Errorf("an answer before the first byte: %s", res.Status)
		res.Body.Close()
	}
	return <-at
}
