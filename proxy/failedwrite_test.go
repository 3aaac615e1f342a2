package proxy_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// TestBytesOfAFailedWriteStay: an HTTP/2 server may still be sending what it has said it
// could not write (net/http: h2_bundle.go:5149), so that no other stream may use that
// memory, whether it was a chunk, a keepalive or the end.
func TestBytesOfAFailedWriteStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := proxy.New(proxy.Options{Keepalive: 10 * time.Second})
		for name, write := range map[string]func(w http.ResponseWriter){
			"chunk":     func(w http.ResponseWriter) { _, _ = w.Write([]byte(text("mine"))) },
			"keepalive": func(http.ResponseWriter) { advance(10 * time.Second) },
			"end":       func(http.ResponseWriter) {},
		} {
			for range 20 { // a pool may drop what it is given
				var kept []byte
				rec := &recorder{t: t, header: make(http.Header)}
				serveStream(p, rec, func(w http.ResponseWriter) {
					rec.onWrite = func(b []byte) (int, error) {
						kept = b
						return 0, errors.New("the client has left")
					}
					write(w)
				})
				before := string(kept)
				serveStream(p, &recorder{t: t, header: make(http.Header)}, func(w http.ResponseWriter) {
					_, _ = w.Write([]byte(text(strings.Repeat("another's ", 100))))
				})
				if before == "" || string(kept) != before {
					t.Fatalf("%s: %q has become %q", name, before, kept)
				}
			}
		}
	})
}

// serveStream serves a stream that begins with a role.
func serveStream(p *proxy.Proxy, w http.ResponseWriter, next func(w http.ResponseWriter)) {
	_ = p.Serve(w, chatRequest(`{"stream":true}`), func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(role))
		next(w)
		return nil
	})
}
