package resume

import (
	"context"
	"errors"
	"net/http"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// direct writes to the first client in the goroutine of its run, as long as nobody else
// reads the log: that costs less than to wake the client's goroutine with each chunk, and a
// client that is slow slows down upstream as it would without a log. The client's
// goroutine waits meanwhile, and reads the log again from where the run has left off.
//
// Its lock is held while the run writes. Where others read the log, nobody must have to
// wait for a client that has stopped reading: what the run writes then is interrupted
// after stuckAfter. Whoever reads the log is waited for before it has to let go of what
// that has not read: likewise, and without a limit if there is nobody else.
type direct struct {
	log   Log
	ctx   context.Context // of the run
	knows bool            // the run knows that ready is closed; for that alone

	mu     sync.Mutex
	over   bool                // the run writes no more
	w      http.ResponseWriter // nil when the client's goroutine reads the log
	n      int64               // bytes written
	reader Reader
	err    error // of w

	panicked any // by w, to go on with in the client's goroutine
	run      *run
	leave    atomic.Pointer[chan struct{}] // closed when the client's goroutine has to go on
	ready    chan struct{}                 // closed when the client's goroutine has sent the header, or has left
}

// stuckAfter is how long a write may take when others read the log.
const stuckAfter = time.Second

// write appends p to the log and, if the client has all that is before it, sends it. It
// changes ends.
func (d *direct) write(p []byte, ends []int) error {
	if !d.knows { // or a client might fall behind before it has begun
		<-d.ready
		d.knows = true
	}
	for len(p) > 0 {
		piece, of := p, ends
		if p, ends = nil, nil; d.leave.Load() == nil { // the log is read
			piece, of, p, ends = cut(piece, of, d.log.MakeRoom(d.ctx, d.alone))
		}
		if err := d.append(piece, of); err != nil {
			return err
		}
	}
	return nil
}

// alone reports whether there is one reader at most.
func (d *direct) alone() bool { return d.log.Readers() <= 1 }

// cut cuts off the first piece of p, of n bytes at most, with the ends of the events in it.
func cut(p []byte, ends []int, n int) (piece []byte, of []int, rest []byte, restEnds []int) {
	n = min(n, len(p))
	i := sort.SearchInts(ends, n+1)
	of, restEnds = ends[:i], ends[i:]
	for i := range restEnds {
		restEnds[i] -= n
	}
	return p[:n], of, p[n:], restEnds
}

// append appends p to the log and, if the run writes to the client, sends it.
func (d *direct) append(p []byte, ends []int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.log.Append(p, ends); err != nil || d.w == nil {
		return err
	}
	if err := d.send(p); err != nil {
		d.err = errors.Join(err, context.Canceled)
		d.w = nil
		d.end()
	}
	return nil
}

// send sends p. If w panics, that is for the client's goroutine, and the client has left.
func (d *direct) send(p []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			d.panicked, err = late(v), errPanicked
		}
	}()
	n, err := d.w.Write(p)
	d.n += int64(n)
	if err == nil {
		err = http.NewResponseController(d.w).Flush()
	}
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// errPanicked says that the client's writer has panicked.
var errPanicked = errors.New("the writer of the client panicked")

// serve has the run write to w, whose goroutine it is called in, until somebody calls end.
// It returns at once if the reader is not at the end of the log or there are others.
func (d *direct) serve(w http.ResponseWriter, r *http.Request, reader Reader) error {
	d.mu.Lock()
	if d.over || d.log.Readers() > 1 || !reader.CaughtUp() {
		d.mu.Unlock()
		d.begin()
		return nil
	}
	leave := make(chan struct{})
	d.leave.Store(&leave)
	d.w, d.reader = w, reader
	d.mu.Unlock()
	d.begin()
	if d.log.Readers() > 1 { // the others may have come before leave was there
		d.end()
	}
	stop := context.AfterFunc(r.Context(), d.end)
	defer stop()
	<-leave
	stuck := time.AfterFunc(stuckAfter, func() { d.run.p.o.Interrupt(w, r) })
	defer stuck.Stop()
	d.off(false)
	if d.panicked != nil {
		panic(d.panicked)
	}
	return d.err
}

// begin lets the run write. It is called in the client's goroutine.
func (d *direct) begin() {
	select {
	case <-d.ready:
	default:
		close(d.ready)
	}
}

// end has serve return.
func (d *direct) end() {
	if leave := d.leave.Swap(nil); leave != nil {
		close(*leave)
	}
}

// off has nothing be written to the client any more, or ever if the run is over. It waits
// for what the run writes.
func (d *direct) off(over bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = d.over || over
	if d.w != nil {
		d.reader.SkipToEnd()
		d.w = nil
	}
}

// interrupt ends a write to w that another goroutine waits for.
func interrupt(w http.ResponseWriter, _ *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // or it goes on
}
