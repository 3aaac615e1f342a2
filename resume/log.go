package resume

import (
	"container/list"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// logOverhead is what a log in memory takes without events, in bytes.
const logOverhead = 2 << 10

// Bounds of what a log waits for before it grows.
const (
	// mostGrowth is what a log grows by at most in one step, in bytes: a segment, and the
	// ends of the events in it.
	mostGrowth = 2 * maxSegment
	// readAhead is how many bytes the handler may be ahead of a client that has been there
	// from the beginning and is the only one: upstream waits for it, as without a log.
	readAhead = 64 << 10
	// stalledAfter is how long nothing may be read before readers that others wait for
	// lose what they have not read.
	stalledAfter = 5 * time.Second
)

// memoryLog is a log of a Memory, for its writer and its readers.
type memoryLog struct {
	store *Memory
	entry Entry
	size  atomic.Int64 // in bytes, as the store counts it; it changes under the store's lock

	mu        sync.Mutex
	state     State
	header    http.Header
	segments  segments
	readers   []*memoryReader
	elsewhere int           // readers in other replicas
	moved     chan struct{} // signals the writer that a reader has moved
	timer     *time.Timer   // that removes the log; nil before its end
	run       Run           // zero after the end: it holds the whole request

	// Under the lock of the store:
	kept    bool       // the store has it
	hidden  bool       // only its run finds it
	list    *list.List // of the store
	element *list.Element
}

func newMemoryLog(m *Memory, e Entry, run Run) *memoryLog {
	l := &memoryLog{store: m, entry: e, run: run, moved: make(chan struct{}, 1)}
	l.size.Store(logOverhead + int64(len(e.Path)+len(e.Progress)))
	return l
}

// begin has the log begin.
func (l *memoryLog) begin(header http.Header) {
	l.mu.Lock()
	l.state, l.header = Begun, header
	l.wake()
	l.place()
	l.mu.Unlock()
	l.grow(int64(sizeOf(header)), 0)
}

// Append implements Writer.
func (l *memoryLog) Append(ctx context.Context, p Part) error {
	if p.Header != nil {
		l.begin(p.Header)
	}
	for b, ends := range p.Pieces(maxSegment) {
		l.add(ctx, b, ends)
	}
	return nil
}

// add appends at most maxSegment bytes, after which an event may end.
func (l *memoryLog) add(ctx context.Context, b []byte, ends bool) {
	l.waitForReaders(ctx)
	l.mu.Lock()
	unread := l.segments.end
	if ctx.Err() == nil {
		unread = l.unread()
	}
	before := l.segments.taken
	l.segments.append(b, ends)
	l.segments.trim(l.limit(), unread)
	grown := l.segments.taken - before
	l.wake()
	l.mu.Unlock()
	l.grow(grown, unread)
}

// limit returns how many bytes the segments may take. l.mu is held.
func (l *memoryLog) limit() int64 {
	return l.segments.sizes.Limit(l.entry.MaxStream, l.segments.end)
}

// grow counts n bytes more. If that is too much, it deletes the oldest events, but none from
// the index unread on.
func (l *memoryLog) grow(n, unread int64) {
	if n == 0 {
		return
	}
	l.store.count(l, n)
	if over := l.store.makeRoom(l, 0, l.entry.MaxMemory); over > 0 {
		l.trim(over, unread)
	}
}

// trim frees at least so many bytes, unless only the last ones and those from the index
// unread on are left.
func (l *memoryLog) trim(bytes, unread int64) {
	l.mu.Lock()
	before := l.segments.taken
	l.segments.trim(before-bytes, unread)
	freed := before - l.segments.taken
	l.mu.Unlock()
	l.store.count(l, -freed)
}

// waitForReaders waits until the log can grow without deleting events that a reader has yet
// to read.
func (l *memoryLog) waitForReaders(ctx context.Context) {
	stalled := false
	for ctx.Err() == nil && l.lags(l.store.makeRoom(l, mostGrowth, l.entry.MaxMemory), stalled) {
		stalled = false
		timer := time.NewTimer(stalledAfter)
		select {
		case <-l.moved:
		case <-ctx.Done():
		case <-timer.C:
			stalled = true
		}
		timer.Stop()
	}
}

// lags reports whether to wait for a reader before the log grows. The memory is over bytes
// too small for that. If the readers are stalled, only one that is alone is waited for.
func (l *memoryLog) lags(over int64, stalled bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	alone := len(l.readers)+l.elsewhere == 1
	to := l.segments.trimmed(max(over, l.segments.taken+mostGrowth-l.limit()))
	lags := false
	for _, r := range l.readers {
		if !r.isWaitedFor() || r.at >= to && !(alone && r.first && r.at < l.segments.end-readAhead) {
			continue
		}
		if stalled && !alone {
			r.stuck = true
			continue
		}
		lags = true
	}
	return lags
}

// unread returns where the bytes begin that a reader is waited for to read. l.mu is held.
func (l *memoryLog) unread() int64 {
	at := l.segments.end
	for _, r := range l.readers {
		if r.isWaitedFor() {
			at = min(at, r.at)
		}
	}
	return at
}

// clear deletes all of a log that the store has taken out. Readers that are not at its end
// are cut off.
func (l *memoryLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments.clear()
	l.timer.Stop()
	l.wake()
}

// End implements Writer.
func (l *memoryLog) End(how State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.run = how, Run{}
	l.wake()
	l.place()
	l.timer = time.AfterFunc(l.entry.Keep, func() { l.store.remove(l) })
	if how == Dropped || l.store.isHidden(l) {
		l.forget()
	}
}

// forget takes a log out of the store that has ended. l.mu is held.
func (l *memoryLog) forget() {
	l.timer.Stop()
	l.store.remove(l)
}

// cancel cancels the run or, if it is over, takes a log out that was deleted.
func (l *memoryLog) cancel(why Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.run.Cancel != nil:
		l.run.Cancel(why)
	case l.state > Begun && why == ReasonDeleted:
		l.forget()
	}
}

