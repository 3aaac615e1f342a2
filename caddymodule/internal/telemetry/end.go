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

// endFacts returns what can be said of a stream that has ended, for placeholders and
// events.
func endFacts(res proxy.Result) map[string]any {
	return map[string]any{
		"outcome":       res.Outcome,
		"completion_id": bounded.Name(res.ID),
		"model":         bounded.Name(res.Model),
		"upstream":      res.Upstream,
		"status":        res.Status,
		"finish_reason": bounded.Name(res.FinishReason),
		"chunks":        res.Chunks,
		"tools":         res.Tools,
		"imitations":    res.Imitations,
		"reasoning":     res.Reasoning,
		"input_tokens":  res.InputTokens,
		"output_tokens": res.OutputTokens,
		"seconds":       res.Duration.Seconds(),
	}
}

// setPlaceholders sets {http.hermes.*} for the handlers that log, or that come
// after this one.
func setPlaceholders(r *http.Request, facts map[string]any) {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	for name, value := range facts {
		repl.Set("http.hermes."+name, value)
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

// failed reports whether an outcome is a failure of upstream or of the sidecar.
func failed(outcome string) bool {
	switch outcome {
	case proxy.OutcomeOK, proxy.OutcomeClientGone, proxy.OutcomeEncoded:
		return false
	}
	return true
}
