package caddymodule

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/telemetry"
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

func TestOpenStreamIsListedAndCounted(t *testing.T) {
	h, _ := provision(t, "", t.TempDir())
	before := scrape(t, h)
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.reverse_proxy.upstream.hostport", "127.0.0.1:8642")
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, textFrame)
		io.WriteString(w, markerFrame)
		open := listed(t).Open
		if len(open) != 1 {
			t.Fatalf("open: %+v", open)
		}
		o := open[0]
		if o.ID != "chatcmpl-1" || o.Model != "hermes-agent" || o.Upstream != "127.0.0.1:8642" || o.Path != "/v1/chat/completions" || o.Chunks != 2 {
			t.Errorf("open: %+v", o)
		}
		if len(o.Tools) != 1 || o.Tools[0].Name != "terminal" || !strings.HasPrefix(o.Tools[0].ID, "call_") {
			t.Errorf("open tools: %+v", o.Tools)
		}
		if n := scrape(t, h)["caddy_hermes_streams_active"]; n != 1 {
			t.Errorf("%v streams are active", n)
		}
		io.WriteString(w, textFrame)
		if tools := listed(t).Open[0].Tools; len(tools) != 0 {
			t.Errorf("open tools after text: %+v", tools)
		}
		_, err := io.WriteString(w, usedStop)
		return err
	})
	serve(t, h, next)
	list := listed(t)
	if len(list.Open) != 0 || len(list.Ended) == 0 {
		t.Fatalf("at the end: %+v", list)
	}
	e := list.Ended[0]
	if e.ID != "chatcmpl-1" || e.Outcome != "ok" || e.Status != 200 || e.FinishReason != "stop" || e.Tools != 1 || e.Chunks != 4 || e.Path != "/v1/chat/completions" {
		t.Errorf("ended: %+v", e)
	}
	wantAdded(t, before, scrape(t, h), map[string]float64{
		`caddy_hermes_streams_total{outcome="ok"}`:                                                                           1,
		`caddy_hermes_tool_events_total{source="marker",status="running"}`:                                                   1,
		`caddy_hermes_tool_events_total{source="inferred",status="completed"}`:                                               1,
		`caddy_hermes_markers_total`:                                                                                         1,
		`caddy_hermes_tool_duration_seconds`:                                                                                 1,
		`gen_ai_client_operation_time_to_first_chunk_seconds{gen_ai_operation_name="chat",gen_ai_provider_name="hermes"}`:    1,
		`gen_ai_client_operation_time_per_output_chunk_seconds{gen_ai_operation_name="chat",gen_ai_provider_name="hermes"}`:  3,
		`gen_ai_client_operation_duration_seconds{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="hermes"}`: 1,
	})
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
