package resume

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestKeysOfTheCaddyfile has clients that are told to send a header, below a path that is taken off.
func TestKeysOfTheCaddyfile(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, held(rest))
	listen := harness.FreePort(t)
	sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, "admin off",
		"handle_path /agent/* {\n\t\thermes_resume {\n\t\t\tkey {header.X-Chat-Id} body\n\t\t\talways runs sessions 10m\n\t\t}\n\t\thermes\n\t\treverse_proxy "+up.Addr+"\n\t}"))
	c := client.New(t, "http://"+listen+"/agent")
	asked := func(n int) {
		t.Helper()
		if got := len(up.Requests()); got != n {
			t.Errorf("upstream was asked %d times, want %d", got, n)
		}
	}
	first := c.Chat("X-Chat-Id", "1")
	at := first.Header.Get("Content-Location")
	if id := first.Header.Get(stream); id == "" || at != "/agent/v1/chat/completions/"+id {
		t.Fatalf("stream %q at %q", id, at)
	}
	frame(t, first)
	first.Leave()
	again := c.Chat("X-Chat-Id", "1")
	byID := client.New(t, "http://"+listen).Send(http.MethodGet, at, nil)
	close(rest)
	if got := again.All(); got != byID.All() || !strings.Contains(got, " world") || again.Header.Get(stream) != first.Header.Get(stream) {
		t.Errorf("the repeat gets\n%s", got)
	}
	asked(1)
	if r := client.New(t, "http://"+listen).Send(http.MethodGet, at, nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("a client has all of it: %s", r.Status)
	}
	c.Chat("X-Chat-Id", "1").All() // made again
	asked(2)
	if r := c.Chat(); r.Header.Get(stream) != "" || !strings.Contains(r.All(), " world") {
		t.Error("without the header there is a key")
	}
	asked(3)
	if r := c.Post("/api/sessions/s/chat/stream"); r.Header.Get(stream) == "" {
		t.Error("a session's chat does not ask")
	}
}
