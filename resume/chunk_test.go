package resume_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// BenchmarkChunk is a chunk's way from the handler to the first client, which has read each one before
// the next comes.
func BenchmarkChunk(b *testing.B) {
	p := resume.New(resume.DefaultOptions())
	frame := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("a", 150) + `"},"finish_reason":null}]}` + "\n\n")
	read := make(chan struct{})
	next := func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		c := http.NewResponseController(w)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = w.Write(frame)
			_ = c.Flush()
			<-read
		}
		return nil
	}
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking))
	r.Header.Set(key, "k")
	if err := p.Serve(&reader{header: http.Header{}, read: read}, r, next); err != nil {
		b.Fatal(err)
	}
}

// reader is the http.ResponseWriter of a client that reads.
type reader struct {
	header http.Header
	read   chan struct{}
}

func (r *reader) Header() http.Header         { return r.header }
func (r *reader) WriteHeader(int)             {}
func (r *reader) Write(p []byte) (int, error) { r.read <- struct{}{}; return len(p), nil }
func (r *reader) Flush()                      {}
