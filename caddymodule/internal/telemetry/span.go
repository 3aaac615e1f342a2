package telemetry

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// tracerName is the name of the instrumentation.
const tracerName = "github.com/hermes-sidecar/hermes-sidecar/caddymodule"

// streamSpan is the span of a stream, below that of the request, with the
// attributes of OpenTelemetry's conventions for generative AI. Nothing that was
// said is in it, and no label of a tool. A nil one does nothing.
type streamSpan struct {
	op   string
	span trace.Span
}

// startSpan starts the span of a stream whose request came at since, nil if the
// request is not traced: only Caddy's tracing directive makes it so.
func startSpan(r *http.Request, op string, since time.Time) *streamSpan {
	parent := trace.SpanFromContext(r.Context())
	if !parent.IsRecording() {
		return nil
	}
	_, span := parent.TracerProvider().Tracer(tracerName).Start(r.Context(), op,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(since),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", op),
			attribute.String("gen_ai.provider.name", provider),
		))
	return &streamSpan{op, span}
}

// firstChunk records how long after the request the first chunk has come.
func (s *streamSpan) firstChunk(d time.Duration) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", d.Seconds()))
}

// tool adds the start or the end of a tool.
func (s *streamSpan) tool(now time.Time, e rewrite.ToolEvent) {
	if s == nil {
		return
	}
	s.span.AddEvent("hermes.tool."+status(e.Completed), trace.WithTimestamp(now), trace.WithAttributes(
		attribute.String("gen_ai.tool.name", bounded.Name(e.Name)),
		attribute.String("gen_ai.tool.call.id", bounded.Name(e.ID)),
		attribute.String("hermes.tool.source", string(e.Source)),
	))
}

// end ends the span.
func (s *streamSpan) end(res proxy.Result) {
	if s == nil {
		return
	}
	// The model that was asked for is in the request, which is not read for this.
	if model := bounded.Name(res.Model); model != "" {
		s.span.SetName(s.op + " " + model)
		s.span.SetAttributes(attribute.String("gen_ai.response.model", model))
	}
	if res.ID != "" {
		s.span.SetAttributes(attribute.String("gen_ai.response.id", bounded.Name(res.ID)))
	}
	s.span.SetAttributes(attribute.String("hermes.outcome", res.Outcome))
	s.span.SetAttributes(serverOf(res.Upstream)...)
	if res.FinishReason != "" {
		s.span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{bounded.Name(res.FinishReason)}))
	}
	if res.InputTokens+res.OutputTokens > 0 {
		s.span.SetAttributes(
			attribute.Int64("gen_ai.usage.input_tokens", res.InputTokens),
			attribute.Int64("gen_ai.usage.output_tokens", res.OutputTokens))
	}
	if failed(res.Outcome) {
		s.span.SetAttributes(attribute.String("error.type", res.Outcome))
		s.span.SetStatus(codes.Error, res.Outcome)
	}
	s.span.End()
}

// serverOf names the upstream, the host and port or the socket that reverse_proxy
// chose.
func serverOf(upstream string) []attribute.KeyValue {
	if upstream == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(upstream)
	if err != nil {
		return []attribute.KeyValue{attribute.String("server.address", upstream)}
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return []attribute.KeyValue{attribute.String("server.address", host)}
	}
	return []attribute.KeyValue{attribute.String("server.address", host), attribute.Int("server.port", number)}
}
