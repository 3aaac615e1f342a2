package queue

import (
	"context"
	"time"
)

// tellEvery is how long a request waits until it is told its place, and how often at most.
const tellEvery = time.Second

// countEvery is how long the counted places in line are used, for each request that waits, and up to
// tellEvery in all. They are counted all at once: ten thousand of them once a second.
const countEvery = 100 * time.Microsecond

// Turn is the turn of a request: it waits, has a place, or is over. Its methods must be called by
// the goroutine that handles the request, except Done, which any goroutine may call.
type Turn struct {
	line   *line
	client *client
	label  string
	joined uint64 // its ordinal in the line
	since  time.Time
	until  time.Time

	// ready is closed when the turn no longer waits. It is nil if it never did, and set only by the
	// goroutine of the request.
	ready chan struct{}
	told  int // the last number that tell got, -1 for none

	// These are guarded by the mutex of Lines.
	waits    bool // it is in line.waiting
	placed   bool
	timed    bool // it got its place at the end of a pause
	tried    bool // it is in client.tried: it has a place, and upstream has not taken it
	over     bool
	err      error // of Wait, if over
	counted  bool
	refusals int           // how often upstream has refused it
	stamp    uint64        // of its place; 0 if upstream has refused it and it keeps its place
	queued   time.Time     // when it began to wait
	waited   time.Duration // in all, before queued
	before   int           // how many came before it at the last count; -1 if it began to wait later
}

// Wait waits until the request has a place. tell, if not nil, is called in the same goroutine with
// the number of requests before it: after a second, and then when that is smaller than what tell got
// before, also in a Wait before. The
// error is ErrTimeout, ErrFull (see Join), or the cause of the context's end; then the turn is
// over.
func (t *Turn) Wait(ctx context.Context, tell func(before int)) error {
	if t.ready == nil {
		return t.begin(ctx)
	}
	timeout := time.NewTimer(time.Until(t.until))
	defer timeout.Stop()
	var ticks <-chan time.Time
	if tell != nil {
		ticker := time.NewTicker(tellEvery)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-t.ready:
			return t.begin(ctx)
		case <-ctx.Done():
			return t.leave(ctx)
		case <-timeout.C:
			t.finish(TimedOut, ErrTimeout)
		case <-ticks:
			if n := t.place(); n >= 0 && (t.told < 0 || n < t.told) {
				t.told = n
				tell(n)
			}
		}
	}
}

// begin returns the result of Wait for a turn that no longer waits.
func (t *Turn) begin(ctx context.Context) error {
	if ctx.Err() != nil {
		return t.leave(ctx)
	}
	t.line.lines.mu.Lock()
	defer t.line.lines.mu.Unlock()
	return t.err
}

// leave ends the turn because ctx is done, and returns the cause.
func (t *Turn) leave(ctx context.Context) error {
	t.finish(Left, errOver)
	return context.Cause(ctx)
}

// finish ends the turn, which may have got a place just now.
func (t *Turn) finish(o Outcome, err error) {
	t.line.lines.mu.Lock()
	defer t.line.lines.mu.Unlock()
	t.end(o, err, time.Now())
}

// place returns how many requests are before t while it waits, or -1 if that is not known.
func (t *Turn) place() int {
	n := t.line
	n.lines.mu.Lock()
	defer n.lines.mu.Unlock()
	now := time.Now()
	if n.changed && now.Sub(n.counted) >= min(time.Duration(len(n.waiting))*countEvery, tellEvery) {
		n.count(now)
	}
	return t.before
}

// Rejoin gives the place of the turn back, and waits again where the turn was, for the rest of its
// time: upstream has refused the request for the time after, at least a second, because it is at its
// own limit. If the time of the turn is over, or upstream has taken the request before, Rejoin returns
// false, and the turn keeps its place.
//
// No request is let through until after has passed, or the rest of the turn's time, or a place is
// free. Then one is let through, and one more each time that this happens again, until one of them
// is Answered.
func (t *Turn) Rejoin(after time.Duration) bool {
	n := t.line
	n.lines.mu.Lock()
	defer n.lines.mu.Unlock()
	if !t.tried { // it has no place, or upstream has taken it
		return false
	}
	n.lines.total.Refused++
	now := time.Now()
	rest := t.until.Sub(now)
	if rest <= 0 {
		n.taken(t)
		t.stamp = 0
		return false
	}
	n.decided(t)
	n.hold(t.client, -1)
	t.placed = false
	t.refusals++
	n.enqueue(t, now)
	n.refuse(t, max(min(after, rest), minPause), now)
	return true
}

// Answered records that upstream has taken the request.
func (t *Turn) Answered() {
	n := t.line
	n.lines.mu.Lock()
	defer n.lines.mu.Unlock()
	if !t.placed {
		return
	}
	n.lines.total.count(t, Admitted)
	n.taken(t)
	if t.stamp > n.refused { // let through after the last refusal, if there was one
		n.refused, n.rounds = 0, 0
		n.settle()
		n.paused = false
		n.admit(time.Now())
	}
}

// Waited returns how long the request has waited.
func (t *Turn) Waited() time.Duration {
	t.line.lines.mu.Lock()
	defer t.line.lines.mu.Unlock()
	return t.waitedAt(time.Now())
}

func (t *Turn) waitedAt(now time.Time) time.Duration {
	if !t.waits {
		return t.waited
	}
	return t.waited + now.Sub(t.queued)
}

// Err returns why the turn is over: ErrTimeout, ErrFull, or another error. It is nil before.
func (t *Turn) Err() error {
	t.line.lines.mu.Lock()
	defer t.line.lines.mu.Unlock()
	return t.err
}

// Done ends the turn: it gives its place back, or leaves the line. It may be called again.
func (t *Turn) Done() {
	t.line.lines.mu.Lock()
	defer t.line.lines.mu.Unlock()
	o := Left
	if t.placed {
		o = Admitted
	}
	t.end(o, errOver, time.Now())
}

// end ends the turn if it is not over. Its place goes to the next turn even if the line pauses,
// because upstream has room for one more as well.
func (t *Turn) end(o Outcome, err error, now time.Time) {
	if t.over {
		return
	}
	n := t.line
	t.over, t.err = true, err
	if t.placed {
		n.release(t)
		n.paused = false
	} else {
		n.dequeue(t, now)
		n.forgetClient(t.client)
		close(t.ready)
	}
	n.lines.total.count(t, o)
	n.admit(now)
	n.forget()
}
