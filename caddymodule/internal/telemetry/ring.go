package telemetry

// ring keeps the last values that were put into it. The zero value keeps none.
type ring[T any] struct {
	values []T // its capacity is how many are kept
	next   int // where the next value goes once all places are taken
}

// newRing returns a ring that keeps the last n values.
func newRing[T any](n int) ring[T] { return ring[T]{values: make([]T, 0, n)} }

// put adds v, in place of the oldest value if all places are taken.
func (r *ring[T]) put(v T) {
	switch {
	case len(r.values) < cap(r.values):
		r.values = append(r.values, v)
	case len(r.values) > 0:
		r.values[r.next] = v
		r.next = (r.next + 1) % len(r.values)
	}
}

// newest returns a copy of the values, the newest first.
func (r *ring[T]) newest() []T {
	all := make([]T, 0, len(r.values))
	for i := range r.values {
		all = append(all, r.values[(r.next+len(r.values)-1-i)%len(r.values)])
	}
	return all
}
