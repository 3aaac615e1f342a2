package caddymodule

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// openStreams opens n streams, all of which have seen some chunks and are idle, and
// returns what ends them.
func openStreams(h *Handler, n int) (end func()) {
	o := proxy.DefaultOptions()
	o.Observer = h
	p := proxy.New(o)
	var ready, ended sync.WaitGroup
	leave := make(chan struct{})
	for range n {
		ready.Add(1)
		ended.Go(func() {
			r := httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader([]byte(`{"stream": true, "messages": []}`)))
			r.Header.Set("Content-Type", "application/json")
			_ = p.Serve(sink{http.Header{}}, r, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				for range 20 {
					_, _ = w.Write([]byte(textFrame))
				}
				ready.Done()
				<-leave
				return nil
			})
		})
	}
	ready.Wait()
	return func() {
		close(leave)
		ended.Wait()
	}
}

// BenchmarkOpenStream is what an open stream takes of the heap, the goroutine's
// request of the test's own included.
func BenchmarkOpenStream(b *testing.B) {
	const n = 2000
	h := &Handler{shared: newShared(newRecords())}
	for b.Loop() {
		var before, after runtime.MemStats
		openStreams(h, n)() // fills pools and maps
		runtime.GC()
		runtime.ReadMemStats(&before)
		end := openStreams(h, n)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/stream")
		end()
	}
}
