package redis

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestKeysOfTheConfiguration join at any replica, and are free at all of them when a client has been
// sent the whole answer. Others that read it are sent the rest.
func TestKeysOfTheConfiguration(t *testing.T) {
	for name, store := range storages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t)
			rest := make(chan struct{})
			var asked atomic.Int64
			at := func(store log.Store) *httptest.Server {
				o := resume.DefaultOptions()
				o.Store, o.Secret = store, []byte("secret")
				o.Key, o.KeyBody = func(r *http.Request) []string { return r.Header["X-Chat-Id"] }, true
				h := httptest.NewServer(resume.New(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked.Add(1)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, event(1))
					_ = http.NewResponseController(w).Flush()
					<-rest
					_, _ = io.WriteString(w, event(2))
				})))
				t.Cleanup(h.Close)
				return h
			}
			here, there := at(s.here), at(s.there)
			chat := []string{"X-Chat-Id", "1", "Content-Type", "application/json"}
			first := ask(t, here, http.MethodPost, "/events", chat...)
			second := ask(t, there, http.MethodPost, "/events", chat...)
			id := first.Header.Get(resume.StreamHeader)
			if got := second.Header.Get(resume.StreamHeader); id == "" || got != id {
				t.Errorf("the streams are %q and %q", id, got)
			}
			close(rest)
			if a, b := body(t, first), body(t, second); a != b || len(a) < len(event(1)+event(2)) {
				t.Errorf("the first gets %q, the second %q", a, b)
			}
			if found(t, s.there, id) || asked.Load() != 1 {
				t.Errorf("it is kept, or upstream was asked %d times", asked.Load())
			}
			for n, h := range []*httptest.Server{there, here} {
				body(t, ask(t, h, http.MethodPost, "/events", chat...))
				if got := asked.Load(); got != int64(n+2) {
					t.Errorf("upstream was asked %d times, want %d", got, n+2)
				}
			}
		})
	}
}
