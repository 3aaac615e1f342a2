package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// beat sends a comment every d, until the sidecar leaves and at most n times.
func beat(x *exchange, n int, d time.Duration) {
	for range n {
		x.frame(": keepalive")
		x.pause(d)
	}
}

// atLeast returns a function that wants at least d to have passed since. How much
// more it is, the machine decides.
func atLeast(t testing.TB, d time.Duration) func() {
	began := time.Now()
	return func() {
		t.Helper()
		if took := time.Since(began); took < d {
			t.Errorf("it took %v, want %v", took, d)
		}
	}
}

func TestFirstByteTimeout(t *testing.T) {
	up := newUpstream(t, router{
		"no header": (*exchange).silence,
		"no body":   func(x *exchange) { x.events(); x.silence() },
	}.play)
	c := newClient(t, first(serve(t, up, options{"first_byte_timeout": "100ms", "keepalive": 0})))
	for _, name := range []string{"no header", "no body"} {
		t.Run(name, func(t *testing.T) {
			defer atLeast(t, 100*time.Millisecond)()
			if e := checkJSON(t, c.of(t).play(name), http.StatusGatewayTimeout, up.addr); e.Code != "upstream_timeout" {
				t.Errorf("code %q", e.Code)
			}
		})
	}
}

// After the first byte first_byte_timeout is over.
func TestFirstByteTimeoutIsForTheFirstByte(t *testing.T) {
	atAnyPace(t, 150*time.Millisecond, func(t testing.TB, d time.Duration) {
		c := newClient(t, first(serve(t, newUpstream(t, func(x *exchange) {
			x.events()
			x.frame(role)
			x.pause(2 * d)
			x.frame(delta("content", "hi"))
			x.finish()
		}), options{"first_byte_timeout": d.String()})))
		c.chat().answer().checkGood(t)
	})
}

func TestIdleTimeout(t *testing.T) {
	for _, keepalive := range []string{"0s", "30ms"} {
		t.Run("keepalive "+keepalive, func(t *testing.T) {
			atAnyPace(t, 250*time.Millisecond, func(t testing.TB, d time.Duration) {
				up := newUpstream(t, router{
					"mid-stream":     func(x *exchange) { x.events(); x.frame(role); x.frame(delta("content", "hi")); x.silence() },
					"inside a frame": func(x *exchange) { x.events(); x.frame(role); x.chunk([]byte(role[:50])); x.silence() },
					"comments are bytes": func(x *exchange) {
						x.events()
						x.frame(role)
						x.frame(delta("content", "hi"))
						beat(x, 30, d/12)
						x.finish()
					},
				}.play)
				c := newClient(t, first(serve(t, up, options{"idle_timeout": d.String(), "keepalive": keepalive})))
				for _, name := range []string{"mid-stream", "inside a frame"} {
					in := atLeast(t, d)
					c.play(name).answer().checkError(t, "upstream_timeout")
					in()
				}
				c.play("comments are bytes").answer().checkGood(t)
			})
		})
	}
	t.Run("before the first frame", func(t *testing.T) {
		up := newUpstream(t, func(x *exchange) { x.events(); x.silence() })
		c := newClient(t, first(serve(t, up, options{"idle_timeout": "250ms", "keepalive": 0})))
		checkJSON(t, c.chat(), http.StatusGatewayTimeout, up.addr)
	})
}

// Comments do not count for stall_timeout, nor does a header; data does.
func TestStallTimeout(t *testing.T) {
	for name, play := range map[string]func(x *exchange, d time.Duration){
		"comments alone": func(x *exchange, d time.Duration) { beat(x, 10000, d/12) },
		"silence":        func(x *exchange, d time.Duration) { x.silence() },
		"data": func(x *exchange, d time.Duration) {
			for range 30 {
				x.frame(delta("content", "a"))
				x.pause(d / 12)
			}
			x.finish()
		},
	} {
		t.Run(name, func(t *testing.T) {
			atAnyPace(t, 250*time.Millisecond, func(t testing.TB, d time.Duration) {
				c := newClient(t, first(serve(t, newUpstream(t, func(x *exchange) {
					x.events()
					x.frame(role)
					x.frame(delta("content", "hi"))
					play(x, d)
				}), options{"stall_timeout": d.String()})))
				enough := atLeast(t, d)
				a := c.chat().answer()
				enough()
				if name == "data" {
					a.checkGood(t)
				} else {
					a.checkError(t, "upstream_timeout")
				}
			})
		})
	}
	for name, play := range map[string]script{
		"no header": (*exchange).silence,
		"no body":   func(x *exchange) { x.events(); x.silence() },
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, play)
			c := newClient(t, first(serve(t, up, options{"stall_timeout": "250ms"})))
			enough := atLeast(t, 250*time.Millisecond)
			checkJSON(t, c.chat(), http.StatusGatewayTimeout, up.addr)
			enough()
		})
	}
}

