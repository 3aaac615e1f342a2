// Package network tests the sidecar where the network does not do as it should: clients that
// leave, do not read or send without end, agents that break off, are silent or never stop,
// retries, timeouts, and the end of the process, in HTTP/1.1, HTTP/2 and HTTP/3.
//
// TestNoRaces has all that can happen to streams happen at once in a program with the race
// detector. HERMES_RACE_SEED repeats its requests. It is skipped without a C compiler, unless
// HERMES_RACE is "required".
package network

import (
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// What a client gets does not depend on the protocol that it speaks, nor on what others get at the same time, and
// no answer breaks off with upstream's.
func TestProtocols(t *testing.T) {
	scripts := upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame)
	scripts["FIN inside a chunk"] = func(x *upstream.Exchange) {
		x.Begin("hi")
		x.Torn([]byte(hermes.Role[:9]))
	}
	scripts["reset"] = upstream.Chat(hermes.Says("hi"), hermes.Dies())
	scripts["plain close"] = func(x *upstream.Exchange) {
		x.Header("200 OK", "Content-Type: text/event-stream", "Connection: close")
		x.Raw(hermes.Role + "\n\n" + hermes.Delta("content", "hi") + "\n\n" + hermes.Role[:9])
		x.Fin()
	}
	scripts["nothing"] = (*upstream.Exchange).Reset
	scripts["header alone"] = func(x *upstream.Exchange) { x.Events(); x.Reset() }
	scripts["internal server error"] = upstream.AsJSON("500 Internal Server Error", `{"error":{"message":"boom"}}`)
	up := upstream.New(t, scripts.Play)
	dir, pool := client.Certificate(t)
	plain, listen := harness.FreePort(t), harness.FreePort(t)
	o := sidecar.Still.With(sidecar.Options{"zero_usage": "pass"})
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: plain, Upstream: up.Addr, Options: o}, {Listen: listen, Upstream: up.Addr, TLS: dir, Options: o}}})

	type answer struct {
		status      int
		media, body string
	}
	read := func(r *client.Reply) answer {
		return answer{r.StatusCode, r.Header.Get("Content-Type"), r.All()}
	}
	alone, want := client.New(t, "http://"+plain), map[string]answer{}
	for name := range scripts {
		want[name] = read(alone.Play(name))
	}
	var all sync.WaitGroup
	for protocol, transport := range client.Protocols(t, pool) {
		c := client.Over(t, transport, "https://"+listen)
		for name := range scripts {
			all.Go(func() {
				r, err := c.Try("/v1/chat/completions", "X-Play", name)
				if err != nil {
					t.Error(protocol, name, err)
					return
				}
				if got := read(r); r.Proto != protocol || got != want[name] {
					t.Errorf("%s, %s: got\n%+v\nwant\n%+v", name, r.Proto, got, want[name])
				}
			})
		}
	}
	all.Wait()
}
