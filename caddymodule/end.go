package caddymodule

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// The events that are emitted at the end of a stream, for Caddy's events app.
const (
	eventEnded  = "hermes_stream_ended"
	eventFailed = "hermes_stream_failed"
)

// onEnd tells all who want to know that a stream has ended, or that a request
// was answered in the stead of one. The client has been sent everything by then,
// save the end of the body.
func (h *Handler) onEnd(r *http.Request, res proxy.Result) {
	facts := endFacts(res)
	h.shared.metrics.ended(res)
	h.shared.live.record(r.URL.Path, res, time.Now())
	setPlaceholders(r, facts)
	addToAccessLog(r, zap.String("hermes_outcome", res.Outcome), zap.Int("hermes_tools", res.Tools))
	h.logEnd(res)
	h.emit(res, facts)
}

// Healed implements proxy.Observer.
func (h *Handler) Healed(r *http.Request, markers int) {
	h.shared.metrics.historyHealed(markers)
	addToAccessLog(r, zap.Int("hermes_healed", markers))
	h.logHeal(r, markers)
}

// A fact is something about the end of a stream, for placeholders and events.
type fact struct {
	name  string
	value any
}

// endFacts returns what can be said of a stream that has ended.
func endFacts(res proxy.Result) []fact {
	return []fact{
		{"outcome", res.Outcome},
		{"completion_id", logged(res.ID)},
		{"model", logged(res.Model)},
		{"upstream", res.Upstream},
		{"status", res.Status},
		{"finish_reason", logged(res.FinishReason)},
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
	extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if !ok {
		return
	}
	for _, f := range fields {
		extra.Set(f)
	}
}

// emit emits the event of the end.
func (h *Handler) emit(res proxy.Result, facts []fact) {
	name := eventEnded
	if failed(res.Outcome) {
		name = eventFailed
	}
	e, ok := h.emitter()
	if !ok || !e.app.ShouldEmit(name) {
		return
	}
	data := make(map[string]any, len(facts))
	for _, f := range facts {
		data[f.name] = f.value
	}
	e.app.Emit(e.ctx, name, data)
}

// failed tells whether an outcome is a failure of upstream's, or of ours.
func failed(outcome string) bool {
	switch outcome {
	case proxy.OutcomeOK, proxy.OutcomeClientGone, proxy.OutcomeEncoded:
		return false
	}
	return true
}
