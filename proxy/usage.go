package proxy

// UsageStore remembers which models of which upstreams have reported usage, and
// which upstreams report their failures themselves (contract section 3, third rule
// of "false stop"). It is used by many streams at once. Only Reported may make them
// wait.
type UsageStore interface {
	// Reported reports whether an answer of the model that has no usage is one of
	// an agent that failed; see rewrite.UsageMemory, as for the others.
	Reported(upstream, model string) bool
	// Report records that an answer of the model has reported usage.
	Report(upstream, model string)
	// Missed records that an answer without usage has been taken for a crash.
	Missed(upstream, model string)
	// ReportsFailures records whether the upstream reports its failures itself.
	ReportsFailures(upstream string, does bool)
}

// usageMemory is the part of a UsageStore that belongs to the upstream of a
// request.
type usageMemory struct {
	store    UsageStore
	upstream string
}

// completedHeader is the header in which an upstream says whether its agent has
// ended well. One that has it reports its failures itself (contract section 3,
// third rule of "false stop").
const completedHeader = "X-Hermes-Completed"

// recordCompletedHeader records what the header of the answer says of its upstream.
func (x *exchange) recordCompletedHeader() {
	if !x.chat || x.p.o.Usage == nil {
		return
	}
	if _, says := x.client.w.Header()[completedHeader]; says {
		x.usage().ReportsFailures(true)
	}
}

// Reported implements rewrite.UsageMemory.
func (m usageMemory) Reported(model string) bool {
	return m.store.Reported(m.upstream, model)
}

// Report implements rewrite.UsageMemory.
func (m usageMemory) Report(model string) { m.store.Report(m.upstream, model) }

// Missed implements rewrite.UsageMemory.
func (m usageMemory) Missed(model string) { m.store.Missed(m.upstream, model) }

// ReportsFailures implements rewrite.UsageMemory.
func (m usageMemory) ReportsFailures(does bool) {
	m.store.ReportsFailures(m.upstream, does)
}
