package resume

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

const (
	key    = "Idempotency-Key"
	behind = "Last-Event-ID"
	stream = "X-Hermes-Stream"
)

// site is a Caddyfile whose site on the address has the directives; global options may be
// added.
func site(listen, global, directives string) string {
	return "{\n\tauto_https off\n\t" + global + "\n}\n" + listen + " {\n\tbind 127.0.0.1\n\t" + directives + "\n}\n"
}

// run starts a sidecar with the directives in front of up, and returns its URL.
func run(t *testing.T, up *upstream.Server, global, directives string) (base string, s *sidecar.Process) {
	t.Helper()
	listen := harness.FreePort(t)
	if !strings.Contains(global, "admin ") {
		global += "\n\tadmin off"
	}
	return "http://" + listen, sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, global, directives+"\n\treverse_proxy "+up.Addr))
}

// frame reads one frame, to its blank line; "" at the end. It does not decode it as
// package strict does, which knows no ids.
func frame(t *testing.T, r *client.Reply) string {
	t.Helper()
	var b strings.Builder
	for {
		line, err := r.In.ReadString('\n')
		b.WriteString(line)
		if err == io.EOF && b.Len() == 0 {
			return ""
		}
		if err != nil {
			t.Fatalf("instead of a frame: %q, %v", b.String(), err)
		}
		if line == "\n" {
			return b.String()
		}
	}
}

// TestCutsInEveryProtocol has clients leave at every event of recordings, and come back
// behind it: what they have then is what a client gets that stays. Keepalives are between,
// and upstream is asked once.
func TestCutsInEveryProtocol(t *testing.T) {
	recordings := hermes.Recordings(t, func(r hermes.Recording) bool { return hermes.Chats(r) && len(r.Body) < 8<<10 })
	scripts := upstream.Library(recordings, upstream.ByFrame)
	up := upstream.New(t, scripts.Play)
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	sidecar.RunCaddyfile(t, t.TempDir(), site("https://"+listen, "admin off",
		"tls "+dir+"/cert.pem "+dir+"/key.pem\n\thermes_resume\n\thermes {\n\t\tkeepalive 1ms\n\t}\n\treverse_proxy "+up.Addr))
	random := rand.New(rand.NewPCG(5, 6))
	asked := 0
	for protocol, transport := range client.Protocols(t, pool) {
		t.Run(protocol, func(t *testing.T) {
			c := client.Over(t, transport, "https://"+listen)
			for i, r := range recordings {
				if i%3 != 0 && testing.Short() {
					continue
				}
				name := r.String()
				asked++
				first := c.Play(name, key, protocol+name)
				if first.Proto != protocol {
					t.Fatalf("spoken is %s", first.Proto)
				}
				id := first.Header.Get(stream)
				if id == "" {
					t.Fatalf("%s: no id", name)
				}
				// The client leaves behind each event, or behind some.
				got, since := "", "" // since the last event: comments, which come again
				live, n := first, 0
				for {
					e := frame(t, live)
					if e == "" {
						break
					}
					since += e
					if strings.Contains(e, "id: "+id+"/") {
						got, since = got+since, ""
						n++
					}
					if random.IntN(2) == 0 && !strings.Contains(e, "[DONE]") {
						live.Leave()
						since = ""
						live = c.Chat(behind, fmt.Sprintf("%s/%d", id, n))
						if live.StatusCode != http.StatusOK {
							t.Fatalf("%s: %s", name, live.Status)
						}
					}
				}
				again := c.Play(name, key, protocol+name)
				if again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get(stream) != id {
					t.Errorf("%s: header %v", name, again.Header)
				}
				if whole := again.All(); got+since != whole {
					t.Fatalf("%s: with cuts it is\n%s\nwant\n%s", name, got+since, whole)
				}
			}
		})
	}
	if n := len(up.Requests()); n != asked {
		t.Errorf("upstream was asked %d times, want %d", n, asked)
	}
}

// held is a script that sends a text, waits, and finishes.
func held(rest <-chan struct{}) upstream.Script {
	return func(x *upstream.Exchange) {
		x.Begin("Hello")
		if x.Wait(rest) {
			x.Frame(hermes.Delta("content", " world"))
			x.Finish()
		}
	}
}

