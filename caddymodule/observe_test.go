package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/telemetry"
)

const (
	markerFrame = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"\n` +
		"`💻 ls`" + `\n"},"finish_reason":null}]}` + "\n\n"
)

// listed asks the admin API for the streams.
func listed(t *testing.T) (list struct {
	Open  []telemetry.OpenStream
	Ended []telemetry.EndedStream
}) {
	t.Helper()
	w := httptest.NewRecorder()
	if err := listStreams(w, httptest.NewRequest(http.MethodGet, "/hermes/streams", nil)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return list
}

// TestPlaceholdersAreOfTheLastStream that has ended, where a request comes to more than one
// handler (handle_errors).
func TestPlaceholdersAreOfTheLastStream(t *testing.T) {
	h, _ := provision(t, "", t.TempDir())
	repl := caddy.NewReplacer()
	for _, want := range []struct{ before, answer, outcome, rest string }{
		{"?", textFrame + markerFrame, "upstream_incomplete", "error 1 0 0"},
		{"upstream_incomplete", textFrame + usedStop, "ok", "stop 0 3 2"},
		{"ok", textFrame + markerFrame, "upstream_incomplete", "error 1 0 0"},
	} {
		r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
		r = r.WithContext(contextWith(r, repl))
		upstream := answer("127.0.0.1:8642", want.answer)
		next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			if got := repl.ReplaceAll("{http.hermes.outcome}", "?"); got != want.before {
				t.Errorf("before the end %q, want %q", got, want.before)
			}
			return upstream.ServeHTTP(w, r)
		})
		if err := h.ServeHTTP(httptest.NewRecorder(), r, next); err != nil {
			t.Fatal(err)
		}
		if got := repl.ReplaceAll("{http.hermes.outcome}{http.hermes.others}", "?"); got != want.outcome+"?" {
			t.Errorf("at the end %q, want %q", got, want.outcome)
		}
		got := repl.ReplaceAll("{http.hermes.completion_id} {http.hermes.model} {http.hermes.upstream} {http.hermes.status} "+
			"{http.hermes.chunks} {http.hermes.imitations} {http.hermes.finish_reason} {http.hermes.tools} "+
			"{http.hermes.input_tokens} {http.hermes.output_tokens}", "?")
		if all := "chatcmpl-1 hermes-agent 127.0.0.1:8642 200 2 0 " + want.rest; got != all {
			t.Errorf("at the end %q, want %q", got, all)
		}
	}
}
