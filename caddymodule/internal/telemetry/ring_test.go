package telemetry

import (
	"slices"
	"testing"
)

func TestRingKeepsTheLastValues(t *testing.T) {
	for _, c := range []struct {
		keep, put int
		want      []int
	}{
		{3, 0, []int{}}, {3, 1, []int{1}}, {3, 3, []int{3, 2, 1}}, {3, 4, []int{4, 3, 2}}, {3, 9, []int{9, 8, 7}}, {1, 5, []int{5}}, {0, 5, []int{}},
	} {
		r := newRing[int](c.keep)
		for i := range c.put {
			r.put(i + 1)
		}
		if got := r.newest(); !slices.Equal(got, c.want) {
			t.Errorf("%d put into a ring of %d: %v, want %v", c.put, c.keep, got, c.want)
		}
	}
}
