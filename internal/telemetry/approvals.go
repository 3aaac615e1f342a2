package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// approvals exposes the numbers of a desk.
type approvals struct{ desk *desk.Desk }

// Describe implements prometheus.Collector.
func (a approvals) Describe(d chan<- *prometheus.Desc) { prometheus.DescribeByCollect(a, d) }

// Collect implements prometheus.Collector.
func (a approvals) Collect(m chan<- prometheus.Metric) {
	add := func(kind prometheus.ValueType, n uint64, name, help string, labels, values []string) {
		desc := prometheus.NewDesc("caddy_hermes_approvals_"+name, help, labels, nil)
		m <- prometheus.MustNewConstMetric(desc, kind, float64(n), values...)
	}
	counter, s := prometheus.CounterValue, a.desk.Stats()
	add(prometheus.GaugeValue, s.Waiting, "waiting", "Number of approvals waiting for an answer.", nil, nil)
	add(counter, s.Asked, "asked_total", "Counter of approvals that clients were asked for.", nil, nil)
	add(counter, s.Expired, "expired_total", "Counter of approvals that nobody answered in time.", nil, nil)
	add(counter, s.Omitted, "omitted_total", "Counter of approvals that clients were not asked for, because a bound was reached or the request had no id.", nil, nil)
	for _, c := range []rewrite.ApprovalChoice{desk.Once, desk.Session, desk.Always, desk.Deny} {
		for _, way := range []desk.Way{desk.Page, desk.Reply} {
			if way == desk.Reply && (c == desk.Session || c == desk.Always) {
				continue // no reply means these
			}
			add(counter, s.Answered[desk.AnswerKind{Choice: c, Way: way}], "answered_total",
				"Counter of answers that upstream accepted, by choice and way.", []string{"choice", "way"}, []string{string(c), string(way)})
		}
	}
}
