package resume

import (
	"context"
	"errors"
	"net/http"
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
// after stuckAfter.
type direct struct {
	run   *run
	leave atomic.Pointer[chan struct{}] // closed when the client's goroutine has to go on
	ready chan struct{}                 // closed when the client's goroutine has sent the header, or has left
	knows bool                          // the run knows that it is; for that alone

	mu      sync.Mutex
	w       http.ResponseWriter // nil when the client's goroutine reads the log
	control http.ResponseController
	reader  Reader
	n       int64 // bytes written
	err     error // of w
	over    bool  // the run writes no more
}

// stuckAfter is how long a write may take when others read the log.
const stuckAfter = time.Second

// write appends p to the log and, if the client has all that is before it, sends it.
func (d *direct) write(p []byte, ends []int) error {
	if !d.knows { // or a client might fall behind before it has begun
		<-d.ready
		d.knows = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.run.log.Append(p, ends); err != nil || d.w == nil || len(p) == 0 {
		return err
	}
	n, err := d.w.Write(p)
	d.n += int64(n)
	if err == nil {
		if err = d.control.Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	if err != nil {
		d.err = errors.Join(err, context.Canceled)
		d.w = nil
		d.end()
	}
	return nil
}

// serve has the run write to w, whose goroutine it is called in, until somebody calls end.
// It returns at once if the reader is not at the end of the log or there are others.
func (d *direct) serve(w http.ResponseWriter, r *http.Request, reader Reader) error {
	d.mu.Lock()
	if d.over || !reader.CaughtUp() {
		d.mu.Unlock()
		d.begin()
		return nil
	}
	leave := make(chan struct{})
	d.leave.Store(&leave)
	d.w, d.control, d.reader = w, *http.NewResponseController(w), reader
	d.mu.Unlock()
	d.begin()
	if d.run.log.Readers() > 1 { // the others may have come before leave was there
		d.end()
	}
	stop := context.AfterFunc(r.Context(), d.end)
	defer stop()
	<-leave
	stuck := time.AfterFunc(stuckAfter, func() { d.run.p.o.Interrupt(w, r) })
	defer stuck.Stop()
	d.off(false)
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
