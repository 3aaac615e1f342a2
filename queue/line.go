// Package queue lets the runs of an agent wait for each other: at most so many at once are let
// through, and the others wait in line. It knows clients and backends by values that its
// caller chooses, and nothing of HTTP.
package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Options say how many runs a Line admits, and who may wait.
type Options struct {
	// Runs is the number of runs that are under way at once, at least 1.
	Runs int
	// Wait is how long a request may wait.
	Wait time.Duration
	// Waiting is the number of requests that may wait at once.
	Waiting int
}

// Client is what tells a client from others, such as a digest of its credentials.
type Client [32]byte

// The errors of requests that get no place.
var (
	ErrFull    = errors.New("too many requests wait for the agent")
	ErrTimeout = errors.New("the request has waited too long for the agent")
)

// tellEvery is how long a request waits before it is told its place, and how often at most.
const tellEvery = time.Second

// Lines are the lines of all backends. The zero value has none. It is safe for concurrent use.
type Lines struct {
	mu    sync.Mutex
	lines map[string]*line // by backend; only those in which requests run or wait
}

// line is that of one backend. Its fields are guarded by the mutex of its Lines.
type line struct {
	runs    int // of the Options of the last Join
	held    int
	waiting []*Turn
}

// Turn is a request's: it waits, has a place, or is over. Its methods are for the goroutine that
// handles the request, but Done is for any.
type Turn struct {
	lines   *Lines
	backend string
	client  Client
	since   time.Time
	until   time.Time

	ready  chan struct{} // closed when it gets its place
	placed bool
	done   bool
	waited time.Duration
}

// Join puts a request of the client in line for the backend. The error is ErrFull if there is no
// place and no room to wait.
func (l *Lines) Join(backend string, o Options, c Client) (*Turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lines[backend]
	if n == nil {
		n = new(line)
		if l.lines == nil {
			l.lines = make(map[string]*line)
		}
		l.lines[backend] = n
	}
	n.runs = o.Runs
	now := time.Now()
	t := &Turn{lines: l, backend: backend, client: c, since: now, until: now.Add(o.Wait), ready: make(chan struct{})}
	n.admit()
	if n.held < n.runs {
		n.place(t)
		return t, nil
	}
	if len(n.waiting) >= o.Waiting || o.Wait <= 0 {
		return nil, ErrFull
	}
	n.waiting = append(n.waiting, t)
	return t, nil
}

// admit gives places to those that wait, as long as there are any.
func (n *line) admit() {
	for n.held < n.runs && len(n.waiting) > 0 {
		n.place(n.waiting[0])
		n.waiting = n.waiting[1:]
	}
}

// place gives t a place.
func (n *line) place(t *Turn) {
	n.held++
	t.placed, t.waited = true, time.Since(t.since)
	close(t.ready)
}

// Wait waits until the request has a place. tell, if not nil, is called in the same goroutine with
// the number of requests before it: after a second, and then when that has changed. The
// error is ErrTimeout, or the cause of the context's end; then the turn is over.
func (t *Turn) Wait(ctx context.Context, tell func(before int)) error {
	timeout := time.NewTimer(time.Until(t.until))
	defer timeout.Stop()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	told := -1
	for {
		select {
		case <-t.ready:
			return nil
		default:
		}
		select {
		case <-t.ready:
			return nil
		case <-ctx.Done():
			t.Done()
			return context.Cause(ctx)
		case <-timeout.C:
			t.Done()
			return ErrTimeout
		case <-tick.C:
			if n := t.before(); tell != nil && n != told && n >= 0 {
				told = n
				tell(n)
			}
		}
	}
}

// before returns how many requests wait before t, -1 if it does not wait.
func (t *Turn) before() int {
	t.lines.mu.Lock()
	defer t.lines.mu.Unlock()
	return slices.Index(t.lines.lines[t.backend].waiting, t)
}

// Refused says that upstream has refused the request for the time after, because it is at its own
// limit. The turn gives its place back and waits again, before all others of its client. It returns
// false if the request may not wait as long: then it keeps its place.
func (t *Turn) Refused(after time.Duration) bool {
	t.lines.mu.Lock()
	defer t.lines.mu.Unlock()
	if t.done || time.Until(t.until) < after {
		return false
	}
	n := t.lines.lines[t.backend]
	n.held--
	t.placed, t.ready = false, make(chan struct{})
	n.waiting = slices.Insert(n.waiting, 0, t)
	return true
}

// Answered says that upstream has taken the request.
func (t *Turn) Answered() {}

// Waited returns how long the request has waited.
func (t *Turn) Waited() time.Duration { return t.waited }

// Done ends the turn: its place is another's, or it leaves the line. It may be called again.
func (t *Turn) Done() {
	l := t.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.done {
		return
	}
	t.done = true
	n := l.lines[t.backend]
	if t.placed {
		n.held--
	} else {
		n.waiting = slices.DeleteFunc(n.waiting, func(o *Turn) bool { return o == t })
	}
	n.admit()
	if n.held == 0 && len(n.waiting) == 0 {
		delete(l.lines, t.backend)
	}
}
