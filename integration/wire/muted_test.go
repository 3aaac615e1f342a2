package wire

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A turn that its request mutes is empty by intent: no empty_answer for it. Only a
// diagnostic request that names a session is one of these, and a crash stays a crash.
func TestMutedTurns(t *testing.T) {
	scripts := upstream.Router{}
	for _, name := range []string{"g3-v0.20.3/empty", "agent-loop/g2-v0.13.0/fail_second_call", "g3-v0.20.3/zero_usage_empty", "g0-v0.8.0/unstreamed"} {
		scripts[name] = upstream.Replay(hermes.Recorded(t, name), upstream.ByFrame)
	}
	base, _ := sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Options{"max_request": 64 << 10})
	const diagnostic = `,"hermes_notification_category":"diagnostic"`
	for _, c := range []struct {
		name, members, session, code string
		chunked                      bool
	}{
		{"g3-v0.20.3/empty", diagnostic, "s1", "", false},
		{"g3-v0.20.3/empty", diagnostic, "s1", "", true},
		{"g0-v0.8.0/unstreamed", diagnostic, "s1", "", false},
		{"agent-loop/g2-v0.13.0/fail_second_call", diagnostic, "s1", "", false}, // it ends on a tool
		{"g3-v0.20.3/empty", "", "s1", "empty_answer", false},
		{"g3-v0.20.3/empty", diagnostic, "", "empty_answer", false},
		{"g3-v0.20.3/empty", `,"hermes_notification_category":"result"`, "s1", "empty_answer", false},
		{"g3-v0.20.3/empty", diagnostic + `,"x":"` + strings.Repeat("x", 64<<10) + `"`, "s1", "empty_answer", false}, // it is not read
		{"g3-v0.20.3/zero_usage_empty", diagnostic, "s1", "agent_crashed", false},
	} {
		t.Run(c.name+" "+c.members[:min(len(c.members), 50)]+" "+c.session, func(t *testing.T) {
			body := client.Body(`{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":"hi"}]`+c.members+`}`, c.chunked)
			a := client.New(t, base).Send(http.MethodPost, "/v1/chat/completions", body, "X-Play", c.name, "X-Hermes-Session-Id", c.session).Answer()
			if c.code == "" {
				a.CheckGood(t)
			} else {
				a.CheckError(t, c.code)
			}
		})
	}
}
