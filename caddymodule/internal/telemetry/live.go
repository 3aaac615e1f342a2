// Package telemetry shows what becomes of streams: metrics, spans, the log of their
// ends, placeholders and fields of the access log, events, and the lists of the admin
// API and of hermes_streams. It changes no stream.
//
// A Process has the metrics and lists of all configurations of the process. An
// Observer is a handler's: it has its logger and its events. A stream that is open has
// its state to itself, under its own lock, because the lists read it. To observe a
// chunk allocates nothing.
package telemetry

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// endedStreams is how many streams that have ended are listed.
const endedStreams = 100

// Process is what is counted and listed of the streams of all configurations: metrics,
// the open streams, and the last ones that have ended.
type Process struct {
	metrics *metrics

	mu    sync.Mutex
	open  []*stream     // each at its place
	ended []EndedStream // a ring once there are endedStreams
	next  int           // where in it the next one belongs
}

// NewProcess returns a Process that has seen nothing.
func NewProcess() *Process {
	return &Process{metrics: newMetrics(), ended: []EndedStream{}}
}

// OfProcess returns the one of this process. It outlives all handlers, so that counters
// go on where they were when hermes leaves the configuration and comes back, as
// Prometheus expects of a process that goes on.
var OfProcess = sync.OnceValue(NewProcess)

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
}

// OpenTool is an open tool as the admin API shows it.
type OpenTool struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// EndedStream is a stream that has ended, an error instead of one, or an answer that
// was repaired, as the admin API shows it.
type EndedStream struct {
	ID           string    `json:"id,omitempty"`
	Model        string    `json:"model,omitempty"`
	Upstream     string    `json:"upstream,omitempty"`
	Path         string    `json:"path"`
	Outcome      string    `json:"outcome"`
	Status       int       `json:"status"`
	FinishReason string    `json:"finish_reason,omitempty"`
	Chunks       int       `json:"chunks"`
	Tools        int       `json:"tools"`
	Seconds      float64   `json:"seconds"`
	Ended        time.Time `json:"ended"`
}

func (p *Process) begin(s *stream) {
	p.metrics.active.Inc()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.place = len(p.open)
	p.open = append(p.open, s)
}

func (p *Process) end(s *stream) {
	p.metrics.active.Dec()
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.open) - 1
	p.open[s.place] = p.open[last]
	p.open[s.place].place = s.place
	p.open[last] = nil
	p.open = p.open[:last]
}

// record adds a stream to those that have ended.
func (p *Process) record(path string, res *proxy.Result, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ended) < endedStreams {
		p.ended = append(p.ended, EndedStream{})
	}
	p.ended[p.next] = EndedStream{
		ID: bounded.Name(res.ID), Model: bounded.Name(res.Model), Upstream: res.Upstream, Path: bounded.Name(path),
		Outcome: res.Outcome, Status: res.Status, FinishReason: bounded.Name(res.FinishReason),
		Chunks: res.Chunks, Tools: res.Tools, Seconds: res.Duration.Seconds(), Ended: now.UTC(),
	}
	p.next = (p.next + 1) % endedStreams
}

// List returns the open streams, the oldest first, and the last hundred that have
// ended, the newest first.
func (p *Process) List(now time.Time) (open []OpenStream, ended []EndedStream) {
	streams, ended := p.snapshot()
	open = make([]OpenStream, 0, len(streams))
	for _, s := range streams {
		open = append(open, s.show(now))
	}
	slices.SortFunc(open, func(a, b OpenStream) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return open, ended
}

// snapshot returns the open streams in no order, and those that have ended, the newest
// first.
func (p *Process) snapshot() (open []*stream, ended []EndedStream) {
	p.mu.Lock()
	open = slices.Clone(p.open)
	ended = make([]EndedStream, 0, len(p.ended))
	for i := range p.ended {
		ended = append(ended, p.ended[(p.next+len(p.ended)-1-i)%len(p.ended)])
	}
	p.mu.Unlock()
	return open, ended
}

// show returns what can be seen of the stream now.
func (s *stream) show(now time.Time) OpenStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := OpenStream{
		ID: s.id, Model: s.model, Upstream: s.upstream, Path: s.path, Since: s.since.UTC(),
		Age: now.Sub(s.since).Seconds(), Silence: (now.Sub(s.since) - s.lastRead).Seconds(),
		Chunks: s.chunks, Tools: make([]OpenTool, 0, len(s.tools)),
	}
	if s.readers != nil {
		n := s.readers()
		o.Readers = &n
	}
	for _, t := range s.tools {
		o.Tools = append(o.Tools, OpenTool{bounded.Name(t.id), t.name, now.Sub(t.started).Seconds()})
	}
	return o
}
