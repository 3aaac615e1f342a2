package httpapp

import (
	"testing"
	"time"
)

func TestDrainLimitLeavesTimeBeforeTheGracePeriodEnds(t *testing.T) {
	for _, c := range []struct{ grace, delay, want time.Duration }{
		{0, 0, 0},                                          // an eternal grace period has no end
		{0, time.Minute, 0},                                //
		{-1, 0, 0},                                         //
		{10 * time.Second, 0, 9 * time.Second},             // a tenth is kept
		{time.Second, 0, 750 * time.Millisecond},           // at least 250 ms
		{125 * time.Second, 0, 2 * time.Minute},            // at most 5 s
		{100 * time.Millisecond, 0, 50 * time.Millisecond}, // but never all of it
		{2, 0, 1},
		{10 * time.Second, 5 * time.Second, 14 * time.Second}, // it begins after the delay
		{10 * time.Second, -1, 9 * time.Second},
	} {
		if got := DrainLimit(c.grace, c.delay); got != c.want {
			t.Errorf("grace period %v after %v: limit %v, want %v", c.grace, c.delay, got, c.want)
		}
	}
}
