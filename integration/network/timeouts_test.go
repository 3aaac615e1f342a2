package network

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// beat sends a comment every d, until the sidecar leaves and at most n times.
func beat(x *upstream.Exchange, n int, d time.Duration) {
	for range n {
		x.Frame(": keepalive")
		x.Pause(d)
	}
}

// Before the first frame any timeout is a 504.
func TestFirstByteTimeout(t *testing.T) {
	up := upstream.New(t, upstream.Router{
		"no header": (*upstream.Exchange).Silence,
		"no body":   func(x *upstream.Exchange) { x.Events(); x.Silence() },
	}.Play)
	for _, timeout := range []string{"first_byte_timeout", "idle_timeout", "stall_timeout"} {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{timeout: "100ms", "keepalive": 0})))
		for _, name := range []string{"no header", "no body"} {
			t.Run(timeout+", "+name, func(t *testing.T) {
				defer harness.AtLeast(t, 100*time.Millisecond)()
				if e := client.CheckJSON(t, c.Of(t).Play(name), http.StatusGatewayTimeout, up.Addr); e.Code != "upstream_timeout" {
					t.Errorf("code %q", e.Code)
				}
			})
		}
	}
}

// After the first byte first_byte_timeout is over.
func TestFirstByteTimeoutIsForTheFirstByte(t *testing.T) {
	harness.AtAnyPace(t, 150*time.Millisecond, func(t testing.TB, d time.Duration) {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
			x.Begin()
			x.Pause(2 * d)
			x.Frame(hermes.Delta("content", "hi"))
			x.Finish()
		}), sidecar.Options{"first_byte_timeout": d.String()})))
		c.Chat().Answer().CheckGood(t)
	})
}

func TestIdleTimeout(t *testing.T) {
	for _, keepalive := range []string{"0s", "30ms"} {
		t.Run("keepalive "+keepalive, func(t *testing.T) {
			harness.AtAnyPace(t, 250*time.Millisecond, func(t testing.TB, d time.Duration) {
				up := upstream.New(t, upstream.Router{
					"mid-stream": func(x *upstream.Exchange) {
						x.Begin("hi")
						x.Silence()
					},
					"inside a frame": func(x *upstream.Exchange) {
						x.Begin()
						x.Chunk([]byte(hermes.Role[:50]))
						x.Silence()
					},
					"comments are bytes": func(x *upstream.Exchange) {
						x.Begin("hi")
						beat(x, 30, d/12)
						x.Finish()
					},
				}.Play)
				c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"idle_timeout": d.String(), "keepalive": keepalive})))
				for _, name := range []string{"mid-stream", "inside a frame"} {
					in := harness.AtLeast(t, d)
					c.Play(name).Answer().CheckError(t, "upstream_timeout")
					in()
				}
				c.Play("comments are bytes").Answer().CheckGood(t)
			})
		})
	}
}

// Comments do not count for stall_timeout, nor does a header; data does.
func TestStallTimeout(t *testing.T) {
	for name, play := range map[string]func(x *upstream.Exchange, d time.Duration){
		"comments alone": func(x *upstream.Exchange, d time.Duration) { beat(x, 10000, d/12) },
		"silence":        func(x *upstream.Exchange, d time.Duration) { x.Silence() },
		"data": func(x *upstream.Exchange, d time.Duration) {
			for range 30 {
				x.Frame(hermes.Delta("content", "a"))
				x.Pause(d / 12)
			}
			x.Finish()
		},
	} {
		t.Run(name, func(t *testing.T) {
			harness.AtAnyPace(t, 250*time.Millisecond, func(t testing.TB, d time.Duration) {
				c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
					x.Begin("hi")
					play(x, d)
				}), sidecar.Options{"stall_timeout": d.String()})))
				enough := harness.AtLeast(t, d)
				a := c.Chat().Answer()
				enough()
				if name == "data" {
					a.CheckGood(t)
				} else {
					a.CheckError(t, "upstream_timeout")
				}
			})
		})
	}
}

// A timeout leaves upstream. Nothing else would, before patience ends.
func TestTimeoutCancelsUpstream(t *testing.T) {
	harness.AtAnyPace(t, 100*time.Millisecond, func(t testing.TB, d time.Duration) {
		gone := make(chan struct{})
		c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
			x.Begin()
			x.Silence()
			close(gone)
		}), sidecar.Options{"idle_timeout": d.String(), "keepalive": 0})))
		c.Chat().Answer().CheckError(t, "upstream_timeout")
		select {
		case <-gone:
		case <-time.After(harness.Patience / 2):
			t.Error("upstream's connection is still open after the timeout")
		}
	})
}

