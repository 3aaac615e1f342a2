package telemetry

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// To look up the child of a vector by its labels costs more than to count with it: the
// children that each stream needs are looked up once for the process.

// otherOutcome is the label of an outcome that is not among outcomes.
const otherOutcome = "other"

// outcomeIndex returns where the outcome is among outcomes, behind them if it is not.
func outcomeIndex(outcome string) int {
	if i := slices.Index(outcomes, outcome); i >= 0 {
		return i
	}
	return len(outcomes)
}

// outcomeCounters are a counter for each outcome.
type outcomeCounters struct {
	*prometheus.CounterVec
	known []prometheus.Counter // of outcomes
}

func newOutcomeCounters(o prometheus.CounterOpts) *outcomeCounters {
	c := &outcomeCounters{CounterVec: prometheus.NewCounterVec(o, []string{"outcome"})}
	for _, outcome := range outcomes { // all, so that the first of a kind is an increase
		c.known = append(c.known, c.WithLabelValues(outcome))
	}
	return c
}

// of returns the counter of an outcome.
func (c *outcomeCounters) of(outcome string) prometheus.Counter {
	if i := outcomeIndex(outcome); i < len(c.known) {
		return c.known[i]
	}
	return c.WithLabelValues(otherOutcome)
}

// toolCounters are a counter for each kind of tool event.
type toolCounters struct {
	*prometheus.CounterVec
	known []toolCounter
}

// toolCounter is a counter of the tool events of a kind.
type toolCounter struct {
	completed bool
	source    string
	prometheus.Counter
}

func newToolCounters(o prometheus.CounterOpts) *toolCounters {
	c := &toolCounters{CounterVec: prometheus.NewCounterVec(o, []string{"status", "source"})}
	for _, source := range rewrite.ToolSources() {
		for _, completed := range []bool{false, true} {
			if source.Tells(completed) {
				c.known = append(c.known, toolCounter{completed, string(source), c.WithLabelValues(status(completed), string(source))})
			}
		}
	}
	return c
}

// of returns the counter of the event.
func (c *toolCounters) of(e rewrite.ToolEvent) prometheus.Counter {
	for _, k := range c.known {
		if k.completed == e.Completed && k.source == string(e.Source) {
			return k.Counter
		}
	}
	return c.WithLabelValues(status(e.Completed), string(e.Source))
}

// operation is what is observed of the streams of an operation. No histogram is exposed
// before it has been asked for.
type operation struct {
	name       string // gen_ai.operation.name
	firstChunk func() prometheus.Observer
	pace       func() *pace
	durations  []func() prometheus.Observer // by outcomeIndex
}

func (m *metrics) newOperation(name string) *operation {
	o := &operation{name: name, firstChunk: child(m.firstChunk, name), pace: sync.OnceValue(func() *pace { return m.outputChunk.add(name) })}
	for _, outcome := range append(slices.Clone(outcomes), otherOutcome) {
		kind := outcome // of the error, none for a stream that came to its end
		if outcome == proxy.OutcomeOK || outcome == proxy.OutcomeEncoded {
			kind = ""
		}
		o.durations = append(o.durations, child(m.duration, name, kind))
	}
	return o
}

// took observes how long a stream took. Its error is the outcome. That of a client that
// left is apart, for it is shorter.
func (o *operation) took(res *proxy.Result) {
	o.durations[outcomeIndex(res.Outcome)]().Observe(res.Duration.Seconds())
}

// child returns what returns the histogram with the labels.
func child(v *prometheus.HistogramVec, labels ...string) func() prometheus.Observer {
	return sync.OnceValue(func() prometheus.Observer { return v.WithLabelValues(labels...) })
}
