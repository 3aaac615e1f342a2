package details

import (
	"sync"
	"time"
)

const (
	// pause is how long an upstream is not asked after it has refused, or has failed maxFailed times in a
	// row.
	pause     = 10 * time.Minute
	maxFailed = 3
	// maxUpstreams is the number of upstreams that are remembered.
	maxUpstreams = 256
)

// Upstreams are those of a process that are not asked, or have failed. The zero value has none. It is safe
// for concurrent use.
type Upstreams struct {
	mu sync.Mutex
	of map[string]*upstream
}

// upstream is an upstream that has not answered the last question.
type upstream struct {
	failed int       // how often in a row
	until  time.Time // until which it is not asked
	told   bool      // the log says so
}

// mayAsk reports whether the upstream may be asked at the time now.
func (u *Upstreams) mayAsk(name string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.of[name]
	return of == nil || !now.Before(of.until)
}

// note records what became of a question at the time now. It reports whether the upstream is not asked for
// a while from now on, and this is to be logged.
func (u *Upstreams) note(name string, outcome Outcome, now time.Time) (tell bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.of[name]
	switch {
	case of != nil && now.Before(of.until): // it was asked before it refused
		return false
	case outcome == Answered:
		delete(u.of, name)
		return false
	case of == nil:
		of = new(upstream)
		u.add(name, of)
	}
	if of.failed++; of.failed < maxFailed && outcome != Refused && outcome != TooLarge {
		return false
	}
	of.failed, of.until = 0, now.Add(pause)
	tell, of.told = !of.told, true
	return tell
}

// add remembers an upstream in the place of any other, if there are too many.
func (u *Upstreams) add(name string, of *upstream) {
	if u.of == nil {
		u.of = make(map[string]*upstream)
	}
	for other := range u.of {
		if len(u.of) < maxUpstreams {
			break
		}
		delete(u.of, other)
	}
	u.of[name] = of
}
