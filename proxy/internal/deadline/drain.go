package deadline

import "time"

// Drain is the end of the process, which lets exchanges go on for a while.
type Drain struct {
	// Began is when it began.
	Began time.Time
	// Limit is the time from Began beyond which no exchange goes on, zero for none.
	Limit time.Duration
}

// Left returns how long an exchange may still go on that may go on for timeout in a
// drain.
func (d Drain) Left(timeout time.Duration, now time.Time) time.Duration {
	if d.Limit > 0 {
		timeout = min(timeout, d.Limit)
	}
	return max(timeout-now.Sub(d.Began), 0)
}

// LimitLeft returns the time until the limit, zero or less if it has passed. It
// returns false if there is none.
func (d Drain) LimitLeft(now time.Time) (left time.Duration, limited bool) {
	return d.Limit - now.Sub(d.Began), d.Limit > 0
}
