package resume

import (
	"container/list"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// logOverhead is what a log in memory takes without events, in bytes.
const logOverhead = 2 << 10

// logState is how far a log is.
type logState uint8

const (
	logClaimed logState = iota // nobody knows yet what the answer is
	logBegun                   // an event stream
	logWhole                   // one that has come to its end
	logBroken                  // one that has broken off
	logDropped                 // no event stream
)

// memoryLog is a log of a Memory.
type memoryLog struct {
	// What each Append needs comes first, and lies together.
	mu       sync.Mutex
	state    logState
	gone     bool  // the store has taken it for others
	waiting  int32 // how many readers wait
	segments segments
	readers  []*memoryReader
	waits    bool          // the run has waited for readers before the bytes to come
	moved    chan struct{} // told when a reader has moved; nil if the run does not wait for that
	header   http.Header
	timer    Timer // that removes it; nil before its end
	run      Run   // over{} behind the end: it holds the whole request

	store *Memory
	size  atomic.Int64 // in bytes, as the store counts it; it changes under the store's lock
	entry Entry

	// Under the lock of the store:
	kept    bool       // it is in
	list    *list.List // of the store
	element *list.Element
}

func newMemoryLog(m *Memory, e Entry, run Run) *memoryLog {
	l := &memoryLog{store: m, entry: e, run: run}
	l.size.Store(logOverhead + int64(len(e.Path)+len(e.Progress)))
	return l
}

// Entry implements Log.
func (l *memoryLog) Entry() Entry { return l.entry }

// Begin implements Log.
func (l *memoryLog) Begin(header http.Header) error {
	l.mu.Lock()
	l.state, l.header = logBegun, header
	l.wake()
	l.place()
	l.mu.Unlock()
	l.grow(int64(sizeOf(header)), 0)
	return nil
}

// Append implements Log.
func (l *memoryLog) Append(p []byte, ends []int) error {
	if len(p) == 0 {
		return nil
	}
	l.mu.Lock()
	if l.segments.put(p, ends) { // as almost always
		l.wake()
		l.mu.Unlock()
		return nil
	}
	before, stays := l.segments.taken, l.stays()
	l.waits = false
	l.segments.append(p, ends)
	l.segments.keep(l.segments.sizes.Limit(l.entry.MaxStream, l.segments.end()), stays)
	grown := l.segments.taken - before
	l.wake()
	l.mu.Unlock()
	l.grow(grown, stays)
	return nil
}

// grow counts n bytes more, and drops the oldest events if that is too much, but none from
// stays on.
func (l *memoryLog) grow(n, stays int64) {
	if over := l.store.grow(l, n, l.entry.MaxMemory); over > 0 {
		l.trim(over, stays)
	}
}

// trim drops the oldest events, so that at least so many bytes are free, or only the
// last are left, and those from stays on.
func (l *memoryLog) trim(bytes, stays int64) {
	l.mu.Lock()
	before := l.segments.taken
	l.segments.keep(before-bytes, stays)
	freed := before - l.segments.taken
	l.mu.Unlock()
	l.store.grow(l, -freed, l.entry.MaxMemory)
}

// forget drops all of a log that the store has taken out. Readers that are not at the end
// are cut off.
func (l *memoryLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments.clear()
	l.gone = true
	l.wake()
	l.stopTimer()
}

// End implements Log.
func (l *memoryLog) End(whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = logBroken
	if whole {
		l.state = logWhole
	}
	l.run = over{}
	l.wake()
	l.place()
	if !l.gone {
		l.timer = l.store.clock.AfterFunc(l.entry.Keep, func() { l.store.remove(l) })
	}
}

// Drop implements Log.
func (l *memoryLog) Drop() {
	l.store.remove(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = logDropped
	l.wake()
}

// Cancel implements Log.
func (l *memoryLog) Cancel(context.Context) error {
	l.store.remove(l)
	l.mu.Lock()
	l.gone = true
	l.stopTimer()
	l.mu.Unlock()
	l.runs().Cancel(ReasonDeleted)
	return nil
}

// runs returns the run that must be told.
func (l *memoryLog) runs() Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// over is the Run of a log that has ended.
type over struct{}

// ReadersChanged implements Run.
func (over) ReadersChanged() {}

// Cancel implements Run.
func (over) Cancel(Reason) {}

// stopTimer stops the timer, if there is one. l.mu is held.
func (l *memoryLog) stopTimer() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// Readers implements Log.
func (l *memoryLog) Readers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.readers)
}

