package configuration

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The directive that is hermes and reverse_proxy in one repairs streams, and
// what is reverse_proxy's in it does its work.
func TestHermesProxyDirective(t *testing.T) {
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	base, _ := sidecar.ServeCaddyfile(t, `
	hermes_proxy /v1/* `+up.Addr+` {
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
	c := client.New(t, base)
	a := c.Play("g0-v0.8.0/one_tool").Answer()
	a.CheckGood(t)
	if len(a.Starts) != 0 || strings.Contains(a.Content, "`") {
		t.Errorf("starts %v, content %q", a.Starts, a.Content)
	}
	if got := up.Requests()[0].Header.Get("X-Team"); got != "progress" {
		t.Errorf("upstream saw X-Team %q", got)
	}
	c.Play("g0-v0.8.0/crash_in_tool").Answer().CheckError(t, "agent_crashed")
	if r := c.Post("/elsewhere"); r.StatusCode != 404 {
		t.Errorf("outside of the matcher: %s", r.Status)
	}
}
