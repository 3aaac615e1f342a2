// Package telemetry reports on streams: metrics, spans, the log of their ends, placeholders and
// fields of the access log, events, and the lists of the admin API and of hermes_streams. It
// changes no stream.
//
// A Process has the metrics and lists of all configurations of the process. An Observer belongs to
// a handler, and has its logger and its events. An open stream has its own state under its own
// lock, because the lists read it. Observing a chunk allocates nothing.
package telemetry

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/ask"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// endedStreams is how many streams that have ended are listed.
const endedStreams = 100

// Process counts and lists the streams of all configurations: it has metrics, the open
// streams, and the last ones that have ended.
type Process struct {
	metrics *metrics
	lines   *queue.Lines

	mu    sync.Mutex
	open  map[*stream]struct{}
	ended []EndedStream // the oldest first
}

// NewProcess returns a Process that has seen nothing, lists the requests that wait in lines, and
// counts the approvals of a desk.
func NewProcess(lines *queue.Lines, d *desk.Desk) *Process {
	return &Process{metrics: newMetrics(d), lines: lines, open: make(map[*stream]struct{})}
}

// OpenStream is an open stream as the admin API shows it.
type OpenStream struct {
	ID       string    `json:"id,omitempty"`
	Model    string    `json:"model,omitempty"`
	Upstream string    `json:"upstream,omitempty"`
	Path     string    `json:"path"`
	Since    time.Time `json:"since"`
	// Age and Silence are in seconds. Silence is the time since upstream's last
	// byte or, before the first one, its header.
	Age     float64 `json:"age_seconds"`
	Silence float64 `json:"silence_seconds"`
	// Chunks counts chunks or, in a stream of another kind, events.
	Chunks int        `json:"chunks"`
	Tools  []OpenTool `json:"open_tools"`
	// Readers is how many clients read a stream that may be resumed, nil of any other.
	Readers *int `json:"readers,omitempty"`
	// Approvals are those that wait for an answer.
	Approvals []ask.Pending `json:"waiting_approvals,omitempty"`
}

// OpenTool is an open tool as the admin API shows it.
type OpenTool struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`

	started time.Time
}

func (p *Process) begin(s *stream) {
	p.metrics.active.Inc()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[s] = struct{}{}
}

func (p *Process) end(s *stream) {
	p.metrics.active.Dec()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, s)
}

// record adds a stream to those that have ended.
func (p *Process) record(e *EndedStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ended) == endedStreams {
		p.ended = p.ended[1:]
	}
	p.ended = append(p.ended, *e)
}

// List returns the open streams, the oldest first, and the last hundred that have
// ended, the newest first.
func (p *Process) List(now time.Time) (open []OpenStream, ended []EndedStream) {
	p.mu.Lock()
	streams, ended := slices.Collect(maps.Keys(p.open)), append([]EndedStream{}, p.ended...)
	p.mu.Unlock()
	slices.SortFunc(streams, func(a, b *stream) int { return a.since.Compare(b.since) })
	slices.Reverse(ended)
	open = make([]OpenStream, 0, len(streams))
	for _, s := range streams {
		open = append(open, s.show(now))
	}
	return open, ended
}

// show returns the stream as it is now.
func (s *stream) show(now time.Time) OpenStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.shown
	age := now.Sub(s.since)
	o.Since, o.Age, o.Silence = s.since.UTC(), age.Seconds(), (age - s.lastRead).Seconds()
	o.Tools = append([]OpenTool{}, s.tools...)
	for i := range o.Tools {
		o.Tools[i].Seconds = now.Sub(o.Tools[i].started).Seconds()
	}
	if n, ok := resume.Readers(s.ctx); ok {
		o.Readers = &n
	}
	o.Approvals = ask.Of(s.ctx).Pending(now)
	return o
}
