package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// endedStreams is how many streams that have ended are listed.
const endedStreams = 100

// liveStreams are the open streams of all configurations of the process, and
// the last ones that have ended, for the admin API.
type liveStreams struct {
	mu    sync.Mutex
	open  map[*stream]struct{}
	ended ring[EndedStream]
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

func (l *liveStreams) begin(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[s] = struct{}{}
}

func (l *liveStreams) end(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s)
}

// record adds a stream to those that have ended.
func (l *liveStreams) record(path string, res proxy.Result, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended.put(EndedStream{
		ID: bounded.Name(res.ID), Model: bounded.Name(res.Model), Upstream: res.Upstream, Path: bounded.Name(path),
		Outcome: res.Outcome, Status: res.Status, FinishReason: bounded.Name(res.FinishReason),
		Chunks: res.Chunks, Tools: res.Tools, Seconds: res.Duration.Seconds(), Ended: now.UTC(),
	})
}

// streams returns the open streams.
func (l *liveStreams) streams() []*stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.open))
}

// List returns the open streams, the oldest first, and the last hundred that have
// ended, the newest first.
func (p *Process) List(now time.Time) (open []OpenStream, ended []EndedStream) {
	l := p.live
	l.mu.Lock()
	streams := slices.Collect(maps.Keys(l.open))
	ended = l.ended.newest()
	l.mu.Unlock()

	open = make([]OpenStream, 0, len(streams))
	for _, s := range streams {
		open = append(open, s.show(now))
	}
	slices.SortFunc(open, func(a, b OpenStream) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
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
