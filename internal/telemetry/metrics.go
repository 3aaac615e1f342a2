package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
	"github.com/hermes-sidecar/hermes-sidecar/internal/details"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// genAIBuckets are the bounds in seconds that OpenTelemetry's conventions for
// generative AI give the histograms of clients.
var genAIBuckets = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}

// longBuckets go on to more than two hours, for agents and tools take longer
// than the models that the conventions were made for.
var longBuckets = append(slices.Clone(genAIBuckets), 163.84, 327.68, 655.36, 1310.72, 2621.44, 5242.88, 10485.76)

// The operations of streams, as OpenTelemetry's conventions name them: chat completions, and the
// responses and runs of an agent.
const (
	operationChat  = "chat"
	operationAgent = "invoke_agent"
)

// The values of the label source of records: the tool calls of the request, and the memory.
const (
	recordOfRequest = "request"
	recordOfMemory  = "memory"
)

// provider is the attribute gen_ai.provider.name.
const provider = "hermes"

// outcomes are the values of the label outcome.
var outcomes = []string{
	proxy.OutcomeOK, proxy.OutcomeClientGone, proxy.OutcomeEncoded,
	rewrite.CodeAborted, rewrite.CodeIncomplete, rewrite.CodeTimeout, rewrite.CodeCrashed, rewrite.CodeEmpty,
	rewrite.CodeAgentError, rewrite.CodeAgentIncomplete, rewrite.CodeShutdown, rewrite.CodeQueueFull, rewrite.CodeQueueTimeout,
}

// metrics are counted for all configurations of the process, so that a reload
// resets none. They are registered with the registry of each configuration,
// which Caddy makes anew.
type metrics struct {
	all    []prometheus.Collector
	active prometheus.Gauge
	tool   prometheus.Histogram

	streams, answers                  *prometheus.CounterVec
	toolEvents, toolDetails           *prometheus.CounterVec
	markers, imitations, reasoning    prometheus.Counter // in answers
	histories, healed                 prometheus.Counter
	records                           *prometheus.CounterVec
	unexamined, keepalives            prometheus.Counter
	firstChunk, outputChunk, duration *prometheus.HistogramVec
}

// with adds c to the collectors of m, and returns it.
func with[C prometheus.Collector](m *metrics, c C) C {
	m.all = append(m.all, c)
	return c
}

