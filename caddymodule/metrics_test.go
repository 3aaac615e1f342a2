package caddymodule

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
)

// scrape returns what the registry of the handler's configuration exposes of ours:
// values by name and labels, of histograms how many samples there are.
func scrape(t *testing.T, h *Handler) map[string]float64 {
	t.Helper()
	families, err := registries[h].Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		if name := f.GetName(); !strings.HasPrefix(name, "caddy_hermes_") && !strings.HasPrefix(name, "gen_ai_") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// wantAdded wants nothing else to have been counted than want.
func wantAdded(t *testing.T, before, after, want map[string]float64) {
	t.Helper()
	added := make(map[string]float64)
	for name, n := range after {
		if n != before[name] {
			added[name] = n - before[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(added)) {
		if added[name] != want[name] {
			t.Errorf("%s went up by %v, want %v", name, added[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if added[name] == 0 {
			t.Errorf("%s did not change, want %v more", name, want[name])
		}
	}
}

const okStreams = `caddy_hermes_streams_total{outcome="ok"}`

// TestCountersGoOnAcrossReloads with the registry of each configuration, while
// the configurations overlap, and when hermes has been away for a while.
func TestCountersGoOnAcrossReloads(t *testing.T) {
	old, cleanOld := provision(t, "", t.TempDir())
	first := scrape(t, old)[okStreams]
	serve(t, old, answer("a:1", textFrame+usedStop))
	young, cleanYoung := provision(t, "", t.TempDir())
	if registries[old] == registries[young] {
		t.Fatal("both configurations have one registry, which this test is not about")
	}
	serve(t, old, answer("a:1", textFrame+usedStop)) // a stream that outlives its configuration
	cleanOld()
	serve(t, young, answer("a:1", textFrame+usedStop))
	_, err := caddy.ProvisionContext(parseConfig(t, jsonConfig(`"progress":"nonsense"`)))
	if n := hermesapp.OfProcess().Configurations.Load(); err == nil || n != 1 {
		t.Errorf("a configuration that is refused: %v, and there are %d configurations, want 1", err, n)
	}
	if got := scrape(t, young)[okStreams]; got != first+3 {
		t.Errorf("%v streams after the reload, want %v", got, first+3)
	}
	cleanYoung()
	if hermesapp.OfProcess().Configurations.Load() != 0 {
		t.Fatal("hermes is not gone")
	}
	again, _ := provision(t, "", t.TempDir())
	if got := scrape(t, again)[okStreams]; got != first+3 {
		t.Errorf("%v streams once hermes is back, want %v", got, first+3)
	}
	if ended := listed(t).Ended; len(ended) < 3 || ended[0].Outcome != "ok" {
		t.Errorf("the list of streams has forgotten: %+v", ended)
	}
}

// TestWhatIsCounted for each kind of answer.
func TestWhatIsCounted(t *testing.T) {
	const (
		chat  = `{gen_ai_operation_name="chat",gen_ai_provider_name="hermes"}`
		agent = `{gen_ai_operation_name="invoke_agent",gen_ai_provider_name="hermes"}`
		first = "gen_ai_client_operation_time_to_first_chunk_seconds"
		next  = "gen_ai_client_operation_time_per_output_chunk_seconds"
	)
	took := func(operation, kind string) string {
		return fmt.Sprintf(`gen_ai_client_operation_duration_seconds{error_type=%q,gen_ai_operation_name=%q,gen_ai_provider_name="hermes"}`, kind, operation)
	}
	events := func(media, body string) caddyhttp.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", media)
			_, err := io.WriteString(w, body)
			return err
		}
	}
	for _, c := range []struct {
		name, path, body string
		next             caddyhttp.HandlerFunc
		want             map[string]float64
	}{
		{
			"a run that breaks off", "/v1/runs/run_1/events", "",
			events("text/event-stream", `data: {"event":"run.started","run_id":"run_1","timestamp":1}`+"\n\n"+`data: {"event":"message.delta","run_id":"run_1","timestamp":2,"delta":"a"}`+"\n\n"),
			map[string]float64{
				`caddy_hermes_streams_total{outcome="upstream_incomplete"}`: 1,
				first + agent: 1, next + agent: 1, took("invoke_agent", "upstream_incomplete"): 1,
			},
		},
		{
			"a stream with a tool", "/v1/chat/completions", `{"stream":true,"messages":[]}`,
			events("text/event-stream", textFrame+markerFrame+textFrame+usedStop),
			map[string]float64{
				okStreams: 1, `caddy_hermes_markers_total`: 1, `caddy_hermes_tool_duration_seconds`: 1,
				`caddy_hermes_tool_events_total{source="marker",status="running"}`:     1,
				`caddy_hermes_tool_events_total{source="inferred",status="completed"}`: 1,
				first + chat: 1, next + chat: 3, took("chat", ""): 1,
			},
		},
		{
			"an error, wrapped, instead of a stream", "/v1/chat/completions", `{"stream":true,"messages":[]}`,
			func(http.ResponseWriter, *http.Request) error {
				return fmt.Errorf("so: %w", caddyhttp.Error(502, io.EOF))
			},
			map[string]float64{`caddy_hermes_streams_total{outcome="upstream_aborted"}`: 1, took("chat", "upstream_aborted"): 1},
		},
		{
			"an error where no stream was asked for", "/v1/chat/completions", `{"messages":[]}`,
			func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(502, io.EOF) },
			map[string]float64{`caddy_hermes_answers_total{outcome="upstream_aborted"}`: 1},
		},
		{
			"an answer with reasoning", "/v1/chat/completions", `{"messages":[]}`,
			events("application/json", `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"<think>a</think>b"},"finish_reason":"stop"}]}`),
			map[string]float64{`caddy_hermes_answers_total{outcome="ok"}`: 1, `caddy_hermes_reasoning_total`: 1},
		},
		{
			"an answer that needs no repair", "/v1/chat/completions", `{"messages":[]}`,
			events("application/json", `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"b"},"finish_reason":"stop"}]}`),
			map[string]float64{`caddy_hermes_answers_total{outcome="ok"}`: 1},
		},
		{
			"a compressed stream", "/v1/chat/completions", `{"stream":true,"messages":[]}`,
			func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Encoding", "gzip")
				return events("text/event-stream", "\x1f\x8b")(w, nil)
			},
			map[string]float64{`caddy_hermes_streams_total{outcome="passed_encoded"}`: 1, took("chat", ""): 1},
		},
		{
			"a history", "/v1/chat/completions", "{\"stream\":true,\"messages\":[{\"role\":\"assistant\",\"content\":\"\\n`💻 ls`\\na\\n`💻 ls`\\n\"}]}",
			events("text/event-stream", textFrame+usedStop),
			map[string]float64{
				okStreams: 1, `caddy_hermes_histories_healed_total`: 1, `caddy_hermes_history_markers_total`: 2,
				first + chat: 1, next + chat: 1, took("chat", ""): 1,
			},
		},
		{
			"calls in a history", "/v1/chat/completions", `{"stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"b"},{"role":"user","content":"c"}]}`,
			events("text/event-stream", textFrame+usedStop),
			map[string]float64{okStreams: 1, `caddy_hermes_records_total{source="request"}`: 1, first + chat: 1, next + chat: 1, took("chat", ""): 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := provision(t, "", t.TempDir())
			before := scrape(t, h)
			post(t, h, c.path, c.body, c.next)
			wantAdded(t, before, scrape(t, h), c.want)
		})
	}
}
