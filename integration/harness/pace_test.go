package harness

import (
	"slices"
	"testing"
	"time"
)

// What fails is tried again, with more time, until it does not.
func TestAtAnyPace(t *testing.T) {
	var tried []time.Duration
	AtAnyPace(t, time.Second, func(t testing.TB, d time.Duration) {
		tried = append(tried, d)
		if d == time.Second {
			t.Errorf("too fast")
		}
		if d < 10*time.Second {
			t.Fatal("still too fast")
		}
	})
	if want := []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}; !slices.Equal(tried, want) {
		t.Errorf("tried were %v, want %v", tried, want)
	}
}
