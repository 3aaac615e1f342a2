package operations

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector receives spans as OTLP, in protocol buffers over HTTP.
type collector struct {
	t     testing.TB
	url   string
	spans chan *trace.Span
}

func newCollector(t testing.TB) *collector {
	c := &collector{t: t, spans: make(chan *trace.Span, 256)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sidecar was killed at the end of the test, while it exported
		}
		// What is exported has the form of TracesData (otlp trace.proto).
		var data trace.TracesData
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &data) != nil {
			t.Errorf("%s %s", r.URL, r.Header.Get("Content-Type"))
			return
		}
		for _, resource := range data.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					c.spans <- span
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// environment has the sidecar export to the collector, soon.
func (c *collector) environment() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=20"}
}

// receive waits for a span of the name.
func (c *collector) receive(name string) *trace.Span {
	c.t.Helper()
	deadline := time.After(harness.Patience)
	for {
		select {
		case s := <-c.spans:
			if s.GetName() == name {
				return s
			}
		case <-deadline:
			c.t.Fatalf("no span %q", name)
		}
	}
}

// attributes are those of a span or of an event, as text.
func attributes(all []*common.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, a := range all {
		m[a.GetKey()] = text(a.GetValue())
	}
	return m
}

func text(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, one := range v.ArrayValue.GetValues() {
			all = append(all, text(one))
		}
		return strings.Join(all, ",")
	}
	return v.String()
}

// TestStreamsAreTraced to a collector, below the span of their request. Those of failures: TestFailuresHaveFailedSpans,
// in caddymodule; none without the directive: TestNoSpanWithoutTracing, in telemetry.
func TestStreamsAreTraced(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g3-v0.20.3/one_tool"), upstream.ByFrame))
	c := newCollector(t)
	w := watch(t, up, "", "tracing {\n\t\tspan handler\n\t\tspan_attributes {\n\t\t\thermes.tools {http.hermes.tools}\n\t\t}\n\t}\n\thermes", c.environment()...)

	w.Chat("Traceparent", "00-11111111111111111111111111111111-2222222222222222-01").Answer()
	s := c.receive("chat hermes-agent")
	if s.GetKind() != trace.Span_SPAN_KIND_CLIENT || string(s.GetTraceId()) != strings.Repeat("\x11", 16) || s.GetStatus().GetCode() != trace.Status_STATUS_CODE_UNSET {
		t.Errorf("span %v", s)
	}
	request := c.receive("handler")
	if string(s.GetParentSpanId()) != string(request.GetSpanId()) {
		t.Error("the stream is not below its request")
	}
	if got := attributes(request.GetAttributes())["hermes.tools"]; got != "1" {
		t.Errorf("the placeholder in the span of the request is %q, want 1", got)
	}
}
