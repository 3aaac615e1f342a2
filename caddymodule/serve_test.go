package caddymodule

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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
