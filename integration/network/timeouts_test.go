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
