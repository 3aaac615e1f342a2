package telemetry

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
func openStreams(h *Observer, n int) (end func()) {
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

// TestOpenStreamIsLight: all that an open stream takes of the heap because of us, and
// half as much for the request that the test makes of it. The floor takes 70 kB
// (docs/performance.md).
func TestOpenStreamIsLight(t *testing.T) {
	const most = 5 << 10
	if n := openStreamBytes(newObserver(), 500); n > most {
		t.Errorf("an open stream takes %d bytes, want at most %d", n, most)
	}
}

// openStreamBytes returns what each of n open streams takes.
func openStreamBytes(h *Observer, n int) int {
	var before, after runtime.MemStats
	openStreams(h, n)() // fills pools and maps
	collect()
	runtime.ReadMemStats(&before)
	end := openStreams(h, n)
	collect()
	runtime.ReadMemStats(&after)
	end()
	return (int(after.HeapAlloc) - int(before.HeapAlloc)) / n
}

// collect collects all garbage: pools let go of what they have the second time.
func collect() {
	runtime.GC()
	runtime.GC()
}

// BenchmarkOpenStream is what an open stream takes of the heap, the goroutine's
// request of the test's own included.
func BenchmarkOpenStream(b *testing.B) {
	h := newObserver()
	for b.Loop() {
		b.ReportMetric(float64(openStreamBytes(h, 2000)), "B/stream")
	}
}
