package integration

import (
	"strings"
	"testing"
)

// The directive that is hermes and reverse_proxy in one repairs streams, and
// what is reverse_proxy's in it does its work.
func TestHermesProxyDirective(t *testing.T) {
	up := newUpstream(t, library(recordings(t, chats), byFrame).play)
	base, _ := caddyWith(t, `
	hermes_proxy /v1/* `+up.addr+` {
		header_up X-Team progress
		progress off
		transport http {
			keepalive 4s
		}
		keepalive 20s
	}
	handle /elsewhere {
		respond "not here" 404
	}`)
	c := newClient(t, base)
	a := c.play("g0-v0.8.0/one_tool").answer()
	a.checkGood(t)
	if len(a.starts) != 0 || strings.Contains(a.content, "`") {
		t.Errorf("starts %v, content %q", a.starts, a.content)
	}
	if got := up.requests()[0].Header.Get("X-Team"); got != "progress" {
		t.Errorf("upstream saw X-Team %q", got)
	}
	c.play("g0-v0.8.0/crash_in_tool").answer().checkError(t, "agent_crashed")
	if r := c.post("/elsewhere"); r.StatusCode != 404 {
		t.Errorf("outside of the matcher: %s", r.Status)
	}
}
