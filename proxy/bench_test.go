package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// sink is a client that takes everything.
type sink struct{ header http.Header }

func (s sink) Header() http.Header       { return s.header }
func (sink) WriteHeader(int)             {}
func (sink) Write(b []byte) (int, error) { return len(b), nil }
func (sink) FlushError() error           { return nil }

// benchmarked has a Proxy with the default options serve a request with body by next.
func benchmarked(body string, next func(http.ResponseWriter, *http.Request) error) {
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	_ = benchProxy.Serve(sink{http.Header{}}, r, next)
}

var benchProxy = proxy.New(proxy.DefaultOptions())

// BenchmarkChunk is a write and a flush of an answer that has begun, as proxies do.
func BenchmarkChunk(b *testing.B) {
	for _, c := range []struct {
		name, media string
		chunks      []string
	}{
		{"alike", "text/event-stream", alike(1)},
		{"not alike", "text/event-stream", []string{beat, alike(1)[0]}},
		{"half", "text/event-stream", []string{role[:40], role[40:]}},
		{"passing", "text/plain", alike(1)},
	} {
		b.Run(c.name, func(b *testing.B) {
			var chunks [][]byte
			for _, chunk := range c.chunks {
				chunks = append(chunks, []byte(chunk))
			}
			b.ReportAllocs()
			benchmarked("", func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", c.media)
				flush := http.NewResponseController(w).Flush
				_, _ = w.Write([]byte(role))
				_ = flush()
				for i := 0; b.Loop(); i++ {
					_, _ = w.Write(chunks[i%len(chunks)])
					_ = flush()
				}
				return nil
			})
		})
	}
}

// BenchmarkExchange is a request with a short answer, and one with a history that
// is healed.
func BenchmarkExchange(b *testing.B) {
	for _, c := range []struct{ name, media, body, answer string }{
		{"passing", "text/plain", "", "hello"},
		{"whole", "application/json", clean, completion("Hello", someTokens)},
		{"stream", "text/event-stream", clean, role + fullStop + done},
		{"healed", "text/event-stream", polluted, role + fullStop + done},
	} {
		b.Run(c.name, func(b *testing.B) {
			answer := []byte(c.answer)
			b.ReportAllocs()
			for b.Loop() {
				benchmarked(c.body, func(w http.ResponseWriter, r *http.Request) error {
					_, _ = r.Body.Read(make([]byte, len(c.body)))
					w.Header().Set("Content-Type", c.media)
					_, _ = w.Write(answer)
					return nil
				})
			}
		})
	}
}
