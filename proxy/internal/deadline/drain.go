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
func (d Drain) LimitLeft(now time.Time) (time.Duration, bool) {
	return d.Limit - now.Sub(d.Began), d.Limit > 0
}

// DrainEnd is what becomes of an exchange whose timeout in a drain has passed.
type DrainEnd uint8

const (
	// EndIfStream lets it go on until it turns out to be a stream whose end is seen
	// to.
	EndIfStream DrainEnd = iota
	// EndAtLimit lets it go on until the drain's limit.
	EndAtLimit
	// EndNow ends it.
	EndNow
)

// DrainEnd returns what becomes of an exchange in the phase.
func (p Phase) DrainEnd() DrainEnd {
	switch {
	case p == Awaiting || p.Stream():
		return EndNow
	case p == Whole:
		return EndAtLimit // it may take until then, where the server would cut it
	}
	return EndIfStream
}
