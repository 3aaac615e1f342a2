package telemetry

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/accesslog"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// An Observer observes the streams and answers of one handler, for metrics, spans, the log, the
// access log, placeholders, events and the lists of streams. All fields except Emitter must be set.
type Observer struct {
	Process *Process    // counts and lists for the whole process
	Logger  *zap.Logger // the handler's
	Emitter *Emitter    // of the handler's events, nil for none

	encoded atomic.Bool // it has been logged that a stream is compressed
}

// Request implements proxy.Observer.
func (o *Observer) Request(r *http.Request, read rewrite.Healed) {
	ignored := read.Ignored
	if resume.Background(r.Context()) {
		ignored &^= rewrite.Background
	}
	if names := ignored.Names(); names != nil {
		accesslog.Add(r, zap.Strings("hermes_ignored", names))
	}
	if n := read.Recalled(); n > 0 {
		o.Process.metrics.records.WithLabelValues(recordOfRequest).Add(float64(read.FromRequest))
		o.Process.metrics.records.WithLabelValues(recordOfMemory).Add(float64(read.FromMemory))
		accesslog.Add(r, zap.Int("hermes_records", n))
	}
	markers := read.Markers
	if markers == 0 {
		return
	}
	o.Process.metrics.histories.Inc()
	o.Process.metrics.healed.Add(float64(markers))
	accesslog.Add(r, zap.Int("hermes_healed", markers))
	o.Logger.Info("history healed", zap.Int("markers", markers), zap.String("path", bounded.Name(r.URL.Path)))
}

// Begin implements proxy.Observer.
func (o *Observer) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	if b.Kind == proxy.KindWhole {
		return &stream{observer: o}
	}
	op, since := operationChat, b.Since
	if b.Kind == proxy.KindOther {
		op = operationAgent
	}
	s := &stream{
		observer: o, ctx: r.Context(), span: startSpan(r, op, since), op: op, gaps: o.Process.metrics.outputChunk.WithLabelValues(op),
		since: since, lastRead: time.Since(since), shown: OpenStream{Path: bounded.Name(r.URL.Path), Upstream: b.Upstream},
	}
	o.Process.begin(s)
	return s
}

// end records the end of an answer, or of a request that was answered with an error.
func (o *Observer) end(r *http.Request, res proxy.Result) {
	e := newEnded(r.URL.Path, &res, time.Now())
	o.Process.metrics.ended(&res)
	o.Process.record(e)
	if of := endedOf(r); of != nil {
		of.last.Store(e)
	}
	accesslog.Add(r, zap.String("hermes_outcome", e.Outcome), zap.Int("hermes_tools", e.Tools))
	o.logEnd(e, &res)
	event := "hermes_stream_ended"
	if failed(e.Outcome) {
		event = "hermes_stream_failed"
	}
	o.Emitter.emit(event, e.data)
}

// stream is an open stream, as metrics, traces and the admin API see it, or an answer that is not
// streamed, of which only the end is observed.
type stream struct {
	observer *Observer
	since    time.Time           // when the request came
	span     trace.Span          // records nothing if the request is not traced
	op       string              // gen_ai.operation.name, "" for an answer that is not streamed
	gaps     prometheus.Observer // the times between chunks
	ctx      context.Context     // the request's, nil for an answer that is not streamed

	mu       sync.Mutex    // guards the fields below, which show reads
	shown    OpenStream    // without times, tools, readers and approvals
	lastRead time.Duration // of the last byte, after since
	last     time.Duration // of the last chunk, after since
	looks    int           // how many times the id has been looked for
	tools    []OpenTool
}

// Raw implements proxy.AnswerObserver.
func (s *stream) Raw([]byte) {}

// Read implements proxy.AnswerObserver.
func (s *stream) Read(now time.Time, chunks int, sum proxy.Summarizer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now.Sub(s.since)
	s.lastRead = at
	before := s.shown.Chunks
	if chunks <= before {
		return
	}
	if before == 0 {
		s.span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", at.Seconds()))
		s.observer.Process.metrics.firstChunk.WithLabelValues(s.op).Observe(at.Seconds())
	} else {
		s.gaps.Observe((at - s.last).Seconds())
	}
	for range chunks - before - 1 {
		s.gaps.Observe(0) // it came with the one before
	}
	s.shown.Chunks, s.last = chunks, at
	if s.shown.ID == "" && s.looks < looksForID {
		s.looks++
		said := sum.Summary()
		s.shown.ID, s.shown.Model = bounded.Name(said.ID), bounded.Name(said.Model)
	}
}

// looksForID is how many times an id is looked for.
const looksForID = 16

// Tool implements proxy.AnswerObserver.
func (s *stream) Tool(now time.Time, e rewrite.ToolEvent) {
	s.observer.Process.metrics.toolEvents.WithLabelValues(status(e.Completed), string(e.Source)).Inc()
	spanTool(s.span, now, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := bounded.Name(e.ID)
	if !e.Completed {
		s.tools = append(s.tools, OpenTool{ID: id, Name: bounded.Name(e.Name), started: now})
		return
	}
	i := slices.IndexFunc(s.tools, func(t OpenTool) bool { return t.ID == id })
	if i < 0 {
		return
	}
	s.observer.Process.metrics.tool.Observe(now.Sub(s.tools[i].started).Seconds())
	s.tools = slices.Delete(s.tools, i, i+1)
}

// End implements proxy.AnswerObserver.
func (s *stream) End(r *http.Request, res proxy.Result) {
	if s.op != "" {
		s.observer.Process.end(s)
		s.observer.Process.metrics.took(s.op, &res)
		endSpan(s.span, s.op, res)
	}
	s.observer.end(r, res)
}
