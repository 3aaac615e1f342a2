package caddymodule

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// traced serves a request in a span of its own, as Caddy's tracing does, and
// returns the spans below it.
func traced(t *testing.T, path string, next caddyhttp.Handler, o ...sdktrace.TracerProviderOption) (below tracetest.SpanStubs, above trace.SpanContext) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(append(o, sdktrace.WithSyncer(exporter))...)
	h, _ := provision(t, "", t.TempDir())
	r := httptest.NewRequest("POST", path, strings.NewReader(`{"stream":true,"messages":[]}`))
	ctx, parent := provider.Tracer("test").Start(contextWith(r, caddy.NewReplacer()), "handler")
	if err := h.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx), next); err != nil {
		t.Fatal(err)
	}
	return exporter.GetSpans(), parent.SpanContext()
}

// attributes returns the attributes by name, but for times.
func attributes(all []attribute.KeyValue) map[string]any {
	m := make(map[string]any)
	for _, a := range all {
		if a.Key != "gen_ai.response.time_to_first_chunk" {
			m[string(a.Key)] = a.Value.AsInterface()
		}
	}
	return m
}

func sameAttributes(t *testing.T, got []attribute.KeyValue, want map[string]any) {
	t.Helper()
	all := attributes(got)
	for name, v := range want {
		if s, ok := all[name].([]string); ok {
			all[name] = strings.Join(s, ",")
		}
		if all[name] != v {
			t.Errorf("%s is %v, want %v", name, all[name], v)
		}
		delete(all, name)
	}
	if len(all) > 0 {
		t.Errorf("and also %v", all)
	}
}

// TestStreamHasASpan with these attributes and events, and nothing of what was said: neither text nor the
// label of a tool.
func TestStreamHasASpan(t *testing.T) {
	spans, above := traced(t, "/v1/chat/completions", answer("127.0.0.1:8642", textFrame+markerFrame+textFrame+usedStop))
	if len(spans) != 1 {
		t.Fatalf("%d spans, want 1", len(spans))
	}
	s := spans[0]
	if s.Name != "chat hermes-agent" || s.SpanKind != trace.SpanKindClient || s.Parent.SpanID() != above.SpanID() || s.Status.Code != codes.Unset {
		t.Errorf("span %+v", s)
	}
	if s.StartTime.After(s.EndTime) {
		t.Errorf("it ends at %v and begins at %v", s.EndTime, s.StartTime)
	}
	sameAttributes(t, s.Attributes, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "hermes",
		"gen_ai.response.model": "hermes-agent", "gen_ai.response.id": "chatcmpl-1", "gen_ai.response.finish_reasons": "stop",
		"gen_ai.usage.input_tokens": int64(3), "gen_ai.usage.output_tokens": int64(2),
		"server.address": "127.0.0.1", "server.port": int64(8642), "hermes.outcome": "ok",
	})
	if len(attributes(s.Attributes)) == len(s.Attributes) {
		t.Error("no time to the first chunk")
	}
	if len(s.Events) != 2 || s.Events[0].Name != "hermes.tool.running" || s.Events[1].Name != "hermes.tool.completed" {
		t.Fatalf("events %+v", s.Events)
	}
	id := attributes(s.Events[0].Attributes)["gen_ai.tool.call.id"]
	sameAttributes(t, s.Events[0].Attributes, map[string]any{"gen_ai.tool.name": "terminal", "gen_ai.tool.call.id": id, "hermes.tool.source": "marker"})
	sameAttributes(t, s.Events[1].Attributes, map[string]any{"gen_ai.tool.name": "terminal", "gen_ai.tool.call.id": id, "hermes.tool.source": "inferred"})
}

func TestFailuresHaveFailedSpans(t *testing.T) {
	refused := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		return caddyhttp.Error(http.StatusBadGateway, io.ErrUnexpectedEOF)
	})
	for outcome, c := range map[string]struct {
		name string
		next caddyhttp.HandlerFunc
	}{
		"upstream_incomplete": {"chat hermes-agent", answer("a:1", textFrame)},
		"upstream_aborted":    {"chat", refused},
	} {
		spans, _ := traced(t, "/v1/chat/completions", c.next)
		if len(spans) != 1 || spans[0].Name != c.name || spans[0].Status.Code != codes.Error || spans[0].Status.Description != outcome {
			t.Fatalf("spans %+v", spans)
		}
		if got := attributes(spans[0].Attributes); got["error.type"] != outcome || got["hermes.outcome"] != outcome {
			t.Errorf("attributes %v", got)
		}
	}
}

func TestRunHasASpanOfItsOwnOperation(t *testing.T) {
	run := `data: {"event":"run.started","run_id":"run_1","timestamp":1}` + "\n\n" + `data: {"event":"run.completed","run_id":"run_1","timestamp":2}` + "\n\n"
	spans, _ := traced(t, "/v1/runs/run_1/events", answer("[::1]:8642", run))
	if len(spans) != 1 || spans[0].Name != "invoke_agent" {
		t.Fatalf("spans %+v", spans)
	}
	sameAttributes(t, spans[0].Attributes, map[string]any{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "hermes", "gen_ai.response.id": "run_1",
		"server.address": "::1", "server.port": int64(8642), "hermes.outcome": "ok",
	})
}

func TestRequestThatIsNotSampledHasNoSpan(t *testing.T) {
	if spans, _ := traced(t, "/v1/chat/completions", answer("a:1", textFrame+usedStop), sdktrace.WithSampler(sdktrace.NeverSample())); len(spans) != 0 {
		t.Errorf("spans %+v", spans)
	}
}
