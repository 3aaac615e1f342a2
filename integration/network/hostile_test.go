package network

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// What an answer takes of memory is bounded, whatever upstream sends. Package rewrite tests each kind of frame.
func TestMemoryIsBounded(t *testing.T) {
	sidecar.NeedsMemory(t)
	const size, limit = 32 << 20, 12 << 20
	for name, c := range map[string]struct {
		begin func(x *upstream.Exchange)
		part  func(i int) string
	}{
		"a frame without end": {
			func(x *upstream.Exchange) { x.Begin(); x.Chunk([]byte("data: ")) },
			func(int) string { return strings.Repeat("x", 64<<10) },
		},
		"tools without end": {
			func(x *upstream.Exchange) { x.Begin() },
			func(i int) string {
				return strings.Join(hermes.Running("terminal", "call_"+strconv.Itoa(i)), "\n") + "\n\n"
			},
		},
		"an answer without end": {
			func(x *upstream.Exchange) {
				x.Header("200 OK", "Content-Type: application/json", "Transfer-Encoding: chunked")
				x.Chunk([]byte(`{"object": "chat.completion", "choices": [{"message": {"content": "`))
			},
			func(int) string { return strings.Repeat("x", 64<<10) },
		},
		"a compressed stream without end": {
			func(x *upstream.Exchange) { x.Events("Content-Encoding: gzip") },
			func(int) string { return strings.Repeat("\x00", 64<<10) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			base, s := sidecar.ServeFrugally(t, upstream.New(t, func(x *upstream.Exchange) {
				c.begin(x)
				var b strings.Builder
				for i, n := 0, 0; n < size; i++ {
					b.WriteString(c.part(i))
					if b.Len() >= 64<<10 {
						x.Chunk([]byte(b.String()))
						n += b.Len()
						b.Reset()
					}
				}
				x.End()
			}), sidecar.Still)
			check := sidecar.LimitGrowth(t, s, limit)
			// The frames are too many to be held against a schema.
			res, err := client.New(t, base).HTTP.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(client.Question))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if n, err := io.Copy(io.Discard, res.Body); n < size || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			check(fmt.Sprintf("%d MiB of upstream's", size>>20))
		})
	}
}

// A header that is too long is refused before anybody is asked.
func TestLongRequestHeadersAreRefused(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/plain"), upstream.ByFrame))
	base, _ := sidecar.Serve(t, up, nil)
	conn := client.Dial(t, base)
	go fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v, %v", res, err)
	}
	if n := len(up.Requests()); n != 0 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// A client that does not read what it has asked for stops upstream, takes no
// memory, and is cut after write_idle; upstream's request ends with it.
func TestClientThatDoesNotReadIsCut(t *testing.T) {
	sidecar.NeedsMemory(t)
	const limit = 24 << 20
	left := make(chan int, 1)
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin()
		big := []byte(hermes.Delta("content", strings.Repeat("x", 64<<10)) + "\n\n")
		sent := 0
		for ; sent < 1<<30; sent += len(big) {
			if _, err := fmt.Fprintf(x.Conn, "%x\r\n%s\r\n", len(big), big); err != nil {
				break
			}
		}
		left <- sent
		x.Fin()
	})
	listen := harness.FreePort(t)
	d := sidecar.NewRecipe(t, "{\n\tservers {\n\t\ttimeouts {\n\t\t\twrite_idle 500ms\n\t\t}\n\t}\n}\n:"+harness.Port(listen)+" {\n\thermes\n\treverse_proxy "+up.Addr+"\n}\n").Caddy()
	check := sidecar.LimitGrowth(t, d.Process, limit)
	conn := client.Dial(t, "http://"+listen)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(client.Question), client.Question)
	select {
	case sent := <-left:
		if sent >= 1<<30 {
			t.Error("upstream was never stopped")
		}
		t.Logf("cut after %d MiB", sent>>20)
	case <-time.After(harness.Patience):
		t.Fatal("upstream's request goes on")
	}
	check("the answer")
}

// A header of upstream's that does not end is an error, before it fills the
// memory.
func TestEndlessHeadersOfUpstreamAreAnError(t *testing.T) {
	sidecar.NeedsMemory(t)
	const limit = 64 << 20
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
		block := strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 64)
		for range 4096 {
			if _, err := io.WriteString(x.Conn, block); err != nil {
				break
			}
		}
		x.Fin()
	})
	base, s := sidecar.ServeFrugally(t, up, nil)
	check := sidecar.LimitGrowth(t, s, limit)
	client.CheckJSON(t, client.New(t, base).Chat(), http.StatusBadGateway, up.Addr)
	check("the header")
}

// A client that leaves takes upstream's request with it, whatever it speaks, before the answer and in the middle of
// it. Nothing else would before patience ends: no keepalive finds out, and no timeout.
func TestClientGone(t *testing.T) {
	gone := make(chan struct{}, 1)
	up := upstream.New(t, func(x *upstream.Exchange) {
		if x.Req.Header.Get("X-Play") == "begins" {
			x.Begin("hi")
		}
		x.Silence()
		gone <- struct{}{}
	})
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: listen, Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"keepalive": 0, "idle_timeout": 0}}}})
	for protocol, transport := range client.Protocols(t, pool) {
		for _, begins := range []bool{false, true} {
			t.Run(fmt.Sprint(protocol, " begins ", begins), func(t *testing.T) {
				c := client.Over(t, transport, "https://"+listen)
				if begins {
					r := c.Play("begins")
					<-up.Asked
					r.Frame()
					r.Leave()
				} else {
					ctx, leave := context.WithTimeout(t.Context(), harness.Patience)
					go func() {
						<-up.Asked
						leave()
					}()
					req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/chat/completions", nil)
					if res, err := c.Do(req); err == nil {
						t.Errorf("an answer before the first byte: %s", res.Status)
						res.Body.Close()
					}
				}
				select {
				case <-gone:
				case <-time.After(harness.Patience / 2):
					t.Fatal("upstream was never left")
				}
			})
		}
	}
}