// Events implements Log.
func (l *memoryLog) Events() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments.events()
}

// Each implements Log.
func (l *memoryLog) Each(f func(p []byte)) error {
	l.mu.Lock()
	pieces := l.segments.pieces()
	l.mu.Unlock()
	for _, p := range pieces {
		f(p)
	}
	return nil
}

// place puts the log into the list of the store that it belongs to. l.mu is held.
func (l *memoryLog) place() {
	var to *list.List
	switch {
	case len(l.readers) > 0:
	case l.state == logBegun:
		to = &l.store.alone
	case l.state == logWhole || l.state == logBroken:
		to = &l.store.ended
	}
	l.store.place(l, to)
}

// wake wakes the readers that wait. l.mu is held.
func (l *memoryLog) wake() {
	if l.waiting == 0 {
		return
	}
	for _, r := range l.readers {
		r.wake()
	}
}

// Follow implements Log.
func (l *memoryLog) Follow(ctx context.Context) (Reader, error) {
	r := &memoryReader{log: l, ctx: ctx, awake: make(chan struct{}, 1)}
	l.mu.Lock()
	l.readers = append(l.readers, r)
	l.place()
	l.mu.Unlock()
	r.stop = context.AfterFunc(ctx, r.left)
	l.runs().ReadersChanged()
	return r, nil
}

// memoryReader is a reader of a memoryLog, under whose lock it is.
type memoryReader struct {
	log   *memoryLog
	ctx   context.Context
	stop  func() bool // undoes that the end of ctx wakes it
	awake chan struct{}
	waits bool
	stuck bool  // its run has waited for it long enough
	at    int64 // where it is in the log
}

// left wakes the reader when its context is done.
func (r *memoryReader) left() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.wake()
}

// wake wakes the reader if it waits. The lock is held.
func (r *memoryReader) wake() {
	if r.waits {
		r.waits = false
		r.log.waiting--
		r.awake <- struct{}{} // it has room
	}
}

// wait waits until there is something new. The lock is held but while it waits.
func (r *memoryReader) wait() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	r.waits = true
	r.log.waiting++
	r.log.mu.Unlock()
	<-r.awake
	r.log.mu.Lock()
	return nil
}

// Header implements Reader.
func (r *memoryReader) Header() (http.Header, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.state == logClaimed {
		if err := r.wait(); err != nil {
			return nil, err
		}
	}
	if l.state == logDropped {
		return nil, ErrDropped
	}
	return l.header, nil
}

// Seek implements Reader.
func (r *memoryReader) Seek(n uint64) error {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > l.segments.events() {
		return ErrAhead
	}
	at, ok := l.segments.behind(n)
	if !ok {
		return &GoneError{l.segments.first()}
	}
	r.moveTo(at)
	return nil
}

// Next implements Reader.
func (r *memoryReader) Next() ([]byte, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for r.at == l.segments.end() {
		switch l.state {
		case logWhole:
			return nil, io.EOF
		case logBroken:
			return nil, ErrBroken
		}
		if err := r.wait(); err != nil {
			return nil, err
		}
	}
	if r.at < l.segments.begin() {
		return nil, &GoneError{l.segments.first()}
	}
	b := l.segments.since(r.at)
	r.moveTo(r.at + int64(len(b)))
	return b, nil
}

// CaughtUp implements Reader.
func (r *memoryReader) CaughtUp() bool {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == logBegun && r.at == l.segments.end()
}

// SkipToEnd implements Reader.
func (r *memoryReader) SkipToEnd() {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	r.moveTo(l.segments.end())
}

// AtEnd implements Reader.
func (r *memoryReader) AtEnd() bool {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == logWhole && r.at == l.segments.end()
}

// Close implements Reader.
func (r *memoryReader) Close() {
	r.stop()
	l := r.log
	l.mu.Lock()
	if i := slices.Index(l.readers, r); i >= 0 {
		l.readers = slices.Delete(l.readers, i, i+1)
		l.tell()
	}
	l.place()
	l.mu.Unlock()
	l.runs().ReadersChanged()
}

// Interface guards
var (
	_ Log    = (*memoryLog)(nil)
	_ Reader = (*memoryReader)(nil)
)
