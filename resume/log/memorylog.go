package log

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"
)

// logOverhead is the size in bytes of a log in memory without events.
const logOverhead = 2 << 10

// Bounds of the wait for readers before a log grows.
const (
	// mostGrowth is the most by which a log grows in one step, in bytes: a segment, and the ends of
	// the events in it.
	mostGrowth = 2 * segmentSize
	// readAhead is how many bytes the writer may be ahead of the only reader, if that has read from
	// the beginning: upstream waits for it, as without a log.
	readAhead = 64 << 10
	// stalledAfter is how long a writer waits if no reader moves. Then readers of a log that has
	// several lose the events that they have not read.
	stalledAfter = 5 * time.Second
)

// memoryLog is a log of a Memory, and its Writer. The lock of the Memory guards it.
type memoryLog struct {
	in        *Memory
	entry     Entry
	state     State
	header    http.Header
	status    int
	ended     time.Time
	overhead  int64 // the size of all but the segments, in bytes
	segments  segments
	readers   []*memoryReader
	elsewhere int           // readers in other replicas
	moved     chan struct{} // signals the writer that a reader has moved
	timer     *time.Timer   // removes the log; nil before its end
	run       Run           // zero after the end: it holds the whole request
	hidden    bool          // only its run finds it
}

func newMemoryLog(m *Memory, e Entry, run Run) *memoryLog {
	return &memoryLog{
		in: m, entry: e, run: run, overhead: logOverhead + int64(len(e.About)),
		moved: make(chan struct{}, 1),
	}
}

// size returns the size of the log in bytes.
func (l *memoryLog) size() int64 { return l.overhead + l.segments.taken }

func (l *memoryLog) Append(ctx context.Context, p Part) error {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if p.Header != nil {
		l.grow(0, func() {
			l.state, l.header, l.status = Begun, p.Header, p.Status
			l.overhead += int64(HeaderSize(p.Header))
		})
		l.in.updateUnread(l)
	}
	for b, ends := range p.Pieces(segmentSize) {
		l.waitForReaders(ctx)
		unread := l.segments.end // where the bytes begin that are kept for readers
		for _, r := range l.readers {
			if ctx.Err() == nil && r.isWaitedFor() {
				unread = min(unread, r.at)
			}
		}
		l.grow(unread, func() { l.segments.append(b, ends) })
	}
	return nil
}

func (l *memoryLog) End(how State) {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	l.state, l.run, l.ended = how, Run{}, time.Now()
	l.wake()
	if how == Dropped || l.hidden {
		l.in.remove(l)
		return
	}
	l.in.updateUnread(l)
	l.timer = time.AfterFunc(l.entry.Keep, func() {
		l.in.mu.Lock()
		defer l.in.mu.Unlock()
		l.in.remove(l)
	})
}

// Callers of the methods of memoryLog below hold the lock.

// grow calls f, which adds to the log. If the log is too large then, or other logs cannot make
// enough room for it, grow deletes its oldest events, but none from the index unread on.
func (l *memoryLog) grow(unread int64, f func()) {
	l.in.used -= l.size()
	f()
	l.in.used += l.size()
	l.trim(l.limit(), unread)
	if over := l.in.makeRoom(l, 0); over > 0 {
		l.trim(l.segments.taken-over, unread)
	}
	l.wake()
}

// trim deletes the oldest segments until the others take no more than most bytes. It keeps the last
// segment, and those with bytes from the index unread on.
func (l *memoryLog) trim(most, unread int64) {
	l.in.used -= l.size()
	l.segments.trim(most, unread)
	l.in.used += l.size()
}

// limit returns how many bytes the segments may take.
func (l *memoryLog) limit() int64 {
	return l.segments.sizes.Limit(l.entry.MaxStream, l.segments.end)
}

// waitForReaders waits until the log can grow without deleting events that a reader has yet to
// read. It does not hold the lock while it waits. If readers stall, it goes on waiting only for a
// reader that is alone.
func (l *memoryLog) waitForReaders(ctx context.Context) {
	for ctx.Err() == nil && l.lags(l.in.makeRoom(l, mostGrowth)) {
		l.in.mu.Unlock()
		stalled := false
		select {
		case <-l.moved:
		case <-ctx.Done():
		case <-time.After(stalledAfter):
			stalled = true
		}
		l.in.mu.Lock()
		for _, r := range l.readers {
			r.stuck = r.stuck || stalled && l.isShared() && r.at < l.segments.end
		}
	}
}

