package caddymodule

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// askStreams asks a hermes_streams handler.
func askStreams(t *testing.T, method string) (*httptest.ResponseRecorder, error) {
	t.Helper()
	w := httptest.NewRecorder()
	err := new(StreamsHandler).ServeHTTP(w, httptest.NewRequest(method, "/hermes/streams", nil), nil)
	return w, err
}

// TestStreamsTakesOnlyReads, and whoever is in between keeps no copy.
func TestStreamsTakesOnlyReads(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		w, err := askStreams(t, method)
		if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v, %v", method, w.Code, w.Header(), err)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		w, err := askStreams(t, method)
		var refused caddyhttp.HandlerError
		if !errors.As(err, &refused) || refused.StatusCode != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" || w.Body.Len() > 0 {
			t.Errorf("%s: %v, Allow %q", method, err, w.Header().Get("Allow"))
		}
	}
}