// A timeout leaves upstream. Nothing else would, before patience ends.
func TestTimeoutCancelsUpstream(t *testing.T) {
	atAnyPace(t, 100*time.Millisecond, func(t testing.TB, d time.Duration) {
		gone := make(chan struct{})
		c := newClient(t, first(serve(t, newUpstream(t, func(x *exchange) {
			x.events()
			x.frame(role)
			x.silence()
			close(gone)
		}), options{"idle_timeout": d.String(), "keepalive": 0})))
		c.chat().answer().checkError(t, "upstream_timeout")
		select {
		case <-gone:
		case <-time.After(patience / 2):
			t.Error("upstream's connection is still open behind the timeout")
		}
	})
}

// In a silence the client gets chunks of the stream's own envelope, or comments.
func TestKeepalive(t *testing.T) {
	rest, sent := make(chan struct{}, 10), make(chan time.Time, 10)
	up := newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(role)
		sent <- time.Now()
		x.frame(delta("content", "hi"))
		select {
		case <-rest:
		case <-x.gone:
		}
		x.finish()
	})
	for _, form := range []string{"chunk", "comment"} {
		t.Run(form, func(t *testing.T) {
			r := newClient(t, first(serve(t, up, options{"keepalive": "100ms", "keepalive_form": form}))).chat()
			last := r.frame()
			for !strings.Contains(last.raw, `"hi"`) { // a busy machine may need a keepalive before
				last = r.frame()
			}
			began := <-sent
			for i := range 3 {
				e := r.frame()
				if form == "comment" {
					if e.raw != ": keepalive\n\n" {
						t.Fatalf("keepalive %q", e.raw)
					}
					continue
				}
				if e.chunk == nil || e.name != "" || len(e.Choices) != 1 || strings.Contains(e.raw, "content") || e.finishes() ||
					e.ID != last.ID || e.Created != last.Created || e.Model != last.Model || e.Object != "chat.completion.chunk" {
					t.Fatalf("keepalive %d: %q", i, e.raw)
				}
			}
			if d := time.Since(began); d < 300*time.Millisecond {
				t.Errorf("three keepalives of 100 ms took %v", d)
			}
			rest <- struct{}{}
			a := decode(t, r.all())
			if a.finish != "stop" || !a.done || a.err != nil {
				t.Errorf("after the keepalives: %v", a.names())
			}
		})
	}
}

// While no chunk has come the keepalive is a comment; it commits the header.
func TestKeepaliveBeforeTheFirstChunk(t *testing.T) {
	rest := make(chan struct{})
	up := newUpstream(t, func(x *exchange) {
		x.events()
		x.wait(rest)
		x.reset()
	})
	r := newClient(t, first(serve(t, up, options{"keepalive": "50ms"}))).chat()
	if r.StatusCode != http.StatusOK {
		t.Fatal(r.Status)
	}
	if e := r.frame(); e.raw != ": keepalive\n\n" {
		t.Errorf("keepalive %q", e.raw)
	}
	close(rest)
	a := decode(t, r.all())
	for a.events[0].raw == ": keepalive\n\n" {
		a.events = a.events[1:]
	}
	if got := strings.Join(a.names(), " "); got != "error finish error done" || a.err.Code != "upstream_aborted" {
		t.Fatalf("frames %q, error %+v", got, a.err)
	}
	if a.last.ID == "" || a.last.Object != "chat.completion.chunk" || a.last.Created == 0 || a.last.Hermes == nil || a.last.Hermes.Partial {
		t.Errorf("finish chunk %q", a.events[1].raw)
	}
}

// No keepalive leaves before upstream's header: its status is not known yet.
func TestNoKeepaliveBeforeTheHeader(t *testing.T) {
	up := newUpstream(t, func(x *exchange) {
		x.pause(300 * time.Millisecond)
		asJSON("401 Unauthorized", `{"error":{"message":"Invalid API key"}}`)(x)
	})
	r := newClient(t, first(serve(t, up, options{"keepalive": "50ms"}))).chat()
	if body := r.all(); r.StatusCode != http.StatusUnauthorized || body != `{"error":{"message":"Invalid API key"}}` {
		t.Errorf("%s: %q", r.Status, body)
	}
}

// No keepalive gets into a frame that is on its way.
func TestNoKeepaliveInsideAFrame(t *testing.T) {
	big := delta("content", strings.Repeat("x", 8<<10))
	up := newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(role)
		x.chunk([]byte(big[:4<<10]))
		x.pause(300 * time.Millisecond)
		x.chunk([]byte(big[4<<10:] + "\n\n"))
		x.finish()
	})
	body := newClient(t, first(serve(t, up, options{"keepalive": "50ms", "max_frame": 1024}))).chat().all()
	if !strings.Contains(body, big+"\n\n") {
		t.Errorf("the frame is torn: %q", clip(body[len(role):]))
	}
}
