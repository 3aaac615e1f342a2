package queuehttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/queue/queuehttp"
)

// BenchmarkTurn measures a request whose turn comes at once beside one that has none: the difference is to
// be less than 5 µs.
func BenchmarkTurn(b *testing.B) {
	var lines queue.Lines
	turns := func(*http.Request) (*queue.Turn, error) {
		return lines.Join("b", queue.Options{Runs: 8, Wait: time.Minute, Waiting: 100}, queue.Client{1})
	}
	for _, c := range []struct {
		name string
		turn func(*http.Request) (*queue.Turn, error)
	}{{"none", func(*http.Request) (*queue.Turn, error) { return nil, nil }}, {"free", turns}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			q := queuehttp.Queue{Proxy: proxy.New(proxy.Options{}), Turn: c.turn}
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asksForStream))
				err := q.Serve(httptest.NewRecorder(), r, func(w http.ResponseWriter, r *http.Request) error {
					_, err := io.Copy(io.Discard, r.Body)
					w.WriteHeader(http.StatusNoContent)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
