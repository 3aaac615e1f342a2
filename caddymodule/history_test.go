package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const (
	pollutedHistory = `{"messages":[{"role":"assistant","content":"Secret.\n` + "`💻 ls`" + `\n\n\nDone.\n` + "`📖 x`" + `"}]}`
	healedHistory   = `{"messages":[{"role":"assistant","content":"Secret.\n\nDone."}]}`
)

// A connection that is refused costs nothing of the request: Caddy's
// reverse_proxy sends all of it to the next upstream.
func TestReverseProxyTriesAgainWithTheWholeRequest(t *testing.T) {
	large := strings.Replace(healedHistory, `{`, `{"pad":"`+strings.Repeat("x", 1<<20)+`",`, 1)
	got := make(chan string, 1)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		got <- fmt.Sprintln(r.ContentLength, err, string(b))
	}))
	t.Cleanup(up.Close)
	for name, proxyOptions := range map[string]string{"unbuffered": ``, "buffered": `"request_buffers":-1,`, "partly buffered": `"request_buffers":10,`} {
		for in, want := range map[string]string{pollutedHistory: healedHistory, healedHistory: healedHistory, large: large, "[1]": "[1]", "": ""} {
			for _, options := range []string{``, `,"max_request":1024`} {
				config := fmt.Sprintf(`{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"hermes"%s},
					{"handler":"reverse_proxy",%s"upstreams":[{"dial":%q},{"dial":%q}],
					"load_balancing":{"retries":1,"selection_policy":{"policy":"first"}},
					"health_checks":{"passive":{"fail_duration":"1m"}}}]}]}}}}}`, options, proxyOptions, caddytest.Refusing(t), up.Listener.Addr())
				ctx, server := provisionServer(t, []byte(config), t.TempDir())
				handlers := server.Routes[0].Handlers
				h, reverseProxy := handlers[0].(*Handler), handlers[1]
				h.observer.Logger = zap.NewNop()
				next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
					return reverseProxy.ServeHTTP(w, r, nil)
				})
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(in))
				r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, server)
				if err := h.ServeHTTP(w, r, next); err != nil || w.Code != http.StatusOK {
					t.Errorf("%s%s: status %d, %v", name, options, w.Code, err)
				} else if got, want := <-got, fmt.Sprintln(len(want), nil, want); got != want {
					t.Errorf("%s%s: upstream got %.200q, want %.200q", name, options, got, want)
				}
				leave(t, ctx)
			}
		}
	}
}

// The log says how many markers have been healed, and nothing of what was said.
func TestHealedHistoriesAreLogged(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	for body, want := range map[string]int{pollutedHistory: 1, healedHistory: 0} {
		h, cleanup := provision(t, "", t.TempDir())
		h.observer.Logger = zap.New(core)
		post(t, h, "/v1/chat/completions?key=secret", body, answer("127.0.0.1:8642", textFrame+usedStop))
		lines := logs.TakeAll()
		if len(lines) != want {
			t.Fatalf("%d lines, want %d", len(lines), want)
		}
		for _, line := range lines {
			fields := line.ContextMap()
			if line.Level != zap.InfoLevel || line.Message != "history healed" || len(fields) != 2 || fields["markers"] != int64(2) || fields["path"] != "/v1/chat/completions" {
				t.Errorf("%s %q %v", line.Level, line.Message, fields)
			}
		}
		cleanup()
	}
}
