package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/clocktest"
)

// Nor do a real server and a real transport hold the histories of open streams, healed
// or not.
func TestMemoryOfOpenStreamsBetweenServers(t *testing.T) {
	const streams, size = 20, 2 << 20
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, role)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(up.Close)
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	srv := httptest.NewServer(proxy.New(proxy.Options{Clock: clocktest.New()}).Handler(next))
	t.Cleanup(srv.Close)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools hold goes with the second
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, history := range []string{clean, polluted} {
		body := history + strings.Repeat(" ", size) // the clients share it
		before := heap()
		for range streams {
			r, err := http.NewRequestWithContext(patient(t), http.MethodPost, srv.URL+chatPath, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { res.Body.Close() })
			if _, err := io.ReadFull(res.Body, make([]byte, len(role))); err != nil {
				t.Fatal(err)
			}
		}
		if took := heap() - before; took > streams*size/8 {
			t.Errorf("%d open streams with histories of %d bytes take %d bytes", streams, size, took)
		}
	}
}
