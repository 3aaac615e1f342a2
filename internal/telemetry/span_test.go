package telemetry

import (
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// TestNoSpanWithoutTracing: outside of Caddy's directive nothing is made.
func TestNoSpanWithoutTracing(t *testing.T) {
	r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	var since time.Time
	if n := testing.AllocsPerRun(100, func() {
		if startSpan(r, operationChat, since).IsRecording() {
			t.Error("there is a span")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestServerIsNamedWithoutItsPort(t *testing.T) {
	for upstream, want := range map[string]map[string]any{
		"":                 {},
		"localhost:80":     {"server.address": "localhost", "server.port": int64(80)},
		"/run/hermes.sock": {"server.address": "/run/hermes.sock"},
		"localhost:http":   {"server.address": "localhost"},
	} {
		got := attribute.NewSet(serverOf(upstream)...)
		if got.Len() != len(want) {
			t.Errorf("%s: %v, want %v", upstream, got.ToSlice(), want)
		}
		for name, value := range want {
			if v, _ := got.Value(attribute.Key(name)); v.AsInterface() != value {
				t.Errorf("%s: %s is %v, want %v", upstream, name, v.AsInterface(), value)
			}
		}
	}
}
