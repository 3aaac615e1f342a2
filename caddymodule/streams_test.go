package caddymodule

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestStreamsTakesOnlyReads, in both places. Of the public list nothing in between keeps a
// copy.
func TestStreamsTakesOnlyReads(t *testing.T) {
	for method, want := range map[string]int{
		http.MethodGet: 0, http.MethodHead: 0,
		http.MethodPost: 405, http.MethodPut: 405, http.MethodPatch: 405, http.MethodDelete: 405, http.MethodOptions: 405,
	} {
		r, w := httptest.NewRequest(method, "/hermes/streams", nil), httptest.NewRecorder()
		api, _ := errors.AsType[caddy.APIError](listStreams(httptest.NewRecorder(), r))
		refused, _ := errors.AsType[caddyhttp.HandlerError](new(StreamsHandler).ServeHTTP(w, r, nil))
		if api.HTTPStatus != want || refused.StatusCode != want {
			t.Errorf("%s: %d and %d, want %d", method, api.HTTPStatus, refused.StatusCode, want)
		}
		allow, kept := "", "no-store"
		if want != 0 {
			allow, kept = "GET, HEAD", ""
		}
		if h := w.Header(); h.Get("Allow") != allow || h.Get("Cache-Control") != kept {
			t.Errorf("%s: %v", method, h)
		}
	}
}
