package network

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// checkAgain wants an error instead of an answer, and that it tells SDKs not to send the request again, and
// says why, where the agent at addr may be running; and that it says nothing of the kind where it could not be
// reached.
func checkAgain(t *testing.T, r *client.Reply, addr string, status int, running bool) {
	t.Helper()
	e := client.CheckJSON(t, r, status, addr)
	got, said := r.Header.Values("X-Should-Retry"), strings.Contains(e.Message, "the agent may be running")
	switch {
	case running && (len(got) != 1 || got[0] != "false" || !said):
		t.Errorf("X-Should-Retry %q with %q, want false: the agent may be running", got, e.Message)
	case !running && (len(got) != 0 || e.Message != "the agent could not be reached"):
		t.Errorf("X-Should-Retry %q with %q, want none: nobody could be asked", got, e.Message)
	}
}

// Each error instead of an answer says whether the agent may have begun a run.
func TestErrorsSayWhetherTheAgentMayBeRunning(t *testing.T) {
	play := func(x *upstream.Exchange) {
		switch x.Req.Header.Get("X-Play") {
		case "header":
			x.Events("X-Should-Retry: true")
			x.Fin()
		case "silent":
			x.Silence()
		case "500":
			upstream.AsJSON("500 Internal Server Error", `{}`)(x)
		}
		x.Fin()
	}
	up, one, two := upstream.New(t, play), upstream.New(t, play), upstream.New(t, play)
	nobody := func() string { return harness.FreePort(t) }
	again := "lb_policy first\nlb_retries 1\nfail_duration 1m\n" // so that the second try is another's
	post := "lb_retry_match {\nmethod POST\n}\n"
	cases := []struct {
		name    string
		hermes  string
		behind  string // directives
		to      string
		proxy   string // options of reverse_proxy
		play    string
		status  int
		running bool
	}{
		{name: "refused", to: nobody(), status: 502},
		{name: "refused twice", to: nobody() + " " + nobody(), proxy: again, status: 502},
		{name: "nobody to ask", to: nobody(), proxy: "fail_duration 1m\nmax_fails 1", status: 503},
		{name: "lost", to: up.Addr, status: 502, running: true},
		{name: "lost after its header", to: up.Addr, play: "header", status: 502, running: true},
		{name: "lost, with another body", behind: "request_body {\nset `{}`\n}", to: up.Addr, status: 502, running: true},
		{name: "lost, and then refused", to: one.Addr + " " + nobody(), proxy: again + post + "request_buffers 1MB", status: 502, running: true},
		{name: "refused, and then lost", to: nobody() + " " + two.Addr, proxy: again, status: 502, running: true},
		{name: "silent, first_byte_timeout", hermes: "{\nfirst_byte_timeout 100ms\n}", to: up.Addr, play: "silent", status: 504, running: true},
		{name: "silent, idle_timeout", hermes: "{\nidle_timeout 100ms\n}", to: up.Addr, play: "silent", status: 504, running: true},
		{name: "silent, stall_timeout", hermes: "{\nstall_timeout 100ms\n}", to: up.Addr, play: "silent", status: 504, running: true},
		{name: "silent, Caddy's timeout", to: up.Addr, proxy: "transport http {\nresponse_header_timeout 100ms\n}", play: "silent", status: 504, running: true},
		{name: "failed, and tried in vain", to: up.Addr, proxy: "lb_retries 1\nrequest_buffers 1MB\nlb_retry_match {\nexpression `{rp.status_code} == 500`\n}", play: "500", status: 500, running: true},
	}
	var directives string
	for i, c := range cases {
		directives += fmt.Sprintf("handle /%d/* {\nroute {\nhermes %s\n%s\nreverse_proxy %s {\n%s\n}\n}\n}\n", i, c.hermes, c.behind, c.to, c.proxy)
	}
	base, _ := sidecar.ServeCaddyfile(t, directives)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cl := client.New(t, base)
			path := fmt.Sprintf("/%d/v1/chat/completions", i)
			if c.status == http.StatusServiceUnavailable {
				cl.Post(path).All() // after this one Caddy knows that it is not there
			}
			r := cl.Post(path, "X-Play", c.play)
			if c.status == http.StatusInternalServerError { // Caddy's own page
				if r.StatusCode != c.status || r.Header.Get("X-Should-Retry") != "false" {
					t.Errorf("%s, header %v", r.Status, r.Header)
				}
				return
			}
			checkAgain(t, r, up.Addr, c.status, c.running)
		})
	}
	if len(one.Requests()) != 1 || len(two.Requests()) != 1 {
		t.Errorf("agents beside one that refuses were asked %d and %d times, want once each", len(one.Requests()), len(two.Requests()))
	}
}

// What an agent has read is not sent to it again, also where Go's transport may do that by itself: on a connection
// that it has used before.
func TestWhatAnAgentHasReadIsNotSentAgain(t *testing.T) {
	for _, behind := range []string{"", "request_header Idempotency-Key k", "request_header Idempotency-Key k\nrequest_body {\nset `" + client.Question + "`\n}"} {
		var agent *upstream.Server
		agent = upstream.New(t, func(x *upstream.Exchange) {
			if len(agent.Requests()) == 1 {
				upstream.AsJSON("200 OK", "{}")(x)
				return
			}
			x.Fin()
		})
		base, _ := sidecar.ServeCaddyfile(t, "route {\nhermes\n"+behind+"\nreverse_proxy "+agent.Addr+"\n}")
		c := client.New(t, base)
		if got := c.Chat().All(); got != "{}" {
			t.Fatalf("%q: the first answer is %q", behind, got)
		}
		checkAgain(t, c.Chat(), agent.Addr, http.StatusBadGateway, true)
		if got := agent.Bodies(); !slices.Equal(got, []string{client.Question, client.Question}) {
			t.Errorf("%q: the agent was asked %q, want twice, the second time in vain", behind, got)
		}
	}
}
