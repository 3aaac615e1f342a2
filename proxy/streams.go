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

	mu   sync.Mutex
	open map[request]bool
}

// request is a request under way, as the set sees it.
type request interface {
	// drainTimeout returns how long it may go on from the beginning of a drain.
	drainTimeout() time.Duration
	// tick ends it if its time is over.
	tick()
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
	for x := range s.open {
		first := x.drainTimeout()
		if limit > 0 {
			first = min(first, limit)
		}
		time.AfterFunc(first, x.tick) // its own timer may have no deadline
	}
}

// Open returns how many requests are under way.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Streams) add(x request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[request]bool)
	}
	s.open[x] = true
}

func (s *Streams) remove(x request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, x)
}