// hasKey reports whether the log's key still leads to it.
func (l *memoryLog) hasKey() bool {
	e := l.entry
	return l.state <= Begun || e.KeyKeep == 0 || time.Since(l.ended) < e.KeyKeep
}

// isShared reports whether the log has no reader or several, those in other replicas included.
func (l *memoryLog) isShared() bool { return len(l.readers)+l.elsewhere != 1 }

// lags reports whether the writer has to wait for a reader before the log grows. over is how many
// bytes the Memory lacks for that.
func (l *memoryLog) lags(over int64) bool {
	to := l.segments.trimTo(max(over, l.segments.taken+mostGrowth-l.limit()))
	return slices.ContainsFunc(l.readers, func(r *memoryReader) bool {
		ahead := r.first && !l.isShared() && r.at < l.segments.end-readAhead
		return r.isWaitedFor() && (r.at < to || ahead)
	})
}

// cancel cancels the run, if it is not over.
func (l *memoryLog) cancel(why Reason) {
	if l.run.Cancel != nil {
		l.run.Cancel(why)
	}
}

// readersChanged tells the writer and the run that readers have joined or left.
func (l *memoryLog) readersChanged() {
	l.in.updateUnread(l)
	signal(l.moved)
	if l.run.ReadersChanged != nil {
		l.run.ReadersChanged(len(l.readers) + l.elsewhere)
	}
}

// wake wakes the readers.
func (l *memoryLog) wake() {
	for _, r := range l.readers {
		signal(r.changed)
	}
}

// signal sends on c, which has room for one signal, unless one is there already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// memoryReader is a reader of a memoryLog.
type memoryReader struct {
	log   *memoryLog
	ctx   context.Context
	after uint64 // the number of the event to start after
	first bool   // it has been there from the beginning
	began bool   // it has returned the header
	stuck bool   // the writer has waited for it long enough
	at    int64  // where it is in the log
	// changed signals that the log has changed.
	changed chan struct{}
}

// read returns a reader of the events after the number n.
func (l *memoryLog) read(ctx context.Context, n uint64) *memoryReader {
	r := &memoryReader{log: l, ctx: ctx, after: n, first: l.state == Claimed, changed: make(chan struct{}, 1)}
	l.readers = append(l.readers, r)
	l.readersChanged()
	return r
}

func (r *memoryReader) Next() (Part, error) {
	l := r.log
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if !r.began {
		return r.begin()
	}
	for r.at == l.segments.end {
		switch l.state {
		case Whole:
			return Part{}, io.EOF
		case Broken:
			return Part{}, ErrBroken
		}
		if err := r.wait(); err != nil {
			return Part{}, err
		}
	}
	if r.at < l.segments.begin {
		return Part{}, &GoneError{l.segments.first()}
	}
	b := l.segments.since(r.at)
	r.moveTo(r.at + int64(len(b)))
	return Part{Data: b}, nil
}

func (r *memoryReader) Close() {
	l := r.log
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if i := slices.Index(l.readers, r); i >= 0 {
		l.readers = slices.Delete(l.readers, i, i+1)
		l.readersChanged()
	}
}

// Callers of the methods below hold the lock.

// begin waits for the header and finds the place to begin.
func (r *memoryReader) begin() (Part, error) {
	l := r.log
	for l.state == Claimed {
		if err := r.wait(); err != nil {
			return Part{}, err
		}
	}
	if l.state == Dropped {
		return Part{}, ErrDropped
	}
	if r.after > l.segments.events {
		return Part{}, ErrAhead
	}
	at, ok := l.segments.after(r.after)
	if !ok {
		return Part{Status: l.status}, &GoneError{l.segments.first()}
	}
	r.moveTo(at)
	r.began = true
	if l.state == Whole && at == l.segments.end {
		return Part{Header: l.header, Status: l.status}, io.EOF
	}
	return Part{Header: l.header, Status: l.status}, nil
}

// wait waits until the log has changed. It does not hold the lock while it waits.
func (r *memoryReader) wait() error {
	r.log.in.mu.Unlock()
	defer r.log.in.mu.Lock()
	select {
	case <-r.changed:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// isWaitedFor reports whether the writer waits for r, which is not stuck and has lost nothing.
func (r *memoryReader) isWaitedFor() bool { return !r.stuck && r.at >= r.log.segments.begin }

// moveTo records where the reader is.
func (r *memoryReader) moveTo(at int64) {
	r.at, r.stuck = at, false
	signal(r.log.moved)
}
