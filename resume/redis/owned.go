package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// owned is the log of a run in this process. Readers in this process read it from memory, and flush
// writes it to Redis for readers in other replicas. If that fails for longer than a lease, or
// another replica has taken the log over, the log is lost: it goes on only in this process.
type owned struct {
	s      *Store
	memory log.Writer
	entry  log.Entry
	run    log.Run
	wake   chan struct{} // flush has something to do
	done   chan struct{} // closed when flush is over

	mu      sync.Mutex
	pending []piece // to be written by flush
	size    int     // of pending, in bytes
	room    *sync.Cond
	fails   bool        // the last write failed
	lost    atomic.Bool // set with mu held
	over    atomic.Bool // set with mu held: the run adds no more
}

// maxPending is how many bytes of a log may wait for Redis. If there are more, Append waits for
// room, and so does upstream, unless Redis fails. Another maxPending bytes may be on their way.
const maxPending = 512 << 10

// endTimeout is how long End waits for Redis, because the process may end after it.
const endTimeout = time.Second

// tick is how often flush refreshes the lease, and learns if other replicas read or cancel the log.
const tick = 250 * time.Millisecond

// wakeFlush wakes flush. It does not block.
func (o *owned) wakeFlush() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// errFull means that a log is lost because maxPending bytes wait and Redis fails.
var errFull = errors.New("redis cannot keep up with the stream")

func (o *owned) Append(ctx context.Context, p log.Part) error {
	if err := o.memory.Append(ctx, p); err != nil {
		return err
	}
	pieces, err := piecesOf(p)
	defer o.wakeFlush()
	o.mu.Lock()
	for o.size >= maxPending && !o.fails && !o.lost.Load() {
		o.room.Wait()
	}
	if err == nil && o.size >= maxPending {
		err = errFull
	}
	if err == nil && !o.lost.Load() {
		o.addLocked(pieces...)
	}
	o.mu.Unlock()
	if err != nil {
		o.lose(err)
	}
	return nil
}

// pieceOverhead is how many bytes of memory a piece takes beside its data.
const pieceOverhead = 96

func (o *owned) addLocked(pieces ...piece) {
	o.pending = append(o.pending, pieces...)
	for _, p := range pieces {
		o.size += len(p.data) + pieceOverhead
	}
}

func (o *owned) End(how log.State) {
	o.memory.End(how)
	o.mu.Lock()
	o.over.Store(true)
	o.addLocked(piece{kind: kindState, data: states[how]})
	o.mu.Unlock()
	o.wakeFlush()
	if how == log.Dropped {
		return
	}
	select {
	case <-o.done:
	case <-time.After(endTimeout):
	}
}

// cancel cancels the run, unless why is ReasonMemory and the log is not lost: Redis has the bytes
// that are deleted from memory, and the run may go on.
func (o *owned) cancel(why log.Reason) {
	if why != log.ReasonMemory || o.lost.Load() {
		o.run.Cancel(why)
	}
}

// lose records that the log goes on only in this process.
func (o *owned) lose(why error) {
	o.mu.Lock()
	silent := o.lost.Load() || o.over.Load()
	o.lost.Store(true)
	o.pending, o.size = nil, 0
	o.room.Broadcast()
	o.mu.Unlock() // before logging, which may block
	if !silent {
		o.s.o.Logger.Warn("a stream continues on this replica and is no longer in redis: clients of other replicas are disconnected",
			zap.String("stream", o.entry.ID), o.s.o.errorField(why))
	}
}

// flushes calls flush, and releases the log when flush returns. If flush panics, the log goes on
// only in this process.
func (o *owned) flushes() {
	s, w := o.s, &writer{s: o.s, entry: o.entry}
	if err := caught(s.o.Logger, func() { o.flush(w) }); err != nil {
		o.lose(err)
		_ = caught(s.o.Logger, func() { s.o.Local.SetElsewhere(o.entry.ID, 0) })
	}
	s.mu.Lock()
	delete(s.owned, o.entry.ID)
	s.mu.Unlock()
	s.use(-1)
	close(o.done)
	if s.o.isReplicated() && !o.lost.Load() {
		_ = caught(s.o.Logger, w.guard)
	}
}

// flush writes the log to Redis until the run adds no more. Then it deletes the log from memory, if
// Redis has all of it. If another replica has cancelled the log, flush deletes it at once, which
// cancels the run. A write that fails is retried for a lease.
func (o *owned) flush(w *writer) {
	local := o.s.o.Local
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	until := time.Now().Add(o.s.o.Lease)
	var pieces []piece // to write
	for over := false; !over || len(pieces) > 0; {
		select {
		case <-o.wake:
		case <-ticks.C:
		}
		o.mu.Lock()
		if len(pieces) == 0 {
			pieces, o.pending, o.size = o.pending, nil, 0
			over = o.over.Load()
			o.room.Broadcast()
		}
		o.mu.Unlock()
		cancelled, readers, err := false, 0, errLost
		if !o.lost.Load() {
			cancelled, readers, err = w.write(pieces...)
		}
		o.mu.Lock()
		o.fails = err != nil
		o.room.Broadcast()
		o.mu.Unlock()
		switch {
		case errors.Is(err, errLost) || err != nil && time.Now().After(until):
			o.lose(err)
		case err != nil:
			time.Sleep(retryAfter)
			o.wakeFlush()
			continue
		case cancelled || over:
			_ = local.Delete(context.Background(), o.entry.ID) // it may be deleted already
		}
		pieces, until = nil, time.Now().Add(o.s.o.Lease)
		local.SetElsewhere(o.entry.ID, readers)
	}
}

// ownedReader reads the log in memory. If its first events were deleted there for want of memory,
// it reads the log in Redis instead.
type ownedReader struct {
	log.Reader
	o      *owned
	remote func() log.Reader // reads the log in Redis; nil after the first part
}

func (r *ownedReader) Next() (log.Part, error) {
	p, err := r.Reader.Next()
	var gone *log.GoneError
	if r.remote != nil && errors.As(err, &gone) && !r.o.lost.Load() {
		r.Reader.Close()
		r.Reader = r.remote()
		p, err = r.Reader.Next()
	}
	r.remote = nil
	return p, err
}
