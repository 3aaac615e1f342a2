package proxy_test

import (
	"slices"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// fakeClock is a clock that stands still until a test moves it. It runs what is
// due in the goroutine that moves it.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer
	sets   int // how often a timer has been set
}

type fakeTimer struct {
	clock *fakeClock
	at    time.Time
	f     func()
}

func newClock() *fakeClock { return &fakeClock{now: time.Unix(1795164800, 0)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *fakeClock) AfterFunc(d time.Duration, f func()) proxy.Timer {
	t := &fakeTimer{clock: c, f: f}
	t.Reset(d)
	return t
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	i := slices.Index(t.clock.timers, t)
	if i >= 0 {
		t.clock.timers = slices.Delete(t.clock.timers, i, i+1)
	}
	return i >= 0
}

func (t *fakeTimer) Reset(d time.Duration) bool {
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
func (c *fakeClock) due(until time.Time) *fakeTimer {
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
func (c *fakeClock) Advance(d time.Duration) {
	until := c.Now().Add(d)
	for t := c.due(until); t != nil; t = c.due(until) {
		t.f()
	}
}

// Skip moves the clock by d and runs nothing: Advance(0) does, late.
func (c *fakeClock) Skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Pending returns how many timers are set.
func (c *fakeClock) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}