// reload loads a Caddyfile.
func reload(t *testing.T, admin, text string, s *sidecar.Process) {
	t.Helper()
	res, err := http.Post("http://"+admin+"/load", "text/caddyfile", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("reload: %s\n%s", res.Status, s.Log)
	}
}

// TestLeaveAndReload has a stream go on without its client across reloads, also one by
// which the directive goes for a while.
func TestLeaveAndReload(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, held(rest))
	admin, listen := harness.FreePort(t), harness.FreePort(t)
	config := func(resume string) string {
		return site("http://"+listen, "admin "+admin, resume+"\n\thermes\n\treverse_proxy "+up.Addr)
	}
	s := sidecar.RunCaddyfile(t, t.TempDir(), config("hermes_resume"))
	c := client.New(t, "http://"+listen)
	c.Reloading = true
	first := c.Chat(key, "k")
	id := first.Header.Get(stream)
	got := frame(t, first) + frame(t, first)
	first.Leave()
	reload(t, admin, config("hermes_resume {\n\t\tkeep 1h\n\t}"), s)
	reload(t, admin, config("header X-Nothing 1"), s)
	reload(t, admin, config("hermes_resume"), s)
	close(rest)
	live := c.Chat(behind, id+"/2")
	got += live.All()
	if whole := c.Chat(key, "k").All(); got != whole || !strings.Contains(got, " world") || !strings.Contains(got, "[DONE]") {
		t.Errorf("got\n%s\nwant\n%s", got, whole)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// TestShutdown ends streams as hermes does, those that nobody listens to as well: the
// process waits until it has.
func TestShutdown(t *testing.T) {
	for name, hermes := range map[string]string{
		"hermes behind it":  "hermes {\n\t\tdrain_timeout 1s\n\t}",
		"nothing behind it": "",
	} {
		t.Run(name, func(t *testing.T) {
			up := upstream.New(t, held(nil))
			base, s := run(t, up, "grace_period 3s", "hermes_resume\n\t"+hermes)
			c := client.New(t, base)
			left := c.Chat(key, "left")
			frame(t, left)
			left.Leave()
			stays := c.Chat(key, "stays")
			frame(t, stays)
			s.Terminate()
			if rest := stays.All(); !strings.Contains(rest, `"code":"shutting_down"`) || !strings.HasSuffix(rest, "data: [DONE]\nid: "+stays.Header.Get(stream)+"/5\n\n") {
				t.Errorf("the end is\n%s", rest)
			}
			s.Exit()
			if n := len(up.Requests()); n != 2 {
				t.Errorf("upstream was asked %d times", n)
			}
		})
	}
}

// TestUpstreamIsLeft when nobody comes back in time, when a client ends the stream, and at
// once when the request did not ask for more.
func TestUpstreamIsLeft(t *testing.T) {
	gone := make(chan string, 10)
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("Hello")
		x.Silence()
		gone <- x.Req.Header.Get("X-Name")
	})
	base, _ := run(t, up, "", "hermes_resume {\n\t\tdetach 50ms\n\t}\n\thermes {\n\t\tkeepalive off\n\t\tidle_timeout off\n\t}")
	c := client.New(t, base)
	for name, header := range map[string][]string{
		"expired": {key, "k"}, "did not ask": nil, "0s": {"X-Hermes-Detach", "0s"},
	} {
		r := c.Chat(append(header, "X-Name", name)...)
		frame(t, r)
		r.Leave()
		if got := <-gone; got != name {
			t.Errorf("%s was left, want %s", got, name)
		}
	}
	r := c.Chat(key, "deleted", "X-Name", "deleted")
	frame(t, r)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, base+"/v1/chat/completions/"+r.Header.Get(stream), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatalf("%v, %v", res, err)
	}
	res.Body.Close()
	if got := <-gone; got != "deleted" {
		t.Errorf("%s was left", got)
	}
	if rest := r.All(); !strings.Contains(rest, `"code":"upstream_aborted"`) || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the end is\n%s", rest)
	}
}
