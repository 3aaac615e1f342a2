// Package network tests the sidecar where the network does not do as it should: clients that
// leave, do not read or send without end, agents that break off, are silent or never stop,
// retries, timeouts, and the end of the process, in HTTP/1.1, HTTP/2 and HTTP/3.
//
// TestNoRaces has all that can happen to streams happen at once in a program with the race
// detector. HERMES_RACE_SEED repeats its requests. It is skipped without a C compiler, unless
// HERMES_RACE is "required".
package network

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// What a client gets does not depend on the protocol that it speaks.
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
	listen := harness.FreePort(t)
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: listen, Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"zero_usage": "pass"}}}})

	for protocol, transport := range client.Protocols(t, pool) {
		t.Run(protocol, func(t *testing.T) {
			c := client.Over(t, transport, "https://"+listen)
			for _, name := range []string{"g0-v0.8.0/one_tool", "g0-v0.8.0/parallel_tools", "g2-v0.13.0/one_tool", "g3-v0.20.3/emoji_all"} {
				r := c.Play(name)
				if r.Proto != protocol {
					t.Fatalf("spoken is %s", r.Proto)
				}
				r.Answer().CheckGood(t)
			}
			for _, name := range []string{"g0-v0.8.0/crash_in_tool", "g1-v0.9.0/crash_immediate", "g2-v0.13.0/crash_in_tool"} {
				c.Play(name).Answer().CheckError(t, "agent_crashed")
			}
			c.Play("g3-v0.20.3/crash_in_tool").Answer().CheckError(t, "agent_error")
			for name, code := range map[string]string{
				"FIN inside a chunk": "upstream_aborted", "reset": "upstream_aborted", "plain close": "upstream_incomplete",
			} {
				a := c.Play(name).Answer()
				a.CheckError(t, code)
				if a.Content != "hi" {
					t.Errorf("%s: content %q", name, a.Content)
				}
			}
			for _, name := range []string{"nothing", "header alone"} {
				client.CheckJSON(t, c.Play(name), http.StatusBadGateway, up.Addr)
			}
			r := c.Play("internal server error")
			if body, err := io.ReadAll(r.Body); r.StatusCode != 500 || string(body) != `{"error":{"message":"boom"}}` || err != nil {
				t.Errorf("%s: %q, %v", r.Status, body, err)
			}
		})
	}
}

// Many streams at once do not get into each other's way.
func TestManyStreamsAtOnce(t *testing.T) {
	all := hermes.Recordings(t, hermes.Chats)
	base, _ := sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still.With(sidecar.Options{"zero_usage": "pass"}))
	c := client.New(t, base)
	want := map[string]string{}
	for _, r := range all {
		want[r.String()] = c.Play(r.String()).All()
	}
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			for i := range 8 {
				name := all[(worker*7+i*31)%len(all)].String()
				r, err := c.Try("/v1/chat/completions", "X-Play", name)
				if err != nil {
					t.Error(err)
					return
				}
				if got := r.All(); got != want[name] {
					t.Errorf("%s: got\n%s\nwant\n%s", name, got, want[name])
				}
			}
		})
	}
	wg.Wait()
}
