// Package clocktest has a clock for tests.
package clocktest

import (
	"slices"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume/internal/clock"
)

// Clock is a [clock.Clock] that stands still until a test moves it. It runs what is due in
// the goroutine that moves it.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer
	sets   int // how often a timer has been set
}

type timer struct {
	clock *Clock
	at    time.Time
	f     func()
}

// New returns a clock that stands at a time of no meaning.
func New() *Clock { return &Clock{now: time.Unix(1795164800, 0)} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Since returns the time that has passed on the clock since t.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// AfterFunc has f be run once the clock has moved by d.
func (c *Clock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &timer{clock: c, f: f}
	t.Reset(d)
	return t
}

// Stop takes the timer out, and reports whether it was set.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	i := slices.Index(t.clock.timers, t)
	if i >= 0 {
		t.clock.timers = slices.Delete(t.clock.timers, i, i+1)
	}
	return i >= 0
}

// Reset sets the timer again, and reports whether it was set.
func (t *timer) Reset(d time.Duration) bool {
	was := t.Stop()
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.at = t.clock.now.Add(d)
	t.clock.timers = append(t.clock.timers, t)
	t.clock.sets++
	return was
}

// due takes out the first timer that is due at the time, and moves the clock to
// it.
func (c *Clock) due(until time.Time) *timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := -1
	for i, t := range c.timers {
		if !t.at.After(until) && (first < 0 || t.at.Before(c.timers[first].at)) {
			first = i
		}
	}
	if first < 0 {
		if until.After(c.now) {
			c.now = until
		}
		return nil
	}
	t := c.timers[first]
	c.timers = slices.Delete(c.timers, first, first+1)
	if t.at.After(c.now) {
		c.now = t.at
	}
	return t
}

// Advance moves the clock by d and runs what is due on the way.
func (c *Clock) Advance(d time.Duration) {
	until := c.Now().Add(d)
	for t := c.due(until); t != nil; t = c.due(until) {
		t.f()
	}
}

// Skip moves the clock by d and runs nothing: Advance(0) does, late.
func (c *Clock) Skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Pending returns how many timers are set.
func (c *Clock) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Fired returns the functions of the timers that are set, as if all had just fired: a Stop
// comes too late for them.
func (c *Clock) Fired() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fs []func()
	for _, t := range c.timers {
		fs = append(fs, t.f)
	}
	return fs
}

// Sets returns how often a timer has been set.
func (c *Clock) Sets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets
}
