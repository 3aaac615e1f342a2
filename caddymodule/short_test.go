//go:build !race

// The race detector has pools forget at random, so that what is allocated means nothing.
package caddymodule

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// sink is a client that takes everything.
type sink struct{ header http.Header }

func (s sink) Header() http.Header       { return s.header }
func (sink) WriteHeader(int)             {}
func (sink) Write(b []byte) (int, error) { return len(b), nil }
func (sink) FlushError() error           { return nil }

const (
	shortRequest = `{"messages": [{"role": "user", "content": "hello"}], "model": "hermes-agent", "stream": true}`
	shortHead    = `data: {"id": "chatcmpl-00000000000000000000000000001", "object": "chat.completion.chunk", "created": 1795164814, "model": "hermes-agent", "choices": [{"index": 0, "delta": `
)

// shortChunks are the frames of a stream with one chunk of text.
var shortChunks = [][]byte{
	[]byte(shortHead + `{"role": "assistant"}, "finish_reason": null}]}` + "\n\n"),
	[]byte(shortHead + `{"content": "hello, this is the answer to your question "}, "finish_reason": null}]}` + "\n\n"),
	[]byte(shortHead + `{}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}}` + "\n\ndata: [DONE]\n\n"),
}

// answerShort answers with a stream with one chunk of text, as reverse_proxy does.
var answerShort = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
	r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.reverse_proxy.upstream.hostport", "127.0.0.1:8642")
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(r.Context(), new(httptrace.ClientTrace)))
	defer cancel()
	_ = ctx.Done()
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	h := w.Header()
	delete(h, "Server")
	for _, name := range []string{"Via", "Cache-Control", "Date"} {
		h[name] = []string{name}
	}
	h["Content-Type"] = []string{"text/event-stream"}
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	for _, c := range shortChunks {
		if _, err := w.Write(c); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
	}
	_ = w.Header()
	return nil
})

// shortStream has serve answer a request with a short stream.
func shortStream(serve func(http.ResponseWriter, *http.Request) error) error {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(shortRequest))
	r.Header.Set("Content-Type", "application/json")
	client, leave := context.WithCancel(context.Background())
	defer leave()
	ctx := context.WithValue(client, caddy.ReplacerCtxKey, caddy.NewReplacer())
	ctx = context.WithValue(ctx, caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields))
	ctx = context.WithValue(ctx, caddyhttp.ServerCtxKey, new(caddyhttp.Server))
	ctx = caddyhttp.ContextWithIdleTimeouts(ctx, nil, new(caddyhttp.IdleTimeoutWriter))
	return serve(sink{http.Header{"Server": {"Caddy"}}}, r.WithContext(ctx))
}

// serveShort are what serves a short stream, without and with the handler.
func serveShort(h *Handler) map[string]func(http.ResponseWriter, *http.Request) error {
	return map[string]func(http.ResponseWriter, *http.Request) error{
		"bare":   answerShort,
		"hermes": func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, answerShort) },
	}
}

// TestShortStreamIsLight: what the handler allocates for a stream that ends at once. That
// is most of what such a stream costs (docs/performance.md).
func TestShortStreamIsLight(t *testing.T) {
	const mostObjects, mostBytes = 42, 4400
	h, cleanup := provision(t, "", t.TempDir())
	defer cleanup()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty pools
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))  // which each processor has of its own
	took := make(map[string][2]int)
	for name, serve := range serveShort(h) {
		const n = 100
		var before, after runtime.MemStats
		for i := range 2 * n { // the first half fills pools and maps
			if i == n {
				runtime.ReadMemStats(&before)
			}
			if err := shortStream(serve); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		took[name] = [2]int{int(after.Mallocs-before.Mallocs) / n, int(after.TotalAlloc-before.TotalAlloc) / n}
	}
	objects, bytes := took["hermes"][0]-took["bare"][0], took["hermes"][1]-took["bare"][1]
	t.Logf("%d objects of %d bytes", objects, bytes)
	if objects > mostObjects || bytes > mostBytes {
		t.Errorf("the handler allocates %d objects of %d bytes, want at most %d of %d", objects, bytes, mostObjects, mostBytes)
	}
}

// BenchmarkShortStream is what a short stream costs around its chunks.
func BenchmarkShortStream(b *testing.B) {
	var t testing.T
	h, cleanup := provision(&t, "", b.TempDir())
	defer cleanup()
	for name, serve := range serveShort(h) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := shortStream(serve); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
