package telemetry

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// tracerName is the name of the instrumentation.
const tracerName = "github.com/hermes-sidecar/hermes-sidecar/caddymodule"

// startSpan starts the span of a stream whose request came at since, as a child of the request's
// span, with the attributes of OpenTelemetry's conventions for generative AI. The span has nothing
// that was said, and no label of a tool. It records nothing unless the request is traced by Caddy's
// tracing directive.
func startSpan(r *http.Request, op string, since time.Time) trace.Span {
	parent := trace.SpanFromContext(r.Context())
	if !parent.IsRecording() {
		return noop.Span{}
	}
	_, span := parent.TracerProvider().Tracer(tracerName).Start(r.Context(), op,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(since),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", op),
			attribute.String("gen_ai.provider.name", provider),
		))
	return span
}

// spanTool adds the start or the end of a tool to span.
func spanTool(span trace.Span, now time.Time, e rewrite.ToolEvent) {
	if !span.IsRecording() {
		return
	}
	span.AddEvent("hermes.tool."+status(e.Completed), trace.WithTimestamp(now), trace.WithAttributes(
		attribute.String("gen_ai.tool.name", bounded.Name(e.Name)),
		attribute.String("gen_ai.tool.call.id", bounded.Name(e.ID)),
		attribute.String("hermes.tool.source", string(e.Source)),
	))
}

// endSpan ends the span of an operation.
func endSpan(span trace.Span, op string, res proxy.Result) {
	if !span.IsRecording() {
		return
	}
	attributes := append(serverOf(res.Upstream), attribute.String("hermes.outcome", res.Outcome))
	add := func(given bool, more ...attribute.KeyValue) {
		if given {
			attributes = append(attributes, more...)
		}
	}
	// The model that was asked for is in the request, which is not read for this.
	if model := bounded.Name(res.Model); model != "" {
		span.SetName(op + " " + model)
		add(true, attribute.String("gen_ai.response.model", model))
	}
	add(res.ID != "", attribute.String("gen_ai.response.id", bounded.Name(res.ID)))
	add(res.FinishReason != "", attribute.StringSlice("gen_ai.response.finish_reasons", []string{bounded.Name(res.FinishReason)}))
	add(res.InputTokens+res.OutputTokens > 0, attribute.Int64("gen_ai.usage.input_tokens", res.InputTokens),
		attribute.Int64("gen_ai.usage.output_tokens", res.OutputTokens))
	if failed(res.Outcome) {
		add(true, attribute.String("error.type", res.Outcome))
		span.SetStatus(codes.Error, res.Outcome)
	}
	span.SetAttributes(attributes...)
	span.End()
}

// serverOf returns the attributes of upstream, the host and port or the socket that reverse_proxy
// chose.
func serverOf(upstream string) []attribute.KeyValue {
	if upstream == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(upstream)
	if err != nil {
		host = upstream
	}
	server := []attribute.KeyValue{attribute.String("server.address", host)}
	if number, err := strconv.Atoi(port); err == nil {
		server = append(server, attribute.Int("server.port", number))
	}
	return server
}
