package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// Streams is the set of the requests under way, which the end of the process ends. Several Proxies
// may share it. The zero value is an empty set.
//
// Its lock is never held while waiting for the lock of an exchange: a client that reads slowly must
// not keep others from starting or ending.
type Streams struct {
	drain atomic.Pointer[drain] // nil before Shutdown

	mu     sync.Mutex
	atOnce map[*func()]bool // what Shutdown calls
	open   map[*Request]bool
}

// drain says when Shutdown was called, and its limit.
type drain struct {
	began time.Time
	limit time.Duration // from began, after which no exchange goes on; zero for none
}

// Shutdown ends all streams, also those opened later, when the DrainTimeout of their Proxy has
// passed from now, or limit if that is shorter and not zero. Then they get the error finish with
// the code shutting_down (contract section 3), or the failed event of their kind of stream.
// Shutdown returns at once, and has no effect the second time.
func (s *Streams) Shutdown(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.drain.CompareAndSwap(nil, &drain{time.Now(), limit}) {
		return
	}
	for q := range s.open {
		first := q.o.DrainTimeout
		if limit > 0 {
			first = min(first, limit)
		}
		time.AfterFunc(first, q.tick) // its own timer may have no deadline
	}
	for f := range s.atOnce {
		go (*f)()
	}
}

// AtShutdown makes Shutdown call f in a goroutine of its own, unless stop is called before. It returns
// false, and does nothing, if Shutdown has been called.
func (s *Streams) AtShutdown(f func()) (stop func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drain.Load() != nil {
		return nil, false
	}
	if s.atOnce == nil {
		s.atOnce = make(map[*func()]bool)
	}
	s.atOnce[&f] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.atOnce, &f)
	}, true
}

// Open returns how many requests are under way.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Streams) add(q *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*Request]bool)
	}
	s.open[q] = true
}

func (s *Streams) remove(q *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, q)
}
