package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/timeouts"
	"go.uber.org/zap"
)

// timed is the connection below the server's writer. It has deadlines, and tells
// of writes.
type timed struct {
	*httptest.ResponseRecorder
	wrote func(string)
}

func (w timed) SetWriteDeadline(time.Time) error { return nil }

func (w timed) Write(b []byte) (int, error) {
	w.wrote(string(b))
	return len(b), nil
}

// serveTimed sends a request through h and Caddy's timeouts handler to next, over
// a server's writer with timeouts of its own, which it returns.
func serveTimed(t *testing.T, h *Handler, path string, wrote func(string), next func(http.ResponseWriter, *caddyhttp.IdleTimeoutWriter)) *caddyhttp.IdleTimeoutWriter {
	t.Helper()
	below := timed{httptest.NewRecorder(), wrote}
	server := &caddyhttp.IdleTimeoutWriter{
		ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: below},
		Ctrl:                  http.NewResponseController(below),
		Deadline:              caddyhttp.IdleDeadline{Timeout: time.Minute},
		MaxChunk:              1000,
		Logger:                zap.NewNop(),
	}
	r := httptest.NewRequest("POST", path, strings.NewReader("{}"))
	r = r.WithContext(caddyhttp.ContextWithIdleTimeouts(r.Context(), nil, server))
	after := timeouts.Timeouts{WriteTimeout: 2 * time.Minute, WriteMinRate: 3, MaxWriteChunk: 400}
	err := h.ServeHTTP(server, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return after.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			next(w, server)
			return nil
		}))
	}))
	if err != nil {
		t.Error(err)
	}
	return server
}

// TestTimeoutsBehindApplyToAnAnswer: they take the place of the server's for as
// long as there is an answer, streamed or not, as they do without us.
func TestTimeoutsBehindApplyToAnAnswer(t *testing.T) {
	h, _ := provision(t, "", t.TempDir())
	type settings struct {
		timeout time.Duration
		rate    int64
		chunk   int
	}
	of := func(w *caddyhttp.IdleTimeoutWriter) settings {
		return settings{w.Deadline.Timeout, w.Deadline.MinRate, w.MaxChunk}
	}
	for _, media := range []string{"text/event-stream", "text/plain"} {
		for _, path := range []string{"/v1/chat/completions", "/v1/other"} {
			var while settings
			server := serveTimed(t, h, path, func(string) {}, func(w http.ResponseWriter, server *caddyhttp.IdleTimeoutWriter) {
				w.Header().Set("Content-Type", media)
				_, _ = w.Write([]byte(textFrame))
				while = of(server)
			})
			if want := (settings{2 * time.Minute, 3, 400}); while != want {
				t.Errorf("%s, %s: %v while it is answered, want %v", media, path, while, want)
			}
			if got, want := of(server), (settings{time.Minute, 0, 1000}); got != want {
				t.Errorf("%s, %s: %v after it, want %v", media, path, got, want)
			}
		}
	}
	server := serveTimed(t, h, "/", func(string) {}, func(http.ResponseWriter, *caddyhttp.IdleTimeoutWriter) {})
	if got, want := of(server), (settings{time.Minute, 0, 1000}); got != want {
		t.Errorf("without an answer: %v, want %v", got, want)
	}
}

// TestTimeoutsBehindEndBesideAKeepalive has the handler return while keepalives
// are sent: the writer that they use has no lock.
func TestTimeoutsBehindEndBesideAKeepalive(t *testing.T) {
	h, _ := provision(t, `"keepalive":"1ms","done_grace":0`, t.TempDir())
	beats := make(chan struct{}, 1)
	serveTimed(t, h, "/v1/chat/completions", func(s string) {
		if strings.Contains(s, `"delta":{}`) {
			select {
			case beats <- struct{}{}:
			default:
			}
		}
	}, func(w http.ResponseWriter, _ *caddyhttp.IdleTimeoutWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(textFrame))
		for range 3 {
			select {
			case <-beats:
			case <-time.After(time.Minute):
				t.Error("no keepalive is sent")
			}
		}
	})
}
