package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/approval"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// approvals exposes the numbers of a desk.
type approvals struct{ desk *approval.Desk }

// Describe implements prometheus.Collector.
func (a approvals) Describe(d chan<- *prometheus.Desc) { prometheus.DescribeByCollect(a, d) }

// Collect implements prometheus.Collector.
func (a approvals) Collect(m chan<- prometheus.Metric) {
	add := func(kind prometheus.ValueType, n uint64, name, help string, labels, values []string) {
		desc := prometheus.NewDesc("caddy_hermes_approvals_"+name, help, labels, nil)
		m <- prometheus.MustNewConstMetric(desc, kind, float64(n), values...)
	}
	counter, s := prometheus.CounterValue, a.desk.Stats()
	add(prometheus.GaugeValue, s.Waiting, "waiting", "Number of approvals that wait for an answer.", nil, nil)
	add(counter, s.Asked, "asked_total", "Counter of approvals that clients were asked for.", nil, nil)
	add(counter, s.Expired, "expired_total", "Counter of approvals that nobody answered in time.", nil, nil)
	add(counter, s.Omitted, "omitted_total", "Counter of approvals that clients were not asked for, because a bound was reached or the request had no id.", nil, nil)
	for _, c := range []rewrite.ApprovalChoice{approval.Once, approval.Session, approval.Always, approval.Deny} {
		for _, way := range []approval.Way{approval.Page, approval.Reply} {
			if way == approval.Reply && (c == approval.Session || c == approval.Always) {
				continue // no reply means these
			}
			add(counter, s.Answered[approval.Answer{Choice: c, Way: way}], "answered_total",
				"Counter of answers that upstream has taken, by choice and way.", []string{"choice", "way"}, []string{string(c), string(way)})
		}
	}
}