// In a silence the client gets chunks of the stream's own envelope, or comments.
func TestKeepalive(t *testing.T) {
	rest, sent := make(chan struct{}, 10), make(chan time.Time, 10)
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin()
		sent <- time.Now()
		x.Frame(hermes.Delta("content", "hi"))
		select {
		case <-rest:
		case <-x.Gone:
		}
		x.Finish()
	})
	for _, form := range []string{"chunk", "comment"} {
		t.Run(form, func(t *testing.T) {
			r := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"keepalive": "100ms", "keepalive_form": form}))).Chat()
			last := r.Frame()
			for !strings.Contains(last.Raw, `"hi"`) { // a busy machine may need a keepalive before
				last = r.Frame()
			}
			began := <-sent
			for i := range 3 {
				e := r.Frame()
				if form == "comment" {
					if e.Raw != ": keepalive\n\n" {
						t.Fatalf("keepalive %q", e.Raw)
					}
					continue
				}
				if e.Chunk == nil || e.Name != "" || len(e.Choices) != 1 || strings.Contains(e.Raw, "content") || e.Finishes() ||
					e.ID != last.ID || e.Created != last.Created || e.Model != last.Model || e.Object != "chat.completion.chunk" {
					t.Fatalf("keepalive %d: %q", i, e.Raw)
				}
			}
			if d := time.Since(began); d < 300*time.Millisecond {
				t.Errorf("three keepalives of 100 ms took %v", d)
			}
			rest <- struct{}{}
			a := strict.Decode(t, r.All())
			if a.Finish != "stop" || !a.Done || a.Err != nil {
				t.Errorf("after the keepalives: %v", a.Names())
			}
		})
	}
}

// While no chunk has come the keepalive is a comment; it commits the header.
func TestKeepaliveBeforeTheFirstChunk(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		x.Wait(rest)
		x.Reset()
	})
	r := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"keepalive": "50ms"}))).Chat()
	if r.StatusCode != http.StatusOK {
		t.Fatal(r.Status)
	}
	if e := r.Frame(); e.Raw != ": keepalive\n\n" {
		t.Errorf("keepalive %q", e.Raw)
	}
	close(rest)
	a := strict.Decode(t, r.All())
	for a.Events[0].Raw == ": keepalive\n\n" {
		a.Events = a.Events[1:]
	}
	if got := strings.Join(a.Names(), " "); got != "error finish error done" || a.Err.Code != "upstream_aborted" {
		t.Fatalf("frames %q, error %+v", got, a.Err)
	}
	if a.Last.ID == "" || a.Last.Object != "chat.completion.chunk" || a.Last.Created == 0 || a.Last.Hermes == nil || a.Last.Hermes.Partial {
		t.Errorf("finish chunk %q", a.Events[1].Raw)
	}
}

// No keepalive leaves before upstream's header: its status is not known yet.
func TestNoKeepaliveBeforeTheHeader(t *testing.T) {
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Pause(300 * time.Millisecond)
		upstream.AsJSON("401 Unauthorized", `{"error":{"message":"Invalid API key"}}`)(x)
	})
	r := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"keepalive": "50ms"}))).Chat()
	if body := r.All(); r.StatusCode != http.StatusUnauthorized || body != `{"error":{"message":"Invalid API key"}}` {
		t.Errorf("%s: %q", r.Status, body)
	}
}

// No keepalive gets into a frame that is on its way.
func TestNoKeepaliveInsideAFrame(t *testing.T) {
	big := hermes.Delta("content", strings.Repeat("x", 8<<10))
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin()
		x.Chunk([]byte(big[:4<<10]))
		x.Pause(300 * time.Millisecond)
		x.Chunk([]byte(big[4<<10:] + "\n\n"))
		x.Finish()
	})
	body := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"keepalive": "50ms", "max_frame": 1024}))).Chat().All()
	if !strings.Contains(body, big+"\n\n") {
		t.Errorf("the frame is torn: %q", harness.Clip(body[len(hermes.Role):]))
	}
}
