package resume

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// relay is a load balancer in front of a site. It cuts connections after idle without a byte of an
// answer, if that is not 0.
type relay struct {
	*harness.Listener
	idle time.Duration
	cuts atomic.Int64

	mu   sync.Mutex
	to   string // the address of the site
	open []net.Conn
}

func newRelay(t *testing.T, to string, idle time.Duration) *relay {
	l := &relay{to: to, idle: idle}
	l.Listener = harness.Listen(t, l.serve)
	return l
}

// move has connections go to another address from now on, and cuts the others.
func (l *relay) move(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

func (l *relay) serve(_ context.Context, c net.Conn) {
	l.mu.Lock()
	site, err := net.Dial("tcp", l.to)
	if err == nil {
		l.open = append(l.open, c, site)
	}
	l.mu.Unlock()
	if err != nil {
		return
	}
	defer site.Close()
	go func() {
		_, _ = io.Copy(site, c)
		_ = site.Close()
	}()
	for b := make([]byte, 32<<10); ; {
		if l.idle > 0 {
			_ = site.SetReadDeadline(time.Now().Add(l.idle))
		}
		n, err := site.Read(b)
		if _, werr := c.Write(b[:n]); err != nil || werr != nil {
			l.cuts.Add(1)
			return
		}
	}
}

// address returns the host and port of a URL.
func address(base string) string { return strings.TrimPrefix(base, "http://") }

// beside returns a Caddyfile of a sidecar beside the client, for upstreams, with lines of reverse_proxy.
func beside(listen, upstreams string, lines ...string) string {
	return "{\n\tadmin off\n\tauto_https off\n}\n" + sidecar.OnLoopback(listen) + "hermes\nreverse_proxy " + upstreams + " {\n" + strings.Join(lines, "\n") + "\n}\n}\n"
}

// TestIdleCut has a load balancer cut connections that are silent for a second, while the agent works.
// Clients see nothing of it.
func TestIdleCut(t *testing.T) {
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("Hello")
		x.Pause(4 * time.Second)
		x.Frame(hermes.Delta("content", " world"))
		x.Finish()
	})
	base, _ := run(t, up, "", "hermes_resume\n\thermes {\n\t\tkeepalive off\n\t}")
	road := newRelay(t, address(base), time.Second)
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	sidecar.RunCaddyfile(t, t.TempDir(), site("https://"+listen, "admin off", "tls "+dir+"/cert.pem "+dir+"/key.pem\n\thermes\n\treverse_proxy "+
		road.Addr+" {\n\t\theader_up Host {upstream_hostport}\n\t\ttransport hermes_resume\n\t}"))
	all := client.Protocols(t, pool)
	var readers sync.WaitGroup
	for protocol, transport := range all {
		readers.Go(func() {
			r, err := client.Over(t, transport, "https://"+listen).Try("/v1/chat/completions")
			if err != nil {
				t.Errorf("%s: %v", protocol, err)
				return
			}
			got := r.All()
			if r.Proto != protocol || strings.Count(got, "Hello") != 1 || strings.Count(got, " world") != 1 || !strings.Contains(got, "[DONE]") || strings.Contains(got, "error") {
				t.Errorf("%s: %s got\n%s", protocol, r.Proto, got)
			}
		})
	}
	readers.Wait()
	if cuts := road.cuts.Load(); cuts < int64(len(all)) || len(up.Requests()) != len(all) {
		t.Errorf("%d cuts, and upstream was asked %d times", cuts, len(up.Requests()))
	}
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
	road := newRelay(t, a, 0)
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
