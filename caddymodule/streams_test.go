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

func TestAdminModuleIsRegisteredWithItsRoute(t *testing.T) {
	info, err := caddy.GetModule("admin.api.hermes")
	if err != nil {
		t.Fatal(err)
	}
	routes := info.New().(caddy.AdminRouter).Routes()
	if len(routes) != 1 || routes[0].Pattern != "/hermes/streams" {
		t.Errorf("routes %+v", routes)
	}
}

func TestAdminTakesOnlyReads(t *testing.T) {
	for method, want := range map[string]int{
		http.MethodGet: 0, http.MethodHead: 0,
		http.MethodPost: 405, http.MethodPut: 405, http.MethodPatch: 405, http.MethodDelete: 405, http.MethodOptions: 405,
	} {
		w := httptest.NewRecorder()
		err := listStreams(w, httptest.NewRequest(method, "/hermes/streams", nil))
		var e caddy.APIError
		if errors.As(err, &e); e.HTTPStatus != want {
			t.Errorf("%s: %v, want status %d", method, err, want)
		}
		if want != 0 && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow is %q", method, w.Header().Get("Allow"))
		}
	}
}

// TestListsOfStreams pins the names and types in the lists of the admin API and of
// hermes_streams, which scripts read.
func TestListsOfStreams(t *testing.T) {
	admin := func() (*httptest.ResponseRecorder, error) {
		w := httptest.NewRecorder()
		return w, listStreams(w, httptest.NewRequest(http.MethodGet, "/hermes/streams", nil))
	}
	public := func() (*httptest.ResponseRecorder, error) { return askStreams(t, http.MethodGet) }
	h, _ := provision(t, "", t.TempDir())
	for _, ask := range []func() (*httptest.ResponseRecorder, error){admin, public} {
		list := func() (open, ended []any) {
			w, err := ask()
			all := decodeJSON(t, w.Body.String()).(map[string]any)
			if err != nil || len(all) != 2 || w.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("%v, %v in %s", err, w.Header(), w.Body)
			}
			return all["open"].([]any), all["ended"].([]any)
		}
		serve(t, h, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			err := answer("127.0.0.1:8642", textFrame+markerFrame)(w, r)
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
