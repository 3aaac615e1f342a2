package resume_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// sink is a writer that keeps nothing.
type sink struct{ h http.Header }

func (s sink) Header() http.Header       { return s.h }
func (sink) WriteHeader(int)             {}
func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) FlushError() error           { return nil }

// frame is as long as those of a chat completion.
var frame = []byte("data: " + strings.Repeat("x", 270) + "\n\n")

// BenchmarkChunk is what a chunk of a stream costs that has one reader: of one stream, of
// which all is in the cache, and of many by turns, of which nothing is, as on a server
// whose streams wait for their agents.
func BenchmarkChunk(b *testing.B) {
	for _, c := range []struct {
		name    string
		streams int
		asks    bool
	}{{"without a log", 1, false}, {"with a log", 1, true}, {"cold, without a log", 25, false}, {"cold, with a log", 25, true}} {
		b.Run(c.name, func(b *testing.B) { benchmarkChunk(b, c.streams, c.asks) })
	}
}

// benchmarkChunk reports the median of what it takes to write a chunk and to flush it. With
// more than one stream, it empties the cache before.
func benchmarkChunk(b *testing.B, streams int, asks bool) {
	o := resume.DefaultOptions()
	o.Keep = 0
	p := resume.New(o)
	turns := make([]chan bool, streams)
	done, ended := make(chan bool), make(chan bool)
	took := make([]time.Duration, 0, b.N)
	other := make([]byte, 4<<20)
	for i := range turns {
		turns[i] = make(chan bool)
		r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking))
		if asks {
			r.Header.Set(key, strconv.Itoa(i))
		}
		go func() {
			_ = p.Serve(sink{http.Header{}}, r, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				read := make([]byte, len(frame))
				for range turns[i] {
					if streams > 1 {
						for at := 0; at < len(other); at += 64 {
							other[at]++
						}
					}
					copy(read, frame) // it has just come
					began := time.Now()
					_, _ = w.Write(read)
					_ = http.NewResponseController(w).Flush()
					took = append(took, time.Since(began))
					done <- true
				}
				return nil
			})
			ended <- true
		}()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		turns[i%streams] <- true
		<-done
	}
	b.StopTimer()
	for _, t := range turns {
		close(t)
		<-ended
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "ns/chunk")
}
