package telemetry

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// The events that are emitted at the end of a stream, for Caddy's events app.
const (
	eventEnded  = "hermes_stream_ended"
	eventFailed = "hermes_stream_failed"
)

// factNames are the names of what can be said of a stream that has ended.
var factNames = []string{
	"outcome", "completion_id", "model", "upstream", "status", "finish_reason", "chunks", "tools", "imitations", "reasoning",
	"input_tokens", "output_tokens", "seconds",
}

// ended is a stream that has ended, for placeholders and events. They are read by few, so
// that nothing is made of it before.
type ended struct{ proxy.Result }

// fact returns what can be said of the stream under the name, nil for no such name.
func (e *ended) fact(name string) any {
	switch name {
	case "outcome":
		return e.Outcome
	case "completion_id":
		return bounded.Name(e.ID)
	case "model":
		return bounded.Name(e.Model)
	case "upstream":
		return e.Upstream
	case "status":
		return e.Status
	case "finish_reason":
		return bounded.Name(e.FinishReason)
	case "chunks":
		return e.Chunks
	case "tools":
		return e.Tools
	case "imitations":
		return e.Imitations
	case "reasoning":
		return e.Reasoning
	case "input_tokens":
		return e.InputTokens
	case "output_tokens":
		return e.OutputTokens
	case "seconds":
		return e.Duration.Seconds()
	}
	return nil
}

// facts returns all of them, by name.
func (e *ended) facts() map[string]any {
	all := make(map[string]any, len(factNames))
	for _, name := range factNames {
		all[name] = e.fact(name)
	}
	return all
}

// String is what the placeholder endedKey stands for.
func (e *ended) String() string { return e.Outcome }

// MarshalLogObject adds the fields of the access log. They are made when its line is.
func (e *ended) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("hermes_outcome", e.Outcome)
	enc.AddInt64("hermes_tools", int64(e.Tools))
	return nil
}

// logFields returns all of them as one, which has the name of the first: to set one costs
// less than to set two.
func (e *ended) logFields() zap.Field {
	return zap.Field{Key: "hermes_outcome", Type: zapcore.InlineMarshalerType, Interface: e}
}

const (
	placeholders = "http.hermes." // the names of all of them begin with
	endedKey     = "http.hermes"  // has an *ended
)

// ProvidePlaceholders lets the replacer of a request say {http.hermes.*} of its stream
// once that has ended. It comes before the handlers that use the replacer: only what it
// has, not who it asks, may change beside them.
func ProvidePlaceholders(r *http.Request) {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	repl.Map(func(key string) (any, bool) {
		name, ours := strings.CutPrefix(key, placeholders)
		if !ours {
			return nil, false
		}
		v, _ := repl.Get(endedKey)
		e, ok := v.(*ended)
		if !ok {
			return nil, false
		}
		fact := e.fact(name)
		return fact, fact != nil
	})
}

// setPlaceholder sets a placeholder for the handlers that log, or that come after this
// one.
func setPlaceholder(r *http.Request, key string, value any) {
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Set(key, value)
	}
}

// addToAccessLog adds fields to the line of the access log, if there is one.
func addToAccessLog(r *http.Request, fields ...zap.Field) {
	if s, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && s != nil && s.Logs == nil {
		return
	}
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
