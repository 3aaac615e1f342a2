package resume

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// address returns the host and port of a URL.
func address(base string) string { return strings.TrimPrefix(base, "http://") }

// beside returns a Caddyfile of a sidecar beside the client, for upstreams, with lines of reverse_proxy.
func beside(listen, upstreams string, lines ...string) string {
	return "{\n\tadmin off\n\tauto_https off\n}\n" + sidecar.OnLoopback(listen) + "hermes\nreverse_proxy " + upstreams + " {\n" + strings.Join(lines, "\n") + "\n}\n}\n"
}

// TestRollingUpdate moves a client from one replica to another one in the middle of its stream, which
// is in Redis.
func TestRollingUpdate(t *testing.T) {
	r := startRedis(t)
	r.options = "timeout 3s"
	rest := make(chan struct{})
	up := upstream.New(t, upstream.Chat(hermes.Says("hi"), hermes.Says("there"), hermes.Waits(rest), hermes.Says("again")))
	all, _ := r.replicas(t, up, 2)
	a, b := address(all[0].Base), address(all[1].Base)
	road := newRelay(t, a)
	c, _ := near(t, road.Addr, "--header-up", "Host: replicas.example")
	moved := c.Chat("Authorization", credential)
	frame(t, moved)
	road.move(b)
	close(rest)
	if got := moved.All(); strings.Count(got, "there") != 1 || strings.Count(got, "again") != 1 || !strings.Contains(got, "[DONE]") || strings.Contains(got, "error") {
		t.Errorf("who moves has\n%s", got)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// TestNextUpstream has a request go to the next site if the first one cannot be reached, with its body.
func TestNextUpstream(t *testing.T) {
	up := upstream.New(t, hello)
	base, _ := run(t, up, "", "hermes_resume\n\thermes")
	listen := harness.FreePort(t)
	sidecar.RunCaddyfile(t, t.TempDir(), beside(listen, harness.FreePort(t)+" "+address(base), "header_up Host {upstream_hostport}", "lb_policy first", "lb_try_duration 10s", "fail_duration 1m", "transport hermes_resume"))
	r := client.New(t, "http://"+listen).Chat()
	if got := r.All(); r.Header.Get(stream) == "" || !strings.Contains(got, " world") || !strings.Contains(got, "[DONE]") {
		t.Errorf("%s\n%s", r.Status, got)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// TestBadRoadOverTLS breaks connections of HTTP/2 to a site that compresses.
func TestBadRoadOverTLS(t *testing.T) {
	recordings := hermes.Recordings(t, func(r hermes.Recording) bool { return hermes.Chats(r) && len(r.Body) < 8<<10 })
	up := upstream.New(t, upstream.Library(recordings, upstream.ByFrame).Play)
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	sidecar.RunCaddyfile(t, t.TempDir(), site("https://"+listen, "admin off", "tls "+dir+"/cert.pem "+dir+"/key.pem\n\tencode\n\thermes_resume\n\thermes {\n\t\tkeepalive off\n\t\tparallel_window 1h\n\t}\n\treverse_proxy "+up.Addr))
	direct := client.NewTLS(t, listen, listen, pool)
	road := badRoad(t, listen, 3, 4<<10) // which is more than the handshake takes: a site that is not reached is an error
	c, _ := near(t, "https://"+road.Addr, "--insecure", "--header-up", "Host: "+listen, "--keepalive", "off", "--parallel-window", "1h")
	for i, r := range recordings {
		if i%7 != 0 {
			continue
		}
		name := r.String()
		want := throughTwo(direct.Play(name, key, name).All())
		if got := throughTwo(c.Play(name, key, name).All()); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestRequestsThatComeInPieces reach the site whole, whether they ask for a stream or not.
func TestRequestsThatComeInPieces(t *testing.T) {
	up := upstream.New(t, hello)
	base, _ := run(t, up, "", "hermes_resume\n\thermes")
	c, _ := near(t, address(base), "--change-host-header")
	for body, kept := range map[string]bool{`{"stream":true,"messages":[]}`: true, `{"messages":[]}`: false} {
		for _, chunked := range []bool{false, true} {
			for _, expect := range []string{"", "100-continue"} {
				r := c.Send(http.MethodPost, "/v1/chat/completions", client.Body(body, chunked), "Expect", expect)
				if r.StatusCode != http.StatusOK || (r.Header.Get(stream) != "") != kept {
					t.Errorf("%s, chunked %v, expect %q: %s %v", body, chunked, expect, r.Status, r.Header)
				}
				r.All()
			}
		}
	}
}
