package telemetry

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// The events that are emitted at the end of a stream, for Caddy's events app.
const (
	eventEnded  = "hermes_stream_ended"
	eventFailed = "hermes_stream_failed"
)

// ended is a stream that has ended, for placeholders and events.
type ended struct{ proxy.Result }

// facts are the fields of an ended stream, in their order. The log has them up to seconds.
var facts = []struct {
	name string
	of   func(e *ended) any
}{
	{"completion_id", func(e *ended) any { return bounded.Name(e.ID) }},
	{"model", func(e *ended) any { return bounded.Name(e.Model) }},
	{"upstream", func(e *ended) any { return e.Upstream }},
	{"outcome", func(e *ended) any { return e.Outcome }},
	{"status", func(e *ended) any { return e.Status }},
	{"finish_reason", func(e *ended) any { return bounded.Name(e.FinishReason) }},
	{"chunks", func(e *ended) any { return e.Chunks }},
	{"tools", func(e *ended) any { return e.Tools }},
	{"imitations", func(e *ended) any { return e.Imitations }},
	{"reasoning", func(e *ended) any { return e.Reasoning }},
	{"seconds", func(e *ended) any { return e.Duration.Seconds() }},
	{"input_tokens", func(e *ended) any { return e.InputTokens }},
	{"output_tokens", func(e *ended) any { return e.OutputTokens }},
}

// fact returns the field of the name, and whether there is one.
func (e *ended) fact(name string) (any, bool) {
	for _, f := range facts {
		if f.name == name {
			return f.of(e), true
		}
	}
	return nil, false
}

// facts returns all fields, by name.
func (e *ended) facts() map[string]any {
	all := make(map[string]any, len(facts))
	for _, f := range facts {
		all[f.name] = f.of(e)
	}
	return all
}

// String is what the placeholder endedKey stands for.
func (e *ended) String() string { return e.Outcome }

const (
	placeholders = "http.hermes." // the names of all of them begin with
	endedKey     = "http.hermes"  // has an *ended
)

// ProvidePlaceholders adds the placeholders {http.hermes.*} to the replacer of a request,
// which have values once its stream has ended. It runs before the handlers that use the
// replacer, because the providers of a replacer have no lock.
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
