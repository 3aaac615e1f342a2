package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// beat sends a comment every 20 ms, as long as the sidecar listens and at most
// n times.
func (x *exchange) beat(n int) {
	for range n {
		x.frame(": keepalive")
		x.pause(20 * time.Millisecond)
	}
}

// within returns a function that wants at least d, and not much more, to have
// passed since.
func within(t *testing.T, d time.Duration) func() {
	began := time.Now()
	return func() {
		t.Helper()
		if took := time.Since(began); took < d || took > d+3*time.Second {
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
			defer within(t, 100*time.Millisecond)()
			if e := checkJSON(t, c.of(t).play(name), http.StatusGatewayTimeout, up.addr); e.Code != "upstream_timeout" {
				t.Errorf("code %q", e.Code)
			}
		})
	}
}

// After the first byte first_byte_timeout is over.
func TestFirstByteTimeoutIsForTheFirstByte(t *testing.T) {
	c := newClient(t, first(serve(t, newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(role)
		x.pause(300 * time.Millisecond)
		x.frame(delta("content", "hi"))
		x.frame(finish("stop", 5))
		x.frame("data: [DONE]")
		x.end()
	}), options{"first_byte_timeout": "150ms"})))
	c.chat().answer().checkGood(t)
}

func TestIdleTimeout(t *testing.T) {
	up := newUpstream(t, router{
		"before the first frame": func(x *exchange) { x.events(); x.silence() },
		"mid-stream":             func(x *exchange) { x.events(); x.frame(role); x.frame(delta("content", "hi")); x.silence() },
		"inside a frame":         func(x *exchange) { x.events(); x.frame(role); x.chunk([]byte(role[:50])); x.silence() },
		"comments are bytes": func(x *exchange) {
			x.events()
			x.frame(role)
			x.frame(delta("content", "hi"))
			x.beat(30)
			x.frame(finish("stop", 5))
			x.frame("data: [DONE]")
			x.end()
		},
	}.play)
	for _, keepalive := range []string{"0s", "30ms"} {
		c := newClient(t, first(serve(t, up, options{"idle_timeout": "250ms", "keepalive": keepalive})))
		t.Run("keepalive "+keepalive, func(t *testing.T) {
			for _, name := range []string{"mid-stream", "inside a frame"} {
				in := within(t, 250*time.Millisecond)
				c.of(t).play(name).answer().checkError(t, "upstream_timeout")
				in()
			}
			c.of(t).play("comments are bytes").answer().checkGood(t)
		})
		if keepalive == "0s" {
			t.Run("before the first frame", func(t *testing.T) {
				checkJSON(t, c.of(t).play("before the first frame"), http.StatusGatewayTimeout, up.addr)
			})
		}
	}
}

// Comments do not count for stall_timeout, nor does a header; data does.
func TestStallTimeout(t *testing.T) {
	up := newUpstream(t, router{
		"no header":      (*exchange).silence,
		"no body":        func(x *exchange) { x.events(); x.silence() },
		"comments alone": func(x *exchange) { x.events(); x.frame(role); x.frame(delta("content", "hi")); x.beat(1000) },
		"silence":        func(x *exchange) { x.events(); x.frame(role); x.silence() },
		"data": func(x *exchange) {
			x.events()
			x.frame(role)
			for range 30 {
				x.frame(delta("content", "a"))
				x.pause(20 * time.Millisecond)
			}
			x.frame(finish("stop", 5))
			x.frame("data: [DONE]")
			x.end()
		},
	}.play)
	c := newClient(t, first(serve(t, up, options{"stall_timeout": "250ms"})))
	for _, name := range []string{"comments alone", "silence"} {
		t.Run(name, func(t *testing.T) {
			defer within(t, 250*time.Millisecond)()
			c.of(t).play(name).answer().checkError(t, "upstream_timeout")
		})
	}
	for _, name := range []string{"no header", "no body"} {
		t.Run(name, func(t *testing.T) {
			defer within(t, 250*time.Millisecond)()
			checkJSON(t, c.of(t).play(name), http.StatusGatewayTimeout, up.addr)
		})
	}
	t.Run("data", func(t *testing.T) { c.of(t).play("data").answer().checkGood(t) })
}

// A timeout leaves upstream at once.
func TestTimeoutCancelsUpstream(t *testing.T) {
	gone := make(chan struct{})
	c := newClient(t, first(serve(t, newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(role)
		x.silence()
		close(gone)
	}), options{"idle_timeout": "100ms"})))
	c.chat().answer().checkError(t, "upstream_timeout")
	select {
	case <-gone:
	case <-time.After(time.Second):
		t.Error("upstream's connection is still open a second after the timeout")
	}
}

// In a silence the client gets chunks of the stream's own envelope, or comments.
func TestKeepalive(t *testing.T) {
	rest := make(chan struct{}, 10)
	up := newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(role)
		x.frame(delta("content", "hi"))
		select {
		case <-rest:
		case <-x.gone:
		}
		x.frame(finish("stop", 5))
		x.frame("data: [DONE]")
		x.end()
	})
	for _, form := range []string{"chunk", "comment"} {
		t.Run(form, func(t *testing.T) {
			r := newClient(t, first(serve(t, up, options{"keepalive": "100ms", "keepalive_form": form}))).chat()
			r.frame()
			last, began := r.frame(), time.Now()
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
			if d := time.Since(began); d < 200*time.Millisecond || d > 2*time.Second {
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
		x.frame(finish("stop", 5))
		x.frame("data: [DONE]")
		x.end()
	})
	body := newClient(t, first(serve(t, up, options{"keepalive": "50ms", "max_frame": 1024}))).chat().all()
	if !strings.Contains(body, big+"\n\n") {
		t.Errorf("the frame is torn: %q", clip(body[len(role):]))
	}
}
