package proxy

import (
	"sync"
	"time"
)

// Streams is the set of the requests under way, which the end of the process ends. It may
// be shared by several Proxies. The zero value is an empty set.
//
// Its lock is never held while that of an exchange is waited for: a client that
// reads slowly must not keep others from starting or ending.
type Streams struct {
	mu    sync.Mutex
	open  map[*exchange]*time.Timer // each with the timer of the drain, nil before Shutdown
	began time.Time                 // the drain, zero before Shutdown
	limit time.Duration             // from then on, beyond which no exchange goes on; zero for none
}

// Shutdown lets the streams that are open, and those that are opened later, go
// on for the DrainTimeout of their Proxy from now, but not beyond limit unless
// that is zero. Then they get the error finish with the code shutting_down
// (contract section 3), or the failed event that they have instead of one. It
// returns at once, and has no effect the second time.
func (s *Streams) Shutdown(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.began.IsZero() {
		return
	}
	s.began, s.limit = time.Now(), limit
	for x := range s.open {
		s.schedule(x)
	}
}

// Open returns how many requests are under way.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Streams) add(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*exchange]*time.Timer)
	}
	s.open[x] = nil
	if !s.began.IsZero() {
		s.schedule(x)
	}
}

func (s *Streams) remove(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if timer := s.open[x]; timer != nil {
		timer.Stop()
	}
	delete(s.open, x)
}

// schedule sets the timer of x. s.mu is held.
func (s *Streams) schedule(x *exchange) {
	timeout := x.o.DrainTimeout
	if s.limit > 0 {
		timeout = min(timeout, s.limit)
	}
	s.open[x] = time.AfterFunc(timeout-time.Since(s.began), func() { s.expire(x) })
}

// expire ends x because its time is over, and again at the limit if x asks for that.
func (s *Streams) expire(x *exchange) {
	s.mu.Lock()
	left := s.limit - time.Since(s.began)
	s.mu.Unlock()
	if !x.drainEnded(s.limit > 0 && left <= 0) || left <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if timer := s.open[x]; timer != nil {
		timer.Reset(left)
	}
}
