package operations

import (
	"slices"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

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
