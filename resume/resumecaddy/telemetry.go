package resumecaddy

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/internal/accesslog"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// answered records how the client of r came to its stream.
func answered(r *http.Request, how resume.How) {
	accesslog.SetPlaceholder(r, "http.hermes.resumed", how.String())
	accesslog.Add(r, zap.String("hermes_resumed", how.String()))
}

// logEnd logs what became of a stream.
func logEnd(logger *zap.Logger, r *http.Request, e resume.Ended) {
	level, text := message(e)
	if c := logger.Check(level, text); c != nil {
		err := e.Panicked // with its stack
		if err == nil && !errors.Is(e.Err, context.Canceled) {
			err = bounded.Error(e.Err)
		}
		c.Write(
			zap.String("path", bounded.Name(r.URL.Path)),
			zap.String("reason", e.Reason.String()),
			zap.Uint64("events", e.Events),
			zap.Float64("detached_seconds", e.Detached.Seconds()),
			zap.Error(err), // no field when there is none
		)
	}
}

// message returns the level and the text with which the end of a run is logged.
func message(e resume.Ended) (zapcore.Level, string) {
	switch {
	case e.Panicked != nil:
		return zapcore.ErrorLevel, "panic after all clients of a stream had left"
	case e.Reason == log.ReasonExpired:
		return zapcore.InfoLevel, "no client returned to a stream; ended it"
	case e.Reason == log.ReasonMemory:
		return zapcore.WarnLevel, "no memory for a stream without clients; ended it, see max_memory"
	case e.Reason == log.ReasonLeft && e.Detach > 0 && e.Stream && e.Events > 0:
		return zapcore.WarnLevel, "too many streams continue without a client; ended one when its client left, see max_detached"
	case e.Detached > 0:
		return zapcore.InfoLevel, "stream ended without clients"
	}
	return zapcore.DebugLevel, "resumable stream ended"
}

// collector exposes the metrics of the streams of the process.
type collector struct{ process *hermesapp.Process }

func (c collector) Describe(d chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, d) }

func (c collector) Collect(m chan<- prometheus.Metric) {
	add := func(kind prometheus.ValueType, n int64, name, help string, label, value []string) {
		desc := prometheus.NewDesc("caddy_hermes_resume_"+name, help, label, nil)
		m <- prometheus.MustNewConstMetric(desc, kind, float64(n), value...)
	}
	gauge := func(n int64, name, help string) { add(prometheus.GaugeValue, n, name, help, nil, nil) }
	st := c.process.Runs.Stats()
	size, logs := c.process.Logs.Used()
	gauge(st.Readers, "readers", "Number of clients that read a resumable stream.")
	gauge(st.Detached, "detached", "Number of streams that continue without a client.")
	gauge(int64(logs), "streams", "Number of streams that are kept, including those in progress.")
	gauge(size, "bytes", "Memory of the streams that are kept, in bytes.")
	for how, n := range st.TotalAttached {
		add(prometheus.CounterValue, n, "attached_total",
			"Counter of clients that were given a resumable stream, by how: begun, replayed or continued.",
			[]string{"how"}, []string{resume.How(how).String()})
	}
	add(prometheus.CounterValue, st.TotalDetached, "detached_total",
		"Counter of streams that continued after their last client had left.", nil, nil)
	for reason := log.ReasonLeft; int(reason) < len(st.TotalCancelled); reason++ {
		add(prometheus.CounterValue, st.TotalCancelled[reason], "cancelled_total",
			"Counter of streams that were cancelled, by the reason.", []string{"reason"}, []string{reason.String()})
	}
}
