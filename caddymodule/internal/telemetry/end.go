package telemetry

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// The events that are emitted at the end of a stream, for Caddy's events app.
const (
	eventEnded  = "hermes_stream_ended"
	eventFailed = "hermes_stream_failed"
)

// ended is a stream that has ended, for placeholders and events. They are read by few, so
// that nothing is made of it before.
type ended struct{ proxy.Result }

// facts are what can be said of a stream that has ended, by name.
var facts = []struct {
	name string
	of   func(e *ended) any
}{
	{"outcome", func(e *ended) any { return e.Outcome }},
	{"completion_id", func(e *ended) any { return bounded.Name(e.ID) }},
	{"model", func(e *ended) any { return bounded.Name(e.Model) }},
	{"upstream", func(e *ended) any { return e.Upstream }},
	{"status", func(e *ended) any { return e.Status }},
	{"finish_reason", func(e *ended) any { return bounded.Name(e.FinishReason) }},
	{"chunks", func(e *ended) any { return e.Chunks }},
	{"tools", func(e *ended) any { return e.Tools }},
	{"imitations", func(e *ended) any { return e.Imitations }},
	{"reasoning", func(e *ended) any { return e.Reasoning }},
	{"input_tokens", func(e *ended) any { return e.InputTokens }},
	{"output_tokens", func(e *ended) any { return e.OutputTokens }},
	{"seconds", func(e *ended) any { return e.Duration.Seconds() }},
}

// fact returns what can be said of the stream under the name, and whether there is such a
// name.
func (e *ended) fact(name string) (any, bool) {
	for _, f := range facts {
		if f.name == name {
			return f.of(e), true
		}
	}
	return nil, false
}

// facts returns all of them, by name.
func (e *ended) facts() map[string]any {
	all := make(map[string]any, len(facts))
	for _, f := range facts {
		all[f.name] = f.of(e)
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
		return e.fact(name)
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
