package proxy

import (
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Streams is the set of the requests under way, so that the end of the process
// can be told to them. It may be shared by several Proxies. The zero value is
// an empty set.
//
// Its lock is never held while that of an exchange is waited for: a client that
// reads slowly must not keep others from starting or ending.
type Streams struct {
	mu     sync.Mutex
	open   []*responseWriter         // each at its place
	drains map[*responseWriter]Timer // the timers of those that are open, nil before Shutdown
	began  time.Time                 // the drain, as soon as an exchange's clock tells the time
	limit  time.Duration             // from then on, beyond which no exchange goes on; zero for none
}

// Shutdown lets the streams that are open, and those that are opened later, go
// on for the DrainTimeout of their Proxy from now, but not beyond limit unless
// that is zero. Then they get the error finish with the code shutting_down
// (contract section 3), or the failed event that they have instead of one. It
// returns at once, and has no effect the second time.
func (s *Streams) Shutdown(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drains != nil {
		return
	}
	s.limit, s.drains = limit, make(map[*responseWriter]Timer)
	for _, rw := range s.open {
		s.schedule(rw)
	}
}

// schedule sets the timer of the drain of rw. s.mu is held.
func (s *Streams) schedule(rw *responseWriter) {
	o := &rw.x.p.o
	now := o.Clock.Now()
	if s.began.IsZero() {
		s.began = now
	}
	timeout := o.DrainTimeout
	if s.limit > 0 {
		timeout = min(timeout, s.limit)
	}
	s.drains[rw] = o.Clock.AfterFunc(timeout-now.Sub(s.began), rw.drainEnded)
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
	rw.place = int32(len(s.open))
	s.open = append(s.open, rw)
	if s.drains != nil {
		s.schedule(rw)
	}
}

func (s *Streams) remove(rw *responseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.open) - 1
	s.open[rw.place] = s.open[last]
	s.open[rw.place].place = rw.place
	s.open[last] = nil
	s.open = s.open[:last]
	if t := s.drains[rw]; t != nil {
		t.Stop()
		delete(s.drains, rw)
	}
}

// limitPassed reports whether the limit of the drain has come, and has drainEnded
// called again when it does. Without a limit it never comes.
func (s *Streams) limitPassed(rw *responseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit <= 0 {
		return false
	}
	clock := rw.x.p.o.Clock
	left := s.limit - clock.Now().Sub(s.began)
	if _, open := s.drains[rw]; open && left > 0 {
		s.drains[rw] = clock.AfterFunc(left, rw.drainEnded)
	}
	return left <= 0
}

// drainEnded ends the answer, if it is one that the end of a drain ends: the process
// has waited for it long enough.
func (rw *responseWriter) drainEnded() {
	rw.mu.Lock()
	defer rw.unlockLate()
	if rw.closed || rw.x.client.gone() {
		return
	}
	phase := rw.x.times.Phase
	if phase.EndsWithDrain() || phase == deadline.Whole && rw.x.p.o.Streams.limitPassed(rw) {
		rw.endNow(rewrite.CauseShutdown)
		return
	}
	rw.drained = true
}
