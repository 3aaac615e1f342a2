package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// BenchmarkQueue measures a request with hermes alone, and one with hermes_queue in front and places
// free. integration/bench has the budget of the difference.
func BenchmarkQueue(b *testing.B) {
	const body = `{"model":"hermes-agent","messages":[{"role":"user","content":"hi"}]}`
	const answer = `{"handler":"static_response","headers":{"Content-Type":["application/json"]},"body":"{\"object\":\"chat.completion\",\"choices\":[]}"}`
	for name, handlers := range map[string]string{"alone": `{"handler":"hermes"}`, "free": `{"handler":"hermes_queue"},{"handler":"hermes"}`} {
		b.Run(name, func(b *testing.B) {
			config := `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[` + handlers + `,` + answer + `]}]}}}}}`
			ctx, server := provisionServer(b, []byte(config), b.TempDir())
			b.Cleanup(func() { leave(b, ctx) })
			next := caddyhttp.Handler(caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))
			for _, h := range slices.Backward(server.Routes[0].Handlers) {
				after := next
				next = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, after) })
			}
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
				w := httptest.NewRecorder()
				if err := next.ServeHTTP(w, caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, server)); err != nil || w.Code != http.StatusOK {
					b.Fatal(w.Code, err)
				}
			}
		})
	}
}
