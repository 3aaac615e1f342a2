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
	open  map[*member]struct{}
	began time.Time     // the drain, zero before Shutdown
	limit time.Duration // from then on, beyond which no exchange goes on; zero for none
}

// member is a request in Streams.
type member struct {
	timeout time.Duration                 // the drain timeout of its Proxy
	ended   func(limit bool) (again bool) // drainEnded of its exchange
	timer   *time.Timer                   // of the drain, nil before Shutdown
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
	for m := range s.open {
		s.schedule(m)
	}
}

// Open returns how many requests are under way.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Streams) add(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*member]struct{})
	}
	s.open[m] = struct{}{}
	if !s.began.IsZero() {
		s.schedule(m)
	}
}

func (s *Streams) remove(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, m)
	if m.timer != nil {
		m.timer.Stop()
	}
}

// schedule sets the timer of m. s.mu is held.
func (s *Streams) schedule(m *member) {
	timeout := m.timeout
	if s.limit > 0 {
		timeout = min(timeout, s.limit)
	}
	m.timer = time.AfterFunc(timeout-time.Since(s.began), func() { s.expire(m) })
}

// expire tells m that its time is over, and again at the limit if m asks for that.
func (s *Streams) expire(m *member) {
	s.mu.Lock()
	left := s.limit - time.Since(s.began)
	s.mu.Unlock()
	if !m.ended(s.limit > 0 && left <= 0) || left <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[m]; open {
		m.timer.Reset(left)
	}
}
