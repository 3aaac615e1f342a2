package caddymodule

import (
	"encoding/json"
	"errors"
	"io"
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

// TestStreamsJSON pins the names and types, which are those of the admin API.
func TestStreamsJSON(t *testing.T) {
	h, _ := provision(t, "", t.TempDir())
	var open map[string]any
	list := func() (all map[string]any) {
		w, err := askStreams(t, http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil {
			t.Fatalf("%v in %s", err, w.Body)
		}
		return all
	}
	serve(t, h, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.reverse_proxy.upstream.hostport", "127.0.0.1:8642")
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := io.WriteString(w, textFrame+markerFrame)
		open = list()["open"].([]any)[0].(map[string]any)
		return err
	}))
	wantTypes(t, open, map[string]any{
		"id": "", "model": "", "upstream": "", "path": "", "since": time.Time{}, "age_seconds": 0., "silence_seconds": 0., "chunks": 0., "open_tools": []any{},
	})
	all := list()
	if len(all) != 2 || len(all["open"].([]any)) != 0 {
		t.Errorf("members of the answer: %v", all)
	}
	wantTypes(t, all["ended"].([]any)[0].(map[string]any), map[string]any{
		"id": "", "model": "", "upstream": "", "path": "", "outcome": "", "status": 0., "finish_reason": "", "chunks": 0., "tools": 0., "seconds": 0., "ended": time.Time{},
	})
}
