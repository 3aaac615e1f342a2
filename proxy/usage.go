package proxy

import (
	"net/http"
)

// UsageStore remembers which models of which upstreams have reported usage
// (contract section 3, "false stop"). It is used by many streams at once, and
// Report must not make them wait.
type UsageStore interface {
	// Reported tells whether an answer of the model has reported usage.
	Reported(upstream, model string) bool
	// Report notes that one has.
	Report(upstream, model string)
}

// usageMemory is the part of a UsageStore that belongs to the upstream of a
// request.
type usageMemory struct {
	store    UsageStore
	upstream func(*http.Request) string
	r        *http.Request
}

// Reported implements rewrite.UsageMemory.
func (m usageMemory) Reported(model string) bool {
	return m.store.Reported(m.upstream(m.r), model)
}

// Report implements rewrite.UsageMemory.
func (m usageMemory) Report(model string) { m.store.Report(m.upstream(m.r), model) }
