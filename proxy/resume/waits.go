package resume

import (
	"context"
	"time"
)

// What a run waits for before it appends.
const (
	// mostGrowth is what a log grows by at most with the bytes that MakeRoom returns: a
	// segment, and the ends of the events in it.
	mostGrowth = 2 * maxSegment
	// lagsAfter is how long nothing may be read before readers that others wait for lose
	// what they have not read.
	lagsAfter = 5 * time.Second
)

// MakeRoom implements Log.
func (l *memoryLog) MakeRoom(ctx context.Context, alone func() bool) int {
	for ctx.Err() == nil {
		moved := l.lag(l.store.makeRoom(l, mostGrowth, l.entry.MaxMemory), false)
		if moved == nil {
			break
		}
		late := make(chan struct{})
		timer := l.store.clock.AfterFunc(lagsAfter, func() { close(late) })
		select {
		case <-moved:
		case <-ctx.Done():
		case <-late:
			if !alone() {
				l.lag(0, true)
			}
		}
		timer.Stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits, l.moved = true, nil
	return l.segments.room()
}

// lag returns a channel that is told when a reader has moved, if one has not read what has
// to go for the bytes to come; nil if all have. In memory there are over bytes too many.
// giveUp has nobody wait for those readers any more until they have moved.
func (l *memoryLog) lag(over int64, giveUp bool) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := l.segments.goes(max(over, l.segments.taken+mostGrowth-l.segments.sizes.Limit(l.entry.MaxStream, l.segments.end())))
	lags := false
	for _, r := range l.readers {
		if r.isWaitedFor() && r.at < to {
			lags, r.stuck = true, giveUp
		}
	}
	if !lags {
		return nil
	}
	if l.moved == nil {
		l.moved = make(chan struct{}, 1)
	}
	return l.moved
}

// stays returns where the bytes begin that stay when some are appended: those that readers
// which the run has waited for have not read, and those to come. l.mu is held.
func (l *memoryLog) stays() int64 {
	at := l.segments.end()
	if l.waits {
		for _, r := range l.readers {
			if r.isWaitedFor() {
				at = min(at, r.at)
			}
		}
	}
	return at
}

// isWaitedFor reports whether the run waits for the reader, which has lost nothing. The lock
// is held.
func (r *memoryReader) isWaitedFor() bool { return !r.stuck && r.at >= r.log.segments.begin() }

// moveTo records where the reader is. The lock is held.
func (r *memoryReader) moveTo(at int64) {
	r.at, r.stuck = at, false
	r.log.tell()
}

// tell tells a run that waits for readers that one has moved. l.mu is held.
func (l *memoryLog) tell() {
	select {
	case l.moved <- struct{}{}: // nil blocks
	default:
	}
}
