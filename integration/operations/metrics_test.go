package operations

import (
	"slices"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestCountersGoOn across reloads, with and without hermes in the configuration,
// at the directive and at the admin endpoint, whatever configuration is refused.
func TestCountersGoOn(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, upstream.Router{
		"tool":  upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame),
		"crash": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/crash_in_tool"), upstream.ByFrame),
		"cut": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Reset()
		},
		"held": upstream.HeldBack(rest),
	}.Play)
	w := watch(t, up, "", "hermes")
	want := func(name string, f metrics.Families, outcomes map[string]float64) {
		t.Helper()
		for outcome, n := range outcomes {
			if got := f.Streams(outcome); got != n {
				t.Errorf("%s: %v streams with outcome %s, want %v", name, got, outcome, n)
			}
		}
	}
	want("at the beginning", w.scrape(), map[string]float64{"ok": 0, "agent_crashed": 0, "upstream_aborted": 0})
	w.Play("tool").Answer()
	w.Play("crash").Answer()
	live := w.Play("held")
	live.Frame()
	f := w.scrape()
	want("while a stream is open", f, map[string]float64{"ok": 1, "agent_crashed": 1})
	if n := f.Value("caddy_hermes_streams_active"); n != 1 {
		t.Errorf("%v active streams, want 1", n)
	}

	if failed := w.reload("hermes {\n\t\tprogress nonsense\n\t}"); failed == "" {
		t.Fatal("a configuration with nonsense in it was loaded")
	}
	w.Play("tool").Answer()
	want("after a configuration that was refused", w.scrape(), map[string]float64{"ok": 2, "agent_crashed": 1})

	if failed := w.reload("hermes {\n\t\tprogress bare\n\t}"); failed != "" {
		t.Fatal(failed)
	}
	f = w.scrape()
	want("after a reload", f, map[string]float64{"ok": 2, "agent_crashed": 1})
	if n := f.Value("caddy_hermes_streams_active"); n != 1 {
		t.Errorf("%v active streams after a reload, want 1", n)
	}
	close(rest)
	live.Answer().CheckGood(t)
	w.Play("cut").Answer()
	want("at the admin endpoint", metrics.Scrape(t, "http://"+w.Admin+"/metrics"), map[string]float64{"ok": 3, "agent_crashed": 1, "upstream_aborted": 1})

	if failed := w.reload("header X-Hermes none"); failed != "" {
		t.Fatal(failed)
	}
	if n := w.scrape().Value("caddy_hermes_streams_active"); n != -1 {
		t.Error("there are metrics of hermes without it")
	}
	if failed := w.reload("hermes"); failed != "" {
		t.Fatal(failed)
	}
	f = w.scrape()
	want("once hermes is back", f, map[string]float64{"ok": 3, "agent_crashed": 1, "upstream_aborted": 1})
	if n := f.Value("caddy_hermes_streams_active"); n != 0 {
		t.Errorf("%v active streams at the end", n)
	}
	for name, n := range map[string]float64{
		"caddy_hermes_markers_total":                          3,
		"caddy_hermes_tool_duration_seconds":                  3,
		"gen_ai_client_operation_time_to_first_chunk_seconds": 5,
		"gen_ai_client_operation_duration_seconds":            5,
	} {
		if got := f.Value(name); got != n {
			t.Errorf("%s is %v, want %v", name, got, n)
		}
	}
}

// TestOtherStreamsAreCounted as what they are.
func TestOtherStreamsAreCounted(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return !hermes.Chats(r)
	})
	all = slices.DeleteFunc(all, func(r hermes.Recording) bool { return r.Body[0] == '{' }) // old versions answer whole
	if len(all) == 0 {
		t.Fatal("no recordings")
	}
	w := watch(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), "", "hermes")
	for _, r := range all {
		w.Post(r.Path(), "X-Play", r.String()).All()
	}
	f := w.scrape()
	if n := f.Value("gen_ai_client_operation_duration_seconds", "gen_ai_operation_name", "invoke_agent"); n != float64(len(all)) {
		t.Errorf("%v operations, want %d", n, len(all))
	}
	if n := f.Value("gen_ai_client_operation_duration_seconds", "gen_ai_operation_name", "chat"); n != -1 {
		t.Errorf("%v chats, want none", n)
	}
	if n := f.Value("caddy_hermes_streams_total"); n != float64(len(all)) {
		t.Errorf("%v streams, want %d", n, len(all))
	}
}
