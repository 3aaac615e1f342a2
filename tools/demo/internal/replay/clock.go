package replay

import (
	"context"
	"time"
)

// A Clock tells the time and waits. The zero value of every type that takes
// one uses the machine's.
type Clock interface {
	Now() time.Time
	// Sleep waits for d, or until ctx ends, and returns the error of ctx then.
	Sleep(ctx context.Context, d time.Duration) error
}

// systemClock is the machine's clock.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// orSystem returns c, or the machine's clock for nil.
func orSystem(c Clock) Clock {
	if c == nil {
		return systemClock{}
	}
	return c
}

// scale divides a delay by the speed; a speed of 0 means no delay.
func scale(d time.Duration, speed float64) time.Duration {
	if speed <= 0 {
		return 0
	}
	return time.Duration(float64(d) / speed)
}
