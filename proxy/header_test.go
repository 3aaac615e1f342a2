package proxy_test

import (
	"net/http"
	"testing"
)

// stamping is an inner writer, such as Caddy's encode, that sets header fields
// as the header leaves.
type stamping struct{ *recorder }

func (s stamping) WriteHeader(status int) {
	s.Header().Set("Content-Encoding", "zstd")
	s.Header().Del("Content-Length")
	s.recorder.WriteHeader(status)
}

// Access logs of Caddy read the map behind the end (resp_headers).
func TestHeaderMapTellsWhatWasSent(t *testing.T) {
	for _, media := range []string{"application/json", "text/event-stream"} {
		rec := &recorder{t: t, header: make(http.Header)}
		serve(stamping{rec}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(role + stop + done))
		})
		for name := range rec.sent {
			if rec.header.Get(name) != rec.sent.Get(name) {
				t.Errorf("%s: %s is %q in the map, %q was sent", media, name, rec.header.Get(name), rec.sent.Get(name))
			}
		}
		if rec.header.Get("Content-Length") != "" {
			t.Errorf("%s: the map has a Content-Length again", media)
		}
	}
}
