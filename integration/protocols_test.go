package integration

import (
	"context"
	"io"
	"net/http"
	"testing"
)

// patiently is a context that ends with patience.
func patiently() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// What a client gets does not depend on the protocol that it speaks.
func TestProtocols(t *testing.T) {
	scripts := library(recordings(t, chats), byFrame)
	scripts["FIN inside a chunk"] = func(x *exchange) {
		x.events()
		x.frame(role)
		x.frame(delta("content", "hi"))
		x.torn([]byte(role[:9]))
	}
	scripts["reset"] = func(x *exchange) { x.events(); x.frame(role); x.frame(delta("content", "hi")); x.reset() }
	scripts["plain close"] = func(x *exchange) {
		x.header("200 OK", "Content-Type: text/event-stream", "Connection: close")
		x.raw(role + "\n\n" + delta("content", "hi") + "\n\n" + role[:9])
		x.fin()
	}
	scripts["nothing"] = (*exchange).reset
	scripts["header alone"] = func(x *exchange) { x.events(); x.reset() }
	scripts["internal server error"] = asJSON("500 Internal Server Error", `{"error":{"message":"boom"}}`)
	up := newUpstream(t, scripts.play)
	dir, pool := certificate(t)
	listen := freePort(t)
	run(t, t.TempDir(), config{sites: []site{{listen: listen, upstream: up.addr, tls: dir, options: options{"zero_usage": "pass"}}}})

	for protocol, transport := range protocols(t, pool) {
		t.Run(protocol, func(t *testing.T) {
			c := clientOver(t, transport, "https://"+listen)
			for _, name := range []string{"g0-v0.8.0/one_tool", "g0-v0.8.0/parallel_tools", "g2-v0.13.0/one_tool", "g3-v0.20.3/emoji_all"} {
				r := c.play(name)
				if r.Proto != protocol {
					t.Fatalf("spoken is %s", r.Proto)
				}
				r.answer().checkGood(t)
			}
			for _, name := range []string{"g0-v0.8.0/crash_in_tool", "g1-v0.9.0/crash_immediate", "g2-v0.13.0/crash_in_tool"} {
				c.play(name).answer().checkError(t, "agent_crashed")
			}
			c.play("g3-v0.20.3/crash_in_tool").answer().checkError(t, "agent_error")
			for name, code := range map[string]string{
				"FIN inside a chunk": "upstream_aborted", "reset": "upstream_aborted", "plain close": "upstream_incomplete",
			} {
				a := c.play(name).answer()
				a.checkError(t, code)
				if a.content != "hi" {
					t.Errorf("%s: content %q", name, a.content)
				}
			}
			for _, name := range []string{"nothing", "header alone"} {
				checkJSON(t, c.play(name), http.StatusBadGateway, up.addr)
			}
			r := c.play("internal server error")
			if body, err := io.ReadAll(r.Body); r.StatusCode != 500 || string(body) != `{"error":{"message":"boom"}}` || err != nil {
				t.Errorf("%s: %q, %v", r.Status, body, err)
			}
		})
	}
}