// setElsewhere sets how many readers the log has in other replicas.
func (l *memoryLog) setElsewhere(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.elsewhere != n {
		l.elsewhere = n
		l.readersChanged()
	}
}

// readersChanged tells all who have to know. l.mu is held.
func (l *memoryLog) readersChanged() {
	l.place()
	l.signalMove()
	if l.run.ReadersChanged != nil {
		l.run.ReadersChanged(len(l.readers) + l.elsewhere)
	}
}

// place puts the log into the list of the store that it belongs to. l.mu is held.
func (l *memoryLog) place() {
	var to *list.List
	switch {
	case len(l.readers) > 0:
	case l.state == Begun:
		to = &l.store.unread
	case l.state == Whole || l.state == Broken:
		to = &l.store.ended
	}
	l.store.place(l, to)
}

// wake wakes the readers. l.mu is held.
func (l *memoryLog) wake() {
	for _, r := range l.readers {
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
}

// signalMove signals the writer that a reader has moved. l.mu is held.
func (l *memoryLog) signalMove() {
	select {
	case l.moved <- struct{}{}:
	default:
	}
}

// memoryReader is a reader of a memoryLog, under whose lock it is.
type memoryReader struct {
	log   *memoryLog
	ctx   context.Context
	after uint64        // the number of the event to start after
	news  chan struct{} // signals the reader that the log has changed
	first bool          // it has been there from the beginning
	began bool          // it has returned the header
	stuck bool          // the writer has waited for it long enough
	at    int64         // where it is in the log
}

// read returns a reader of the events after the number n.
func (l *memoryLog) read(ctx context.Context, n uint64) Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &memoryReader{log: l, ctx: ctx, after: n, news: make(chan struct{}, 1), first: l.state == Claimed}
	l.readers = append(l.readers, r)
	l.readersChanged()
	return r
}

// wait waits until the log has changed. Its lock is held, except while it waits.
func (r *memoryReader) wait() error {
	r.log.mu.Unlock()
	defer r.log.mu.Lock()
	select {
	case <-r.news:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// Next implements Reader.
func (r *memoryReader) Next() (Part, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
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
	if r.at < l.segments.begin() {
		return Part{}, &GoneError{l.segments.first()}
	}
	b := l.segments.since(r.at)
	r.moveTo(r.at + int64(len(b)))
	return Part{Data: b}, nil
}

// begin waits for the header and finds the place to begin. The log's lock is held.
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
		return Part{}, &GoneError{l.segments.first()}
	}
	r.moveTo(at)
	r.began = true
	if l.state == Whole && at == l.segments.end {
		return Part{Header: l.header}, io.EOF
	}
	return Part{Header: l.header}, nil
}

// Close implements Reader.
func (r *memoryReader) Close() {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.readers, r); i >= 0 {
		l.readers = slices.Delete(l.readers, i, i+1)
		l.readersChanged()
	}
}

// isWaitedFor reports whether the writer waits for the reader, which has lost nothing. The
// log's lock is held.
func (r *memoryReader) isWaitedFor() bool { return !r.stuck && r.at >= r.log.segments.begin() }

// moveTo records where the reader is. The log's lock is held.
func (r *memoryReader) moveTo(at int64) {
	r.at, r.stuck = at, false
	r.log.signalMove()
}

// Interface guards
var (
	_ Writer = (*memoryLog)(nil)
	_ Reader = (*memoryReader)(nil)
)
