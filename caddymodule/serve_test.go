package caddymodule

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader("{}"))
	r = r.WithContext(contextWith(r, caddy.NewReplacer()))
	if err := h.ServeHTTP(w, r, next); err != nil {
		t.Errorf("error %v", err)
	}
	return w
}

func TestShutdownReachesStreamsOfAnOldConfiguration(t *testing.T) {
	old, cleanOld := provision(t, "", t.TempDir())
	begun := make(chan struct{})
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, textFrame); err != nil {
			return err
		}
		close(begun)
		<-r.Context().Done() // upstream's request is ended by the shutdown
		return context.Cause(r.Context())
	})
	answered := make(chan *httptest.ResponseRecorder)
	go func() { answered <- serve(t, old, next) }()
	<-begun

	young, _ := provision(t, "", t.TempDir())
	cleanOld()
	d := &drain{
		streams: &young.shared.streams,
		timeout: 10 * time.Second,
		limit:   time.Millisecond,
		exiting: func() bool { return true },
		logger:  zap.NewNop(),
	}
	if err := d.Handle(context.Background(), caddy.Event{}); err != nil {
		t.Fatal(err)
	}
	got := (<-answered).Body.String()
	if !strings.Contains(got, `"code":"shutting_down"`) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("the stream ended with\n%s", got)
	}
}

func TestErrorOfReverseProxyBecomesJSON(t *testing.T) {
	h, _ := provision(t, "", t.TempDir())
	core, logs := observer.New(zap.DebugLevel)
	h.observer.Logger = zap.New(core)
	w := serve(t, h, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		return caddyhttp.Error(http.StatusBadGateway, errors.New("connection refused"))
	}))
	if w.Code != http.StatusBadGateway || !strings.HasPrefix(w.Body.String(), `{"error":{`) {
		t.Errorf("status %d, body %s", w.Code, w.Body)
	}
	entries := logs.All()
	if len(entries) != 1 || entries[0].Level != zap.WarnLevel {
		t.Fatalf("logged %v, want one warning", entries)
	}
	if msg, _ := entries[0].ContextMap()["error"].(string); !strings.Contains(msg, "connection refused") {
		t.Errorf("logged error %q, want the reason", msg)
	}
}

func TestEndOfAStreamIsLoggedWithItsUpstream(t *testing.T) {
	h, _ := provision(t, "", t.TempDir())
	core, logs := observer.New(zap.DebugLevel)
	h.observer.Logger = zap.New(core)
	serve(t, h, answer("127.0.0.1:8642", textFrame))
	entries := logs.All()
	if len(entries) != 1 || entries[0].Level != zap.WarnLevel {
		t.Fatalf("logged %v, want one warning", entries)
	}
	got := entries[0].ContextMap()
	if got["upstream"] != "127.0.0.1:8642" || got["outcome"] != "upstream_incomplete" || got["model"] != "hermes-agent" {
		t.Errorf("logged %v", got)
	}
}
