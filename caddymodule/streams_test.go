package caddymodule

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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

// TestListsOfStreams pins the names and types in the lists of the admin API and of
// hermes_streams, which scripts read.
func TestListsOfStreams(t *testing.T) {
	h, _ := provision(t, "", t.TempDir())
	for _, ask := range []func(*testing.T, string) (*httptest.ResponseRecorder, error){askAdmin, askStreams} {
		list := func() (open, ended []any) {
			w, err := ask(t, http.MethodGet)
			all := decodeJSON(t, w.Body.String()).(map[string]any)
			if _, lists := all["waiting"].([]any); err != nil || len(all) != 3 || !lists || w.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("%v, %v in %s", err, w.Header(), w.Body)
			}
			return all["open"].([]any), all["ended"].([]any)
		}
		serve(t, h, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			err := answer("127.0.0.1:8642", textFrame+markerFrame)(w, r)
			if n := scrape(t, h)["caddy_hermes_streams_active"]; n != 1 {
				t.Errorf("%v streams are active", n)
			}
			open, _ := list()
			o := open[0].(map[string]any)
			wantTypes(t, o, map[string]any{
				"id": "", "model": "", "upstream": "", "path": "", "since": time.Time{},
				"age_seconds": 0., "silence_seconds": 0., "chunks": 0., "open_tools": []any{},
			})
			wantTypes(t, o["open_tools"].([]any)[0].(map[string]any), map[string]any{"id": "", "name": "", "seconds": 0.})
			return err
		}))
		open, all := list()
		ended := all[0].(map[string]any)
		wantTypes(t, ended, map[string]any{
			"id": "", "model": "", "upstream": "", "path": "", "outcome": "", "status": 0., "finish_reason": "",
			"chunks": 0., "tools": 0., "seconds": 0., "ended": time.Time{},
		})
		if len(open) != 0 || ended["outcome"] != "upstream_incomplete" || ended["finish_reason"] != "error" {
			t.Errorf("open: %v, ended: %v", open, ended)
		}
	}
}

// wantTypes wants the members of want and no others, each of its type.
func wantTypes(t *testing.T, got, want map[string]any) {
	t.Helper()
	for name, v := range want {
		g, ok := got[name]
		switch v.(type) {
		case time.Time:
			text, _ := g.(string)
			at, err := time.Parse(time.RFC3339Nano, text)
			ok = err == nil && time.Since(at) < time.Hour && at.Location() == time.UTC
		case string:
			_, ok = g.(string)
		case float64:
			_, ok = g.(float64)
		case []any:
			_, ok = g.([]any)
		}
		if !ok {
			t.Errorf("%s is %v, want a %T", name, g, v)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is new: add it here and to docs/observability.md", name)
		}
	}
}
