package redis

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
)

// owned is the log of a run in this process. Its readers here read the one in memory, and
// flush brings it to Redis for the others. If that fails for longer than a lease, or
// another replica has taken it over, it is lost: it goes on here, for those who read it
// here.
//
// The log in memory knows it as its run, which is an ownedRun.
type owned struct {
	resume.Log // in memory
	s          *Store
	entry      resume.Entry
	run        resume.Run
	elsewhere  atomic.Int64 // readers in other replicas
	cancelled  atomic.Bool
	wake       chan struct{} // flush has something to do
	done       chan struct{} // closed when flush is over

	mu    sync.Mutex
	todo  todo
	room  *sync.Cond // for todo
	fails bool       // the last write failed
	lost  bool
	over  bool      // its run adds no more
	until time.Time // when it is lost if writes fail
}

// todo is what flush has to do.
type todo struct {
	header  http.Header // nil if the log has begun already
	bytes   []byte
	ends    []int  // in bytes
	end     string // the state to end in, "" for none
	dropped bool
}

// maxPending is how many bytes of a log may wait for Redis. Upstream waits for room as long
// as Redis takes what comes. One as large may be on its way.
const maxPending = 512 << 10

// endPatience is how long the end of a run waits for Redis: the process may end then.
const endPatience = time.Second

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

// Begin implements resume.Log.
func (o *owned) Begin(header http.Header) error {
	err := o.Log.Begin(header)
	o.add(func(t *todo) { t.header = header })
	return err
}

// Append implements resume.Log.
func (o *owned) Append(p []byte, ends []int) error {
	if err := o.Log.Append(p, ends); err != nil {
		return err
	}
	o.mu.Lock()
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

// End implements resume.Log.
func (o *owned) End(whole bool) {
	o.Log.End(whole)
	state := stateBroken
	if whole {
		state = stateWhole
	}
	o.finish(func(t *todo) { t.end = state })
	select {
	case <-o.done:
	case <-time.After(endPatience):
	}
}

// Drop implements resume.Log.
func (o *owned) Drop() {
	o.Log.Drop()
	o.finish(func(t *todo) { t.dropped = true })
}

// finish has flush do the last.
func (o *owned) finish(last func(*todo)) {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.add(last)
}

// Readers implements resume.Log.
func (o *owned) Readers() int { return o.Log.Readers() + int(o.elsewhere.Load()) }

// Cancel implements resume.Log.
func (o *owned) Cancel(ctx context.Context) error {
	if _, err := o.s.do(ctx, cancelScript, o.s.names.cancel(o.entry), o.s.o.Prefix, o.entry.ID); err != nil && !o.isLost() {
		o.lose(err)
	}
	return o.Log.Cancel(ctx)
}

// Follow implements resume.Log.
func (o *owned) Follow(ctx context.Context) (resume.Reader, error) {
	r, err := o.Log.Follow(ctx)
	if err != nil {
		return nil, err
	}
	return &ownedReader{r, o, ctx}, nil
}

// ownedReader reads the log in memory. What has gone there, for want of memory, may be in
// Redis.
type ownedReader struct {
	resume.Reader
	o   *owned
	ctx context.Context
}

// Seek implements resume.Reader.
func (r *ownedReader) Seek(n uint64) error {
	err := r.Reader.Seek(n)
	var gone *resume.GoneError
	if !errors.As(err, &gone) || r.o.isLost() {
		return err
	}
	far := (&remoteLog{r.o.s, r.o.entry}).follow(r.ctx)
	if err := far.Seek(n); err != nil {
		far.Close()
		return err
	}
	r.Reader.Close()
	r.Reader = far
	return nil
}

// ownedRun is the run that the log in memory knows.
type ownedRun struct{ o *owned }

// ReadersChanged implements resume.Run.
func (r ownedRun) ReadersChanged() { r.o.run.ReadersChanged() }

// Cancel implements resume.Run. If the log in memory has to make room, what it lets go of
// is in Redis, and the run may go on.
func (r ownedRun) Cancel(why resume.Reason) {
	if why != resume.ReasonMemory || r.o.isLost() {
		r.o.run.Cancel(why)
	}
}

func (o *owned) isLost() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// lose has the log go on here alone.
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
	o.elsewhere.Store(0)
	o.run.ReadersChanged()
}

// refresh extends the lease, and does what others want. If they have told something of the log, it
// answers the last message with how many events there are.
func (o *owned) refresh(message string) error {
	if o.isLost() {
		return nil
	}
	v, err := o.s.do(context.Background(), refreshScript, o.s.names.all(o.entry), o.s.replica, o.entry.ID, o.s.o.Lease.Milliseconds(), o.s.ttl(o.entry), message, o.Events())
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
		_ = o.Log.Cancel(context.Background()) // one in memory always can
	}
	o.extend()
	if o.elsewhere.Swap(n) != n {
		o.run.ReadersChanged()
	}
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
	_ resume.Log    = (*owned)(nil)
	_ resume.Run    = ownedRun{}
	_ resume.Reader = (*ownedReader)(nil)
)
