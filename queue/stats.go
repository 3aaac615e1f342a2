package queue

import (
	"cmp"
	"slices"
	"time"
)

// Outcome is what became of a request.
type Outcome int

// The outcomes.
const (
	// Admitted: it got a place, and upstream took it, or its turn ended with a place.
	Admitted Outcome = iota
	// Full: there was no room to wait.
	Full
	// TimedOut: it waited too long.
	TimedOut
	// Left: it was given up before it had a place.
	Left
	outcomes int = iota
)

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [outcomes]string{"admitted", "full", "timeout", "left"}[o]
}

// bounds are the upper bounds of the buckets of Waits, in seconds.
var bounds = [...]float64{0.1, 1, 5, 15, 30, 60, 120, 300}

// Stats are the numbers of all lines. Requests, Refused and Waits are totals since the process
// began.
type Stats struct {
	// Waiting is how many requests wait now, Running how many have a place.
	Waiting, Running int
	// Requests counts requests by Outcome, each once: when upstream has taken it, or at its end.
	Requests [outcomes]uint64
	// Refused counts how often upstream has refused a request.
	Refused uint64
	// Waits are the waiting times of the requests that waited.
	Waits Waits
}

// Waits is a histogram of times.
type Waits struct {
	Count   uint64
	Sum     time.Duration
	Buckets map[float64]uint64 // how many times are at most the key, in seconds
}

// count counts t as o, unless it has been counted.
func (s *Stats) count(t *Turn, o Outcome) {
	if t.counted {
		return
	}
	t.counted = true
	s.Requests[o]++
	if t.ready == nil {
		return
	}
	s.Waits.Count++
	s.Waits.Sum += t.waited
	if s.Waits.Buckets == nil {
		s.Waits.Buckets = make(map[float64]uint64)
	}
	for _, bound := range bounds {
		if t.waited.Seconds() <= bound {
			s.Waits.Buckets[bound]++
		}
	}
}

// Stats returns the current numbers.
func (l *Lines) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.total
	s.Waits.Buckets = make(map[float64]uint64, len(bounds))
	for _, bound := range bounds {
		s.Waits.Buckets[bound] = l.total.Waits.Buckets[bound] // also 0
	}
	for _, n := range l.lines {
		s.Waiting += len(n.waiting)
		s.Running += n.held
	}
	return s
}

// Waiting is a request that waits.
type Waiting struct {
	// Backend is the backend given to Join.
	Backend string
	// Label is Options.Label.
	Label string
	// Since is when it joined the line. Waited is how long it has waited since, not counting
	// the times when upstream had it before refusing it.
	Since  time.Time
	Waited time.Duration
	// Before is how many requests are before it.
	Before int
}

// List returns the requests that wait now, sorted by backend, and then in the order of their turns.
func (l *Lines) List(now time.Time) []Waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Waiting
	for _, n := range l.lines {
		if n.changed {
			n.count(now)
		}
		for _, t := range n.waiting {
			list = append(list, Waiting{n.backend, t.label, t.since, t.waitedAt(now), t.before})
		}
	}
	slices.SortFunc(list, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Before, b.Before))
	})
	return list
}
