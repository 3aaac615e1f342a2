package proxy_test

import (
	"io"
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

// The handler's header is dropped once it has left; trailers that it sets later, of
// which it has said nothing before, are handed over all the same.
func TestTrailersThatNobodyAnnouncedBehindFrames(t *testing.T) {
	rec := &recorder{t: t, header: make(http.Header)}
	serve(rec, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Upstream", "a")
		for _, s := range []string{role, text("a"), text("b"), stop, done} {
			_, _ = io.WriteString(w, s)
			if got := w.Header().Get("X-Upstream"); got != "a" {
				t.Errorf("the header has X-Upstream %q, want a", got)
			}
		}
		w.Header().Set(http.TrailerPrefix+"X-Late", "b")
	})
	if got := rec.header.Get(http.TrailerPrefix + "X-Late"); got != "b" {
		t.Errorf("the trailer is %q, want b", got)
	}
}
