package telemetry

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// LogFields are fields for the line of an access log that somebody else writes.
type LogFields struct {
	mu     sync.Mutex
	fields []zap.Field
}

// logFieldsKey is the key of LogFields in a context.
type logFieldsKey struct{}

// CollectLogFields returns ctx with LogFields, which get what is for the access log of a
// request with that context.
func CollectLogFields(ctx context.Context) (context.Context, *LogFields) {
	l := new(LogFields)
	return context.WithValue(ctx, logFieldsKey{}, l), l
}

// collected adds the fields to those of the context, if that collects them.
func collected(ctx context.Context, fields []zap.Field) bool {
	l, ok := ctx.Value(logFieldsKey{}).(*LogFields)
	if ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fields = append(l.fields, fields...)
	}
	return ok
}

// AddTo adds the fields to the line of the request r.
func (l *LogFields) AddTo(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	addToAccessLog(r, l.fields...)
}

// A ResumeObserver is told of the streams that outlive their connections.
type ResumeObserver struct {
	Logger *zap.Logger
}

// Answered implements resume.Observer.
func (o *ResumeObserver) Answered(r *http.Request, a resume.Answered) {
	what := "begun"
	switch {
	case a.Continued:
		what = "continued"
	case a.Replayed:
		what = "replayed"
	}
	setPlaceholder(r, placeholders+"resumed", what)
	addToAccessLog(r, zap.String("hermes_resumed", what))
}

// Ended implements resume.Observer.
func (o *ResumeObserver) Ended(r *http.Request, e resume.Ended) {
	level, message := resumeMessage(e)
	if c := o.Logger.Check(level, message); c != nil {
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

// resumeMessage says at which level and as what the end of a run is logged.
func resumeMessage(e resume.Ended) (zapcore.Level, string) {
	switch {
	case e.Panicked != nil:
		return zapcore.ErrorLevel, "panic behind a stream that nobody listened to"
	case e.Reason == resume.ReasonExpired:
		return zapcore.InfoLevel, "nobody came back for a stream; ended it"
	case e.Reason == resume.ReasonMemory:
		return zapcore.WarnLevel, "no memory for a stream that nobody listened to; ended it, see max_memory"
	case e.Reason == resume.ReasonLeft && e.Stream:
		return zapcore.WarnLevel, "too many streams go on without a client; ended one with its client, see max_detached"
	case e.Detached > 0:
		return zapcore.InfoLevel, "stream ended while nobody listened"
	}
	return zapcore.DebugLevel, "stream that may be resumed ended"
}

// readersOf returns what tells how many clients read the stream of a request with the
// context.
func readersOf(ctx context.Context) func() int {
	return func() int {
		n, _ := resume.Readers(ctx)
		return n
	}
}

// resumeCollector exposes the numbers of the process.
type resumeCollector struct {
	store *resume.Memory
	runs  *resume.Runs
}

func resumeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_hermes_resume_"+name, help, labels, nil)
}

var (
	resumeReaders   = resumeDesc("readers", "Number of clients that read a stream that may be resumed.")
	resumeDetached  = resumeDesc("detached", "Number of streams that go on without a client.")
	resumeKept      = resumeDesc("streams", "Number of streams that are kept, those that go on included.")
	resumeBytes     = resumeDesc("bytes", "Memory of the streams that are kept, in bytes.")
	resumeAttached  = resumeDesc("attached_total", "Counter of clients that were given a stream that may be resumed, by how: begun, replayed or continued.", "how")
	resumeDetaches  = resumeDesc("detached_total", "Counter of times that the last client of a stream left and it went on.")
	resumeCancelled = resumeDesc("cancelled_total", "Counter of streams that were cancelled, by the reason.", "reason")
)

// Describe implements prometheus.Collector.
func (c resumeCollector) Describe(d chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{resumeReaders, resumeDetached, resumeKept, resumeBytes, resumeAttached, resumeDetaches, resumeCancelled} {
		d <- desc
	}
}

// Collect implements prometheus.Collector.
func (c resumeCollector) Collect(m chan<- prometheus.Metric) {
	st := c.runs.Stats()
	used, kept := c.store.Used()
	gauge := func(d *prometheus.Desc, n int64) {
		m <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		m <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(resumeReaders, st.Readers)
	gauge(resumeDetached, st.Detached)
	gauge(resumeKept, int64(kept))
	gauge(resumeBytes, used)
	counter(resumeAttached, st.TotalBegun, "begun")
	counter(resumeAttached, st.TotalReplayed, "replayed")
	counter(resumeAttached, st.TotalContinued, "continued")
	counter(resumeDetaches, st.TotalDetached)
	for reason, n := range st.TotalCancelled {
		counter(resumeCancelled, n, reason.String())
	}
}

// RegisterResume registers the metrics with the registry of a configuration, unless another
// handler of it has.
func RegisterResume(registry prometheus.Registerer, store *resume.Memory, runs *resume.Runs) error {
	var again prometheus.AlreadyRegisteredError
	if err := registry.Register(resumeCollector{store, runs}); err != nil && !errors.As(err, &again) {
		return err
	}
	return nil
}

// Interface guards
var (
	_ resume.Observer      = (*ResumeObserver)(nil)
	_ prometheus.Collector = resumeCollector{}
)
