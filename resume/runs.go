package resume

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// Runs is the set of the runs under way in the process, for all configurations, and has counters.
// The zero value is an empty set. Its lock is never held while another lock is waited for.
type Runs struct {
	drain sync.Once // Shutdown was called
	mu    sync.Mutex
	runs  map[*life]bool // and whether each is open; the others read the log of another run, for no client
	over  bool           // the time of Shutdown has passed
	plain int            // how many runs, open or about to be, read the events of Hermes' runs

	counter
}

// Shutdown cancels all runs after the time d, those that begin later included. It returns at once,
// and has no effect the second time.
func (s *Runs) Shutdown(d time.Duration) {
	s.drain.Do(func() { time.AfterFunc(d, s.cancelAll) })
}

func (s *Runs) cancelAll() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for _, r := range s.all() {
		r.cancel(log.ReasonShutdown)
	}
}

// Wait waits at the end of the process until no run is open, or ctx is done. It cancels runs that
// read the events of a run of Hermes for no client: the run of Hermes goes on without them.
func (s *Runs) Wait(ctx context.Context) {
	for s.Open() > 0 && ctx.Err() == nil {
		for _, r := range s.all() {
			r.cancelUnread()
		}
		time.Sleep(time.Millisecond)
	}
}

// all returns all runs.
func (s *Runs) all() []*life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.runs))
}

// Open returns how many runs are open.
func (s *Runs) Open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, isOpen := range s.runs {
		if isOpen {
			n++
		}
	}
	return n
}

// add adds a run, which is open until remove, or else reads the log of another run until forget.
func (s *Runs) add(l *life, isOpen bool) {
	s.mu.Lock()
	if s.runs == nil {
		s.runs = make(map[*life]bool)
	}
	s.runs[l] = isOpen
	over := s.over
	s.mu.Unlock()
	if over {
		l.cancel(log.ReasonShutdown)
	}
}

// remove removes a run that is open.
func (s *Runs) remove(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, l)
	if l.plain {
		s.plain--
	}
}

// forget removes a run that is not open.
func (s *Runs) forget(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, l)
}

// maxRunLogs is how many runs of Hermes may have their events read at the same time. Hermes admits
// ten; other servers may have streams that never end.
const maxRunLogs = 256

// admitPlain counts one more run that reads the events of a run of Hermes, until remove. It returns
// false if there are maxRunLogs already.
func (s *Runs) admitPlain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plain >= maxRunLogs {
		return false
	}
	s.plain++
	return true
}
