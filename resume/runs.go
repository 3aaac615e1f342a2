package resume

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Runs is the set of the runs under way in the process, whatever configuration they are
// of, and counts what becomes of them. The zero value is an empty set. Its lock is never
// held while another is waited for.
type Runs struct {
	mu       sync.Mutex
	open     map[*run]*time.Timer // which cancels the run; nil before Shutdown
	deadline time.Time            // when they are cancelled; zero before Shutdown
	idle     chan struct{}        // closed when there are none; nil if no Wait needs it
	detached int                  // how many have no client

	count counters
}

// counters count since the process began.
type counters struct {
	readers, begun, replayed, continued, detached atomic.Int64
	cancelled                                     [reasons]atomic.Int64
}

// Stats are the numbers of the process.
type Stats struct {
	// Readers is how many clients read a log now.
	Readers int64
	// Detached is how many runs go on without a client now.
	Detached int64
	// The others count since the process began. TotalBegun, TotalReplayed and
	// TotalContinued are the clients that were given a stream: the first one, those that
	// sent the same request, and those that named an event.
	TotalBegun, TotalReplayed, TotalContinued int64
	// TotalDetached is how many times the last client of a run left and it went on.
	TotalDetached int64
	// TotalCancelled is how many runs were cancelled, by the reason.
	TotalCancelled map[Reason]int64
}

// Stats returns the numbers.
func (s *Runs) Stats() Stats {
	s.mu.Lock()
	detached := s.detached
	s.mu.Unlock()
	c := &s.count
	st := Stats{
		Readers: c.readers.Load(), Detached: int64(detached),
		TotalBegun: c.begun.Load(), TotalReplayed: c.replayed.Load(), TotalContinued: c.continued.Load(),
		TotalDetached: c.detached.Load(), TotalCancelled: make(map[Reason]int64),
	}
	for r := ReasonLeft; r < reasons; r++ {
		st.TotalCancelled[r] = c.cancelled[r].Load()
	}
	return st
}

// Shutdown lets the runs that are open, and those that begin later, go on for the time d.
// Then they are cancelled. It returns at once, and has no effect the second time.
func (s *Runs) Shutdown(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.deadline.IsZero() {
		return
	}
	s.deadline = time.Now().Add(d)
	for r := range s.open {
		s.schedule(r)
	}
}

// schedule sets the timer that cancels r. s.mu is held.
func (s *Runs) schedule(r *run) {
	s.open[r] = time.AfterFunc(time.Until(s.deadline), func() { r.Cancel(ReasonShutdown) })
}

// Wait waits until no run is open, or ctx is done.
func (s *Runs) Wait(ctx context.Context) {
	s.mu.Lock()
	if len(s.open) == 0 {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Open returns how many runs are open.
func (s *Runs) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Runs) add(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*run]*time.Timer)
	}
	s.open[r] = nil
	if !s.deadline.IsZero() {
		s.schedule(r)
	}
}

func (s *Runs) remove(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.open[r]; t != nil {
		t.Stop()
	}
	delete(s.open, r)
	if len(s.open) == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// detach counts one run more without a client, unless there are as many as may be.
func (s *Runs) detach(most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.detached >= most {
		return false
	}
	s.detached++
	s.count.detached.Add(1)
	return true
}

// attach takes that back.
func (s *Runs) attach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached--
}
