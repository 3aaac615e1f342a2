package caddymodule

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// askStreams asks a hermes_streams handler.
func askStreams(t *testing.T, method string) (*httptest.ResponseRecorder, error) {
	t.Helper()
	w := httptest.NewRecorder()
	err := new(StreamsHandler).ServeHTTP(w, httptest.NewRequest(method, "/hermes/streams", nil), nil)
	return w, err
}

// askAdmin asks the admin API.
func askAdmin(_ *testing.T, method string) (*httptest.ResponseRecorder, error) {
	w := httptest.NewRecorder()
	return w, listStreams(w, httptest.NewRequest(method, "/hermes/streams", nil))
}

// TestStreamsTakesOnlyReads, in both places. Of the public list nothing in between keeps a
// copy.
func TestStreamsTakesOnlyReads(t *testing.T) {
	for method, want := range map[string]int{
		http.MethodGet: 0, http.MethodHead: 0,
		http.MethodPost: 405, http.MethodPut: 405, http.MethodPatch: 405, http.MethodDelete: 405, http.MethodOptions: 405,
	} {
		_, err := askAdmin(t, method)
		var api caddy.APIError
		errors.As(err, &api)
		w, err := askStreams(t, method)
		var refused caddyhttp.HandlerError
		errors.As(err, &refused)
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
