package operations

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestBuildIsToldOnce in the log, however often the configuration is loaded, and always
// in the metrics.
func TestBuildIsToldOnce(t *testing.T) {
	w := watch(t, upstream.New(t, upstream.AsJSON("200 OK", "{}")), "", "hermes")
	if failed := w.reload("hermes {\n\t\tprogress off\n\t}"); failed != "" {
		t.Fatal(failed)
	}
	line := w.named("http.handlers.hermes", "hermes sidecar")
	if n := strings.Count(w.Log.String(), `"msg":"hermes sidecar"`); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
	build := w.scrape()["caddy_hermes_build_info"]
	if build == nil || len(build.GetMetric()) != 1 || build.GetMetric()[0].GetGauge().GetValue() != 1 {
		t.Fatalf("the metric is %v", build)
	}
	logged := map[string]string{"version": "version", "commit": "commit", "goversion": "go", "caddyversion": "caddy"}
	for _, l := range build.GetMetric()[0].GetLabel() {
		if l.GetValue() != line[logged[l.GetName()]] || l.GetValue() == "" && l.GetName() != "commit" {
			t.Errorf("%s is %q in the metrics, %q in the log", l.GetName(), l.GetValue(), line[logged[l.GetName()]])
		}
	}
}
