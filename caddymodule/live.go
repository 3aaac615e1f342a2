package caddymodule

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// endedStreams is how many streams that have ended are listed.
const endedStreams = 100

// liveStreams are the open streams of all configurations of the process, and
// the last ones that have ended, for the admin API.
type liveStreams struct {
	mu    sync.Mutex
	open  map[*observedStream]struct{}
	ended ring[endedStream]
}

func newLiveStreams() *liveStreams {
	return &liveStreams{
		open:  make(map[*observedStream]struct{}),
		ended: newRing[endedStream](endedStreams),
	}
}

// endedStream is a stream that has ended, an error in the stead of one, or an
// answer that was repaired, as the admin API shows it.
type endedStream struct {
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

func (l *liveStreams) begin(s *observedStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[s] = struct{}{}
}

func (l *liveStreams) end(s *observedStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s)
}

// record adds a stream to those that have ended.
func (l *liveStreams) record(path string, res proxy.Result, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended.put(endedStream{
		ID: logged(res.ID), Model: logged(res.Model), Upstream: res.Upstream, Path: logged(path),
		Outcome: res.Outcome, Status: res.Status, FinishReason: logged(res.FinishReason),
		Chunks: res.Chunks, Tools: res.Tools, Seconds: res.Duration.Seconds(), Ended: now.UTC(),
	})
}

// streams returns the open streams.
func (l *liveStreams) streams() []*observedStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.open))
}

// list returns the open streams, the oldest first, and those that have ended,
// the newest first.
func (l *liveStreams) list(now time.Time) (open []openStream, ended []endedStream) {
	l.mu.Lock()
	streams := slices.Collect(maps.Keys(l.open))
	ended = l.ended.newest()
	l.mu.Unlock()

	open = make([]openStream, 0, len(streams))
	for _, s := range streams {
		open = append(open, s.show(now))
	}
	sortByAge(open)
	return open, ended
}
