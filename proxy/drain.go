package proxy

import (
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Streams is the set of the requests under way, so that the end of the process
// can be told to them. It may be shared by several Proxies. The zero value is
// an empty set.
//
// Its lock is never held while a stream's is waited for: a client that reads
// slowly must not keep others from starting or ending.
type Streams struct {
	mu       sync.Mutex
	open     map[*responseWriter]Timer // the timer of its drain, nil before Shutdown
	draining bool
	limit    time.Duration
	began    time.Time // when the drain began, as soon as a stream's clock has told
}

// Shutdown lets the streams that are open, and those that are opened later, go
// on for the DrainTimeout of their Proxy from now, but not beyond limit unless
// that is zero. Then they get the error finish with the code shutting_down
// (contract section 3), or the failed event that they have in its stead. It
// returns at once, and has no effect the second time.
func (s *Streams) Shutdown(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return
	}
	s.draining, s.limit = true, limit
	for rw := range s.open {
		s.drain(rw)
	}
}

// drain sets the timer of a stream.
func (s *Streams) drain(rw *responseWriter) {
	now := rw.p.o.Clock.Now()
	if s.began.IsZero() {
		s.began = now
	}
	d := rw.p.o.DrainTimeout
	if s.limit > 0 {
		d = min(d, s.limit)
	}
	d = max(d-now.Sub(s.began), 0)
	s.open[rw] = rw.p.o.Clock.AfterFunc(d, rw.drained)
}

// Open returns how many requests are under way.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Streams) add(rw *responseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*responseWriter]Timer)
	}
	s.open[rw] = nil
	if s.draining {
		s.drain(rw)
	}
}

func (s *Streams) remove(rw *responseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.open[rw]; t != nil {
		t.Stop()
	}
	delete(s.open, rw)
}

// drained ends the stream: the process has waited for it long enough.
func (rw *responseWriter) drained() {
	rw.mu.Lock()
	defer rw.rescue()
	if rw.closed || rw.gone() {
		return
	}
	switch {
	case rw.watched() || rw.guarded():
		rw.endFor(rewrite.CauseShutdown)
	case rw.waitsForWhole() && rw.p.o.Streams.over(rw):
		rw.answerCause(rewrite.CauseShutdown)
		rw.close(rewrite.CauseShutdown)
	default:
		rw.overdue = true // it may yet turn out to be one that this ends
	}
}

// waitsForWhole tells whether the request waits for an answer that is not
// streamed. It may take until the limit of the drain, where it would be cut.
func (rw *responseWriter) waitsForWhole() bool {
	return rw.chat && (rw.keeps() || rw.asked && !rw.decided)
}

// over tells whether the limit of the drain has come, and has the stream asked
// again when it does. Without a limit it never comes.
func (s *Streams) over(rw *responseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.limit - rw.p.o.Clock.Now().Sub(s.began)
	if _, open := s.open[rw]; open && s.limit > 0 && left > 0 {
		s.open[rw] = rw.p.o.Clock.AfterFunc(left, rw.drained)
	}
	return s.limit > 0 && left <= 0
}
