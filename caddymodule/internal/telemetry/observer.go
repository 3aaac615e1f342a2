package telemetry

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// An Observer is told of the streams and answers of one handler, and passes it on to
// everything here: metrics, spans, the log, the access log, placeholders, events and
// the lists of streams. All fields must be set but Emitter.
type Observer struct {
	// Process counts and lists for the whole process.
	Process *Process
	// Logger is the handler's.
	Logger *zap.Logger
	// Emitter emits the handler's events, nil for none.
	Emitter *Emitter

	encoded atomic.Bool // it has been logged that a stream is compressed
}

// Healed implements proxy.Observer.
func (o *Observer) Healed(r *http.Request, markers int) {
	o.Process.metrics.histories.Inc()
	o.Process.metrics.healed.Add(float64(markers))
	addToAccessLog(r, zap.Int("hermes_healed", markers))
	o.logHeal(r, markers)
}

// Begin implements proxy.Observer.
func (o *Observer) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	if b.Kind == proxy.KindWhole {
		return wholeAnswer{o}
	}
	op, since := operationOf(b.Kind), b.Since
	s := &stream{
		observer: o, span: startSpan(r, op, since), op: op,
		since: since, path: bounded.Name(r.URL.Path), upstream: Upstream(r), lastRead: time.Since(since),
	}
	if _, ok := resume.Readers(r.Context()); ok {
		s.readers = readersOf(r.Context())
	}
	o.Process.metrics.active.Inc()
	o.Process.live.begin(s)
	return s
}

// end passes on that an answer has ended, or that a request was answered with an error
// instead of one.
func (o *Observer) end(r *http.Request, res proxy.Result) {
	facts := endFacts(res)
	o.Process.metrics.ended(res)
	o.Process.live.record(r.URL.Path, res, time.Now())
	setPlaceholders(r, facts)
	addToAccessLog(r, zap.String("hermes_outcome", res.Outcome), zap.Int("hermes_tools", res.Tools))
	o.logEnd(res)
	o.emitEnd(res, facts)
}

// wholeAnswer is an answer that is not streamed: only its end is passed on.
type wholeAnswer struct{ observer *Observer }

// Raw implements proxy.AnswerObserver.
func (wholeAnswer) Raw([]byte) {}

// Read implements proxy.AnswerObserver.
func (wholeAnswer) Read(time.Time, int, proxy.Summarizer) {}

// Tool implements proxy.AnswerObserver.
func (wholeAnswer) Tool(time.Time, rewrite.ToolEvent) {}

// End implements proxy.AnswerObserver.
func (a wholeAnswer) End(r *http.Request, res proxy.Result) { a.observer.end(r, res) }

// stream is an open stream, as metrics, traces and the admin API see it.
type stream struct {
	// What a chunk needs comes first, and lies together. since does not change.
	mu       sync.Mutex // of what follows, which show reads
	chunks   int
	since    time.Time
	lastRead time.Duration // after since
	last     time.Duration // likewise, the last chunk
	id       string
	pace     pace
	looks    uint8 // how many times the id has been looked for
	model    string
	upstream string
	tools    []openTool

	observer *Observer
	span     *streamSpan // nil if the request is not traced
	op       operation
	path     string
	readers  func() int // nil if the stream may not be resumed
}

// openTool is a tool that is open.
type openTool struct {
	id, name string
	started  time.Time
}

// Raw implements proxy.AnswerObserver.
func (s *stream) Raw([]byte) {}

// Read implements proxy.AnswerObserver.
func (s *stream) Read(now time.Time, chunks int, sum proxy.Summarizer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now.Sub(s.since)
	s.lastRead = at
	if chunks <= s.chunks {
		return
	}
	if s.chunks == 0 {
		s.span.firstChunk(at)
		s.observer.Process.metrics.firstChunk.WithLabelValues(string(s.op)).Observe(at.Seconds())
		if chunks > 1 {
			s.pace.chunks(chunks-1, 0)
		}
	} else {
		s.pace.chunks(chunks-s.chunks, at-s.last)
	}
	s.chunks, s.last = chunks, at
	if s.id == "" && s.looks < looksForID {
		s.looks++
		said := sum.Summary()
		s.id, s.model = bounded.Name(said.ID), bounded.Name(said.Model)
	}
}

// addPace adds the times between chunks to the histogram.
func (s *stream) addPace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observer.Process.metrics.outputChunk.add(s.op, &s.pace)
}

// looksForID is how many times an id is looked for.
const looksForID = 16

// Tool implements proxy.AnswerObserver.
func (s *stream) Tool(now time.Time, e rewrite.ToolEvent) {
	s.observer.Process.metrics.toolEvents.WithLabelValues(status(e.Completed), string(e.Source)).Inc()
	s.span.tool(now, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.Completed {
		s.tools = append(s.tools, openTool{e.ID, bounded.Name(e.Name), now})
		return
	}
	i := slices.IndexFunc(s.tools, func(t openTool) bool { return t.id == e.ID })
	if i < 0 {
		return
	}
	s.observer.Process.metrics.tool.Observe(now.Sub(s.tools[i].started).Seconds())
	s.tools = slices.Delete(s.tools, i, i+1)
}

// End implements proxy.AnswerObserver.
func (s *stream) End(r *http.Request, res proxy.Result) {
	s.end(res)
	s.observer.end(r, res)
}

// end ends what is shown of the stream while it is open.
func (s *stream) end(res proxy.Result) {
	s.observer.Process.live.end(s)
	s.addPace()
	s.observer.Process.metrics.active.Dec()
	s.observer.Process.metrics.took(s.op, res)
	s.span.end(res)
}

// Interface guards
var (
	_ proxy.Observer       = (*Observer)(nil)
	_ proxy.AnswerObserver = (*stream)(nil)
)
