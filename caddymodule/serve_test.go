package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// The answers of an upstream with text, one that reports its usage and one
// that reports none. Package integration replays real ones.
const (
	textFrame = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}` + "\n\n"
	usedStop  = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\ndata: [DONE]\n\n"
	zeroStop  = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}` + "\n\ndata: [DONE]\n\n"
)

// answer is a next handler that answers with an event stream, as reverse_proxy
// does for the upstream.
func answer(upstream, body string) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.reverse_proxy.upstream.hostport", upstream)
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := io.WriteString(w, body)
		return err
	}
}

// serve sends a chat completion through h to next and returns the answer.
func serve(t *testing.T, h *Handler, next caddyhttp.Handler) *httptest.ResponseRecorder {
	t.Helper()
	w, _ := post(t, h, "/v1/chat/completions", "{}", next)
	return w
}

// post sends a request through h to next, and returns the answer and the request's
// placeholders.
func post(t *testing.T, h *Handler, path, body string, next caddyhttp.Handler) (*httptest.ResponseRecorder, *caddy.Replacer) {
	t.Helper()
	w, repl := httptest.NewRecorder(), caddy.NewReplacer()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if err := h.ServeHTTP(w, r.WithContext(contextWith(r, repl)), next); err != nil {
		t.Errorf("error %v", err)
	}
	return w, repl
}

// TestEndsAreLogged, once: a stream's with its upstream, and an error of reverse_proxy's, which
// becomes JSON, with its reason.
func TestEndsAreLogged(t *testing.T) {
	failed := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		return fmt.Errorf("so: %w", caddyhttp.Error(http.StatusBadGateway, errors.New("connection refused")))
	})
	for _, c := range []struct {
		next   caddyhttp.Handler
		status int
		begins string
		want   map[string]any
	}{
		{failed, http.StatusBadGateway, `{"error":{`, map[string]any{"outcome": "upstream_aborted", "error": "connection refused"}},
		{answer("127.0.0.1:8642", textFrame), http.StatusOK, textFrame, map[string]any{
			"upstream": "127.0.0.1:8642", "outcome": "upstream_incomplete", "model": "hermes-agent",
		}},
	} {
		h, _ := provision(t, "", t.TempDir())
		core, logs := observer.New(zap.DebugLevel)
		h.observer.Logger = zap.New(core)
		if w := serve(t, h, c.next); w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.begins) {
			t.Errorf("status %d, body %s", w.Code, w.Body)
		}
		entries := logs.All()
		if len(entries) != 1 || entries[0].Level != zap.WarnLevel {
			t.Fatalf("logged %v, want one warning", entries)
		}
		for name, want := range c.want {
			if got := entries[0].ContextMap()[name]; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}
}
