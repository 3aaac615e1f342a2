package resume_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
)

// sink is a writer that keeps nothing.
type sink struct{ h http.Header }

func (s sink) Header() http.Header       { return s.h }
func (sink) WriteHeader(int)             {}
func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) FlushError() error           { return nil }

// BenchmarkChunk is what a chunk of a stream costs, of as many streams at once as the
// name says: the caches have forgotten each of many.
func BenchmarkChunk(b *testing.B) {
	for _, log := range []bool{false, true} {
		name := "without"
		if log {
			name = "with a log"
		}
		b.Run(name, func(b *testing.B) {
			o := resume.DefaultOptions()
			o.Keep = 0
			p := resume.New(o)
			r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking))
			if log {
				r.Header.Set(key, "k")
			}
			c := []byte(strings.Repeat(chunk[:len(chunk)-2], 1) + "\n\n")
			b.ReportAllocs()
			_ = p.Serve(sink{http.Header{}}, r, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				for range b.N {
					_, _ = w.Write(c)
					_ = http.NewResponseController(w).Flush()
				}
				return nil
			})
		})
	}
}
