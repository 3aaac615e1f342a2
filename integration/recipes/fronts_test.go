package recipes

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Behind nginx all arrives as it leaves, event by event.
func TestRecipeNginx(t *testing.T) {
	scripts, gates := frontScripts(t)
	up, f := upstream.New(t, scripts.Play), newFront(t)
	b := newBehind(t, up, "10s")
	checkFront(t, up, gates, b, f.nginx(t, recipeOf(t, "nginx").With("127.0.0.1:8643", b.listen)))
}

// What the page says of buffering and of compression.
func TestRecipeNginxBuffering(t *testing.T) {
	scripts, gates := frontScripts(t)
	up := upstream.New(t, scripts.Play)
	b := newBehind(t, up, "10s")
	base := recipeOf(t, "nginx").With("127.0.0.1:8643", b.listen)

	t.Run("compressed", func(t *testing.T) {
		c := newFront(t).nginx(t, base.With("location / {", "gzip on;\n\tgzip_types text/event-stream;\n\tgzip_proxied any;\n\tlocation / {"))
		c.HTTP.Transport.(*http.Transport).DisableCompression = false
		r := c.Play("g0-v0.8.0/one_tool")
		if !r.Uncompressed {
			t.Error("nginx has not compressed")
		}
		r.CheckRepaired(t)
		gates.frameByFrame(t, c)
		<-up.Asked
	})
	// With HTTP/1.0 towards the sidecar, as nginx speaks by itself, a body has no
	// chunks, and what is buffered is the whole of it.
	older := base.With("proxy_http_version 1.1;", "").With("proxy_set_header Connection \"\";", "")
	t.Run("HTTP/1.0", func(t *testing.T) { gates.frameByFrame(t, newFront(t).nginx(t, older)) })
	ignoring := older.With("proxy_pass", "proxy_ignore_headers X-Accel-Buffering;\n\t\tproxy_pass")
	t.Run("HTTP/1.0, the header ignored", func(t *testing.T) {
		c := newFront(t).nginx(t, ignoring)
		first := make(chan struct{})
		go func() {
			if r, err := c.Try("/v1/chat/completions", "X-Play", "held"); err == nil {
				r.Next()
			}
			close(first)
		}()
		<-up.Asked
		select {
		case <-first:
			t.Error("nginx has not buffered: the page says that it does")
		case <-time.After(600 * time.Millisecond):
		}
		close(gates.hold)
		<-first
	})
	t.Run("HTTP/1.0, the header ignored, no buffering", func(t *testing.T) {
		gates.frameByFrame(t, newFront(t).nginx(t, ignoring.With("proxy_pass", "proxy_buffering off;\n\t\tproxy_pass")))
	})
}

// A keepalive below the timeout of nginx holds a silent stream, and without one it
// is cut.
func TestRecipeNginxTimeout(t *testing.T) {
	harness.Program(t, proxiesVariable, "nginx")
	checkKeepalive(t, func(t testing.TB, f *front, b *behind, timeout time.Duration) *client.Client {
		return f.nginx(t, recipeOf(t, "nginx").With("127.0.0.1:8643", b.listen).
			With("proxy_read_timeout 15m;", fmt.Sprintf("proxy_read_timeout %dms;", timeout.Milliseconds())))
	})
}

// Behind HAProxy all arrives as it leaves, event by event.
func TestRecipeHAProxy(t *testing.T) {
	scripts, gates := frontScripts(t)
	up, f := upstream.New(t, scripts.Play), newFront(t)
	b := newBehind(t, up, "10s")
	checkFront(t, up, gates, b, f.haproxy(t, recipeOf(t, "haproxy").With("127.0.0.1:8643", b.listen).With("port 8644", "port "+harness.Port(b.health))))
}

// HAProxy with the timeouts of a cloud's load balancer, made short.
func TestRecipeHAProxyTimeout(t *testing.T) {
	harness.Program(t, proxiesVariable, "haproxy")
	checkKeepalive(t, func(t testing.TB, f *front, b *behind, timeout time.Duration) *client.Client {
		ms := fmt.Sprintf("%dms", timeout.Milliseconds())
		return f.haproxy(t, recipeOf(t, "haproxy").With("127.0.0.1:8643", b.listen).With("port 8644", "port "+harness.Port(b.health)).
			With("timeout client 15m", "timeout client "+ms).With("timeout server 15m", "timeout server "+ms))
	})
}

// Behind Traefik all arrives as it leaves, event by event. Debian has no Traefik; it
// can be built of its Go module, with an empty page in the place of its own, in a
// quarter of an hour:
//
//	go mod download -json github.com/traefik/traefik/v3@v3.6.7    # names its Dir
//	cp -r "$Dir" traefik && chmod -R u+w traefik && cd traefik
//	mkdir -p webui/static && touch webui/static/index.html
//	go build -o /usr/local/bin/traefik ./cmd/traefik
func TestRecipeTraefik(t *testing.T) {
	scripts, gates := frontScripts(t)
	up, f := upstream.New(t, scripts.Play), newFront(t)
	b := newBehind(t, up, "10s")
	static := recipeOf(t, "traefik-static")
	dynamic := recipeOf(t, "traefik-dynamic").With("127.0.0.1:8643", b.listen).With("port: 8644", "port: "+harness.Port(b.health))
	start := func(t *testing.T, f *front, static, dynamic sidecar.Recipe) *client.Client {
		c := f.traefik(t, static, dynamic)
		// It listens before it has read its routers.
		for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
			if r, err := c.Try("/v1/models"); err == nil && r.Header.Get("Via") != "" {
				break
			}
		}
		return c
	}
	c := start(t, f, static, dynamic)
	checkFront(t, up, gates, b, c)
	if !survives(t, c, 1200*time.Millisecond) {
		t.Error("a stream that is silent is cut")
	}

	// What the page says of a timeout and of middlewares.
	t.Run("writeTimeout", func(t *testing.T) {
		c := start(t, newFront(t), static.With("websecure:\n", "websecure:\n    transport: {respondingTimeouts: {writeTimeout: 600ms}}\n"), dynamic)
		if survives(t, c, 1200*time.Millisecond) {
			t.Error("the stream survives: the page says otherwise")
		}
	})
	with := func(middleware string) sidecar.Recipe {
		return dynamic.With("service: sidecar\n", "service: sidecar\n      middlewares: [one]\n").With("  services:\n", "  middlewares:\n    one: {"+middleware+"}\n  services:\n")
	}
	t.Run("compress", func(t *testing.T) {
		c := start(t, newFront(t), static, with("compress: {}"))
		c.HTTP.Transport.(*http.Transport).DisableCompression = false
		gates.frameByFrame(t, c)
	})
	t.Run("buffering", func(t *testing.T) {
		c := start(t, newFront(t), static, with("buffering: {maxResponseBodyBytes: 1000000}"))
		begun := time.Now()
		if r, err := c.Try("/v1/chat/completions", "X-Play", "slow", "X-Pause", "1200ms"); err != nil {
			t.Error(err)
		} else if r.Next(); time.Since(begun) < time.Second {
			t.Error("the stream is not held back: the page says otherwise")
		}
	})
}
