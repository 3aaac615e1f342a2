package queuecaddy

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/internal/accesslog"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// seen adds how long the request has waited to the access log of r, and to a placeholder for
// handlers in front. It logs the request if it was refused after it waited.
func (p *pass) seen(r *http.Request) {
	t := p.turn.Load()
	if t == nil {
		return
	}
	waited := t.Waited()
	if waited <= 0 {
		return
	}
	accesslog.SetPlaceholder(r, "http.hermes.waited", waited.Seconds())
	accesslog.Add(r, zap.Float64("hermes_waited", waited.Seconds()))
	if err := t.Err(); errors.Is(err, queue.ErrTimeout) || errors.Is(err, queue.ErrFull) {
		p.handler.logRefused(r, err, waited)
	}
}

// logRefused logs that r was refused a place in line, and how long it had waited.
func (h *QueueHandler) logRefused(r *http.Request, err error, waited time.Duration) {
	message := "too many requests are waiting for the agent; rejected one"
	if errors.Is(err, queue.ErrTimeout) {
		message = "a request waited too long for the agent; rejected it"
	}
	if c := h.logger.Check(h.refused.Level(zapcore.InfoLevel, 1), message); c != nil {
		c.Write(zap.String("path", bounded.Name(r.URL.Path)), zap.Float64("waited_seconds", waited.Seconds()),
			zap.Int("waiting", h.lines.Stats().Waiting))
	}
}

// collector exposes the metrics of lines.
type collector struct{ lines *queue.Lines }

// Describe implements prometheus.Collector.
func (c collector) Describe(d chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, d) }

// Collect implements prometheus.Collector.
func (c collector) Collect(m chan<- prometheus.Metric) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("caddy_hermes_queue_"+name, help, labels, nil)
	}
	gauge := func(n int, name, help string) {
		m <- prometheus.MustNewConstMetric(desc(name, help), prometheus.GaugeValue, float64(n))
	}
	s := c.lines.Stats()
	gauge(s.Waiting, "waiting", "Number of requests waiting in line.")
	gauge(s.Running, "running", "Number of runs that hold a place.")
	requests := desc("requests_total", "Counter of requests that begin a run, by outcome: admitted, full, timeout or left.", "outcome")
	for outcome, n := range s.Requests {
		m <- prometheus.MustNewConstMetric(requests, prometheus.CounterValue, float64(n), queue.Outcome(outcome).String())
	}
	m <- prometheus.MustNewConstMetric(desc("refused_total", "Counter of requests that upstream rejected with a 429 of its own."),
		prometheus.CounterValue, float64(s.Refused))
	m <- prometheus.MustNewConstHistogram(desc("wait_seconds", "Waiting time of the requests that were not admitted at once."),
		s.Waits.Count, s.Waits.Sum.Seconds(), s.Waits.Buckets)
}
