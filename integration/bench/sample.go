package main

import (
	"slices"
	"sync"
	"time"
)

// sample collects times.
type sample struct {
	mu sync.Mutex
	d  []time.Duration
}

func (s *sample) add(d time.Duration) {
	s.mu.Lock()
	s.d = append(s.d, d)
	s.mu.Unlock()
}

// quantile returns the q-th quantile, 0 of nothing.
func (s *sample) quantile(q float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return quantile(s.d, q)
}

// quantile returns the q-th quantile of the values, which it sorts, 0 of none.
func quantile[T int | int64 | float64 | time.Duration](v []T, q float64) T {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[int(q*float64(len(v)-1)+0.5)]
}

// median returns the middle of the values, and half the distance between the
// quartiles, which is how far they scatter.
func median(v []float64) (middle, scatter float64) {
	v = slices.Clone(v)
	middle = quantile(v, 0.5)
	if n := len(v); n > 0 && n%2 == 0 {
		middle = (v[n/2-1] + v[n/2]) / 2
	}
	return middle, (quantile(v, 0.75) - quantile(v, 0.25)) / 2
}