func newMetrics(d *desk.Desk) *metrics {
	m := &metrics{all: []prometheus.Collector{approvals{d}}}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "caddy", Subsystem: "hermes", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter { return with(m, prometheus.NewCounter(opts(name, help))) }
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with(m, prometheus.NewCounterVec(opts(name, help), labels))
	}
	// These are metrics of OpenTelemetry, named as its exporter for Prometheus names them, with the
	// attributes that its conventions require and more. Values that upstream or a client may choose
	// are no labels.
	genAI := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return with(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "gen_ai", Subsystem: "client_operation", Name: name, Help: help, Buckets: buckets,
			ConstLabels: prometheus.Labels{"gen_ai_provider_name": provider},
		}, append([]string{"gen_ai_operation_name"}, labels...)))
	}
	b := build.This()
	info := prometheus.GaugeOpts(opts("build_info",
		"Always 1. The labels say which version of the sidecar runs, the commit if it is known, and the versions of Go and Caddy."))
	info.ConstLabels = prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.Go, "caddyversion": b.Caddy}
	with(m, prometheus.NewGaugeFunc(info, func() float64 { return 1 }))
	m.active = with(m, prometheus.NewGauge(prometheus.GaugeOpts(opts("streams_active", "Number of streams that are open."))))
	m.streams = vector("streams_total",
		"Counter of streams that have ended, and of requests that were answered with an error instead of a stream, by outcome.", "outcome")
	m.answers = vector("answers_total",
		"Counter of chat completions that were not streamed, or were answered with an error, by outcome.", "outcome")
	m.toolEvents = vector("tool_events_total", "Counter of starts and ends of tools, by source.", "status", "source")
	m.toolDetails = vector("tool_details_total", "Counter of requests to upstream for the arguments and results of tools, by outcome.", "outcome")
	m.markers = counter("markers_total", "Counter of tool markers that were removed from the text and started a tool.")
	m.imitations = counter("imitations_total", "Counter of markers that were removed from the text and started no tool.")
	m.reasoning = counter("reasoning_total", "Counter of stretches of reasoning between tags that were removed from the text.")
	m.histories = counter("histories_healed_total", "Counter of requests from whose history markers were removed.")
	m.healed = counter("history_markers_total", "Counter of markers that were removed from the histories of requests.")
	m.records = vector("records_total", "Counter of tool records that were added to the histories of requests, by source.", "source")
	m.unexamined = counter("frames_unexamined_total", "Counter of frames that were larger than max_frame and passed unexamined.")
	m.keepalives = counter("keepalives_total", "Counter of keepalives that were sent.")
	m.firstChunk = genAI("time_to_first_chunk_seconds", "Time from the request to the first chunk of a stream.", genAIBuckets)
	m.outputChunk = genAI("time_per_output_chunk_seconds", "Time between the chunks of a stream.", genAIBuckets)
	m.duration = genAI("duration_seconds", "Time from the request to the end of a stream.", longBuckets, "error_type")
	tool := prometheus.HistogramOpts{Namespace: "caddy", Subsystem: "hermes", Name: "tool_duration_seconds", Buckets: longBuckets}
	tool.Help = "Time between the start of a tool and its end, which may be inferred."
	m.tool = with(m, prometheus.NewHistogram(tool))
	for _, outcome := range outcomes { // all, so that the first of a kind is an increase
		m.streams.WithLabelValues(outcome)
		m.answers.WithLabelValues(outcome)
	}
	for _, source := range []string{recordOfRequest, recordOfMemory} {
		m.records.WithLabelValues(source)
	}
	for _, outcome := range details.Outcomes() {
		m.toolDetails.WithLabelValues(string(outcome))
	}
	for _, source := range rewrite.ToolSources() {
		for _, completed := range []bool{false, true} {
			if source.Tells(completed) {
				m.toolEvents.WithLabelValues(status(completed), string(source))
			}
		}
	}
	return m
}

// Metrics returns the metrics, for the registry of a configuration.
func (p *Process) Metrics() []prometheus.Collector { return p.metrics.all }

// CountDetails counts a question for what tools were given and returned.
func (p *Process) CountDetails(o details.Outcome) {
	p.metrics.toolDetails.WithLabelValues(string(o)).Inc()
}

// outcomeLabel returns the value of the label for an outcome: "other" if it is not among
// outcomes.
func outcomeLabel(outcome string) string {
	if slices.Contains(outcomes, outcome) {
		return outcome
	}
	return "other"
}

// took observes how long a stream of the operation took. The label error_type is the outcome, empty
// if the stream came to its end. A stream whose client left has a value of its own, because it is
// shorter.
func (m *metrics) took(operation string, res *proxy.Result) {
	kind := outcomeLabel(res.Outcome)
	if kind == proxy.OutcomeOK || kind == proxy.OutcomeEncoded {
		kind = ""
	}
	m.duration.WithLabelValues(operation, kind).Observe(res.Duration.Seconds())
}

// ended counts the end of a stream, or an answer.
func (m *metrics) ended(res *proxy.Result) {
	counters := m.streams
	if res.Whole {
		counters = m.answers
	}
	counters.WithLabelValues(outcomeLabel(res.Outcome)).Inc()
	m.markers.Add(float64(res.Markers))
	m.imitations.Add(float64(res.Imitations))
	m.reasoning.Add(float64(res.Reasoning))
	m.unexamined.Add(float64(res.Unexamined))
	m.keepalives.Add(float64(res.Keepalives))
}

// status returns the status of a tool event as it is on the wire.
func status(completed bool) string {
	if completed {
		return "completed"
	}
	return "running"
}
