package telemetry

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// EndedStream is a stream that has ended, an error instead of one, or an answer that was repaired.
// The admin API shows the fields with a name in JSON. The log, the placeholders and the events have
// its facts.
type EndedStream struct {
	ID           string    `json:"id,omitempty"`
	Model        string    `json:"model,omitempty"`
	Upstream     string    `json:"upstream,omitempty"`
	Path         string    `json:"path"`
	Outcome      string    `json:"outcome"`
	Status       int       `json:"status"`
	FinishReason string    `json:"finish_reason,omitempty"`
	Chunks       int       `json:"chunks"`
	Tools        int       `json:"tools"`
	Seconds      float64   `json:"seconds"`
	Ended        time.Time `json:"ended"`

	Imitations   int   `json:"-"`
	Reasoning    int   `json:"-"`
	InputTokens  int64 `json:"-"`
	OutputTokens int64 `json:"-"`
}

// newEnded returns the EndedStream of a stream of the path that has ended now with res.
func newEnded(path string, res *proxy.Result, now time.Time) *EndedStream {
	return &EndedStream{
		ID: bounded.Name(res.ID), Model: bounded.Name(res.Model), Upstream: res.Upstream, Path: bounded.Name(path),
		Outcome: res.Outcome, Status: res.Status, FinishReason: bounded.Name(res.FinishReason),
		Chunks: res.Chunks, Tools: res.Tools, Seconds: res.Duration.Seconds(), Ended: now.UTC(),
		Imitations: res.Imitations, Reasoning: res.Reasoning,
		InputTokens: res.InputTokens, OutputTokens: res.OutputTokens,
	}
}

// A fact is a field of an ended stream.
type fact struct {
	name  string
	value any
}

// facts returns the facts in their order. The log has them up to seconds.
func (e *EndedStream) facts() []fact {
	return []fact{
		{"completion_id", e.ID}, {"model", e.Model}, {"upstream", e.Upstream},
		{"outcome", e.Outcome}, {"status", e.Status}, {"finish_reason", e.FinishReason},
		{"chunks", e.Chunks}, {"tools", e.Tools}, {"imitations", e.Imitations}, {"reasoning", e.Reasoning},
		{"seconds", e.Seconds},
		{"input_tokens", e.InputTokens}, {"output_tokens", e.OutputTokens},
	}
}

// data returns the facts by name, for events.
func (e *EndedStream) data() map[string]any {
	all := make(map[string]any)
	for _, f := range e.facts() {
		all[f.name] = f.value
	}
	return all
}

// placeholders is the prefix of the placeholders that a request has once its stream has ended, one
// for each fact.
const placeholders = "http.hermes."

// ended gives placeholders their values, which are made when they are read: few configurations have
// any.
type ended struct {
	last atomic.Pointer[EndedStream] // an error route may have a stream of its own, after another
}

// OfferPlaceholders makes the Replacer of r know the placeholders. It must be called before other
// goroutines may read that Replacer, because Map takes no lock (Caddy: replacer.go:88).
func OfferPlaceholders(r *http.Request) { endedOf(r) }

// endedOf returns the ended that the Replacer of r knows, and makes it if there is none. It returns
// nil if r has no Replacer. The Replacer of a client of hermes_resume knows that of its run.
func endedOf(r *http.Request) *ended {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return nil
	}
	const key = "hermes.ended"
	v, _ := repl.Get(key)
	if e, ok := v.(*ended); ok {
		return e
	}
	e := new(ended)
	repl.Map(e.fact)
	repl.Set(key, e)
	return e
}

// fact returns the value of the placeholder key. It reports false if there is none, or if no stream
// has ended.
func (e *ended) fact(key string) (any, bool) {
	name, ok := strings.CutPrefix(key, placeholders)
	last := e.last.Load()
	if !ok || last == nil {
		return nil, false
	}
	for _, f := range last.facts() {
		if f.name == name {
			return f.value, true
		}
	}
	return nil, false
}

// failed reports whether an outcome is a failure of upstream or of the sidecar.
func failed(outcome string) bool {
	return outcome != proxy.OutcomeOK && outcome != proxy.OutcomeClientGone && outcome != proxy.OutcomeEncoded
}
