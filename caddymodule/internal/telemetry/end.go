package telemetry

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// The events that are emitted at the end of a stream, for Caddy's events app.
const (
	eventEnded  = "hermes_stream_ended"
	eventFailed = "hermes_stream_failed"
)

// A fact is something about the end of a stream, for placeholders and events.
type fact struct {
	name  string
	value any
}

// endFacts returns what can be said of a stream that has ended.
func endFacts(res proxy.Result) []fact {
	return []fact{
		{"outcome", res.Outcome},
		{"completion_id", bounded.Name(res.ID)},
		{"model", bounded.Name(res.Model)},
		{"upstream", res.Upstream},
		{"status", res.Status},
		{"finish_reason", bounded.Name(res.FinishReason)},
		{"chunks", res.Chunks},
		{"tools", res.Tools},
		{"imitations", res.Imitations},
		{"reasoning", res.Reasoning},
		{"input_tokens", res.InputTokens},
		{"output_tokens", res.OutputTokens},
		{"seconds", res.Duration.Seconds()},
	}
}

// setPlaceholders sets {http.hermes.*} for the handlers that log, or that come
// after this one.
func setPlaceholders(r *http.Request, facts []fact) {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	for _, f := range facts {
		repl.Set("http.hermes."+f.name, f.value)
	}
}

// addToAccessLog adds fields to the line of the access log.
func addToAccessLog(r *http.Request, fields ...zap.Field) {
	if collected(r.Context(), fields) {
		return
	}
	extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if !ok {
		return
	}
	for _, f := range fields {
		extra.Set(f)
	}
}

// emitEnd emits the event of the end.
func (o *Observer) emitEnd(res proxy.Result, facts []fact) {
	name := eventEnded
	if failed(res.Outcome) {
		name = eventFailed
	}
	o.Emitter.emit(name, func() map[string]any {
		data := make(map[string]any, len(facts))
		for _, f := range facts {
			data[f.name] = f.value
		}
		return data
	})
}

// failed reports whether an outcome is a failure of upstream or of the sidecar.
func failed(outcome string) bool {
	switch outcome {
	case proxy.OutcomeOK, proxy.OutcomeClientGone, proxy.OutcomeEncoded:
		return false
	}
	return true
}
