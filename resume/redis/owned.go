package redis

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// owned is the log of a run in this process. Its readers here read the one in memory, and
// flush writes it to Redis for the others. If that fails for longer than a lease, or another
// replica has taken it over, it is lost: it goes on here, for its readers here.
//
// It is the run of the log in memory.
type owned struct {
	memoryLog
	memory    resume.Writer
	s         *Store
	entry     resume.Entry
	run       resume.Run
	cancelled atomic.Bool
	wake      chan struct{} // flush has something to do
	done      chan struct{} // closed when flush is over

	mu     sync.Mutex
	todo   todo
	room   *sync.Cond // for todo
	events uint64     // that have been appended
	fails  bool       // the last write failed
	lost   bool
	over   bool      // its run adds no more
	until  time.Time // when it is lost if writes fail
}

// todo is what flush has to do.
type todo struct {
	header http.Header // nil if the log has begun already
	bytes  []byte
	ends   []int        // in bytes
	end    resume.State // to end in, resume.Claimed for none
}

// maxPending is how many bytes of a log may wait for Redis. Upstream waits for room as long
// as Redis takes what comes. One as large may be on its way.
const maxPending = 512 << 10

// endTimeout is how long the end of a run waits for Redis, because the process may end then.
const endTimeout = time.Second

func newOwned(s *Store, e resume.Entry, run resume.Run) *owned {
	o := &owned{
		s: s, entry: e, run: run, wake: make(chan struct{}, 1), done: make(chan struct{}),
		until: time.Now().Add(s.o.Lease),
	}
	o.room = sync.NewCond(&o.mu)
	return o
}

// add has flush do more, unless the log is lost.
func (o *owned) add(more func(*todo)) {
	o.mu.Lock()
	if !o.lost {
		more(&o.todo)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Append implements resume.Writer.
func (o *owned) Append(ctx context.Context, part resume.Part) error {
	if err := o.memory.Append(ctx, part); err != nil {
		return err
	}
	if part.Header != nil {
		o.add(func(t *todo) { t.header = part.Header })
	}
	p, ends := part.Data, part.Ends
	o.mu.Lock()
	o.events += uint64(len(ends))
	for len(o.todo.bytes) >= maxPending && !o.fails && !o.lost {
		o.room.Wait()
	}
	full := len(o.todo.bytes) >= maxPending
	o.mu.Unlock()
	if full {
		o.lose(errFull)
	}
	o.add(func(t *todo) {
		before := len(t.bytes)
		t.bytes = append(t.bytes, p...)
		for _, end := range ends {
			t.ends = append(t.ends, before+end)
		}
	})
	return nil
}

// errFull says why a log is lost.
var errFull = errors.New("redis does not take what comes")

// End implements resume.Writer.
func (o *owned) End(how resume.State) {
	o.memory.End(how)
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.add(func(t *todo) { t.end = how })
	if how == resume.Dropped {
		return
	}
	select {
	case <-o.done:
	case <-time.After(endTimeout):
	}
}

// Delete implements resume.Log.
func (o *owned) Delete(ctx context.Context) error {
	if _, err := o.s.do(ctx, cancelScript, o.s.names.cancel(o.entry), o.s.o.Prefix, o.entry.ID); err != nil && !o.isLost() {
		o.lose(err)
	}
	return o.memoryLog.Delete(ctx)
}

// Read implements resume.Log.
func (o *owned) Read(ctx context.Context, n uint64) resume.Reader {
	return &ownedReader{Reader: o.memoryLog.Read(ctx, n), o: o, ctx: ctx, after: n}
}

// ownedReader reads the log in memory. Events that were deleted there, for want of memory,
// may be in Redis.
type ownedReader struct {
	resume.Reader
	o     *owned
	ctx   context.Context
	after uint64
	began bool
}

// Next implements resume.Reader.
func (r *ownedReader) Next() (resume.Part, error) {
	p, err := r.Reader.Next()
	var gone *resume.GoneError
	if r.began || !errors.As(err, &gone) || r.o.isLost() || r.ctx.Err() != nil {
		r.began = true
		return p, err
	}
	r.began = true
	remote := (&remoteLog{r.o.s, r.o.entry}).Read(r.ctx, r.after)
	r.Reader.Close()
	r.Reader = remote
	return remote.Next()
}

// Cancel cancels the run. If the log in memory has to make room, what it deletes is in
// Redis, and the run may go on.
func (o *owned) Cancel(why resume.Reason) {
	if why != resume.ReasonMemory || o.isLost() {
		o.run.Cancel(why)
	}
}

func (o *owned) isLost() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// lose records that the log goes on only here.
func (o *owned) lose(why error) {
	o.mu.Lock()
	was, over := o.lost, o.over
	o.lost = true
	o.todo = todo{}
	o.room.Broadcast()
	o.mu.Unlock()
	if was {
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
	if !over {
		o.s.o.Logger.Warn("a stream goes on here, and is no longer in redis: clients at other replicas are cut off",
			zap.String("stream", o.entry.ID), o.s.o.errorField(why))
	}
	o.s.o.Local.SetElsewhere(o.entry.ID, 0)
}

// refresh extends the lease, and does what others ask for. It answers their last message about
// the log, if there is one, with the number of events.
func (o *owned) refresh(message string) error {
	o.mu.Lock()
	lost, events := o.lost, o.events
	o.mu.Unlock()
	if lost {
		return nil
	}
	v, err := o.s.do(context.Background(), refreshScript, o.s.names.all(o.entry), o.s.replica, o.entry.ID, o.s.o.Lease.Milliseconds(), o.s.ttl(o.entry), message, events)
	if err != nil {
		return err
	}
	reply, _ := v.([]any)
	if len(reply) != 2 {
		return nil
	}
	is, _ := reply[0].(int64)
	n, _ := reply[1].(int64)
	switch {
	case is < 0:
		o.mu.Lock()
		over := o.over
		o.mu.Unlock()
		if !over {
			o.lose(errLost)
		}
		return nil
	case is > 0 && o.cancelled.CompareAndSwap(false, true):
		_ = o.memoryLog.Delete(context.Background()) // one in memory always can
	}
	o.extend()
	o.s.o.Local.SetElsewhere(o.entry.ID, int(n))
	return nil
}

// extend records that its lease is extended, unless writes fail: then that does not help.
func (o *owned) extend() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.fails {
		o.until = time.Now().Add(o.s.o.Lease)
	}
}

// Interface guards
var (
	_ resume.Writer = (*owned)(nil)
	_ resume.Reader = (*ownedReader)(nil)
)
