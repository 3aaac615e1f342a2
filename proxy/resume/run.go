package resume

import (
	"context"
	"errors"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/head"
)

// A run is a call of the next handler, in a goroutine of its own, whose answer goes into
// a log. While nobody reads that, a timer runs.
//
// Its lock may be held while that of a log or of Runs is taken.
type run struct {
	out writer

	p       *Resume
	entry   Entry
	detach  time.Duration
	version int  // of HTTP, of the first client
	wants   bool // the request says that it wants an event stream
	log     Log
	cancel  context.CancelCauseFunc

	done     chan struct{} // closed behind what follows
	err      error         // of next
	panicked any           // likewise

	informing sync.Mutex // held while an informational answer is sent; taken before mu

	mu        sync.Mutex
	client    http.ResponseWriter // the first client's, nil once that has left
	interrupt func()              // ends a write to client
	kind      kind
	over      bool // next has returned
	reason    Reason
	alone     bool      // nobody reads
	since     time.Time // when the last reader left
	timer     Timer     // of detach; nil if none has been set
}

// kind is what the answer of a run is.
type kind uint8

const (
	kindUnknown kind = iota // it has not begun
	kindPasses              // no event stream: the first client gets it, and nobody else
	kindStream              // an event stream, which is in the log
	kindNobody              // no event stream, and its client has left
)

func newRun(p *Resume, e Entry, detach time.Duration) *run {
	x := &run{p: p, entry: e, detach: detach, done: make(chan struct{})}
	x.out.run, x.out.number = x, *newNumberer(e.ID)
	x.out.direct.run, x.out.direct.ready = x, make(chan struct{})
	return x
}

// start calls next for r, whose client is the first, and answers it.
func (x *run) start(w http.ResponseWriter, r *http.Request, body []byte, l Log, next Next) error {
	reader, err := l.Follow(r.Context())
	if err != nil { // there is no log after all
		l.Drop()
		giveBody(r, body)
		return next(w, r)
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(r.Context()), runKey{}, x))
	x.mu.Lock() // others may read the log already
	x.log, x.cancel, x.client, x.wants, x.version = l, cancel, w, asksForStream(r, body), r.ProtoMajor
	x.interrupt = func() { x.p.o.Interrupt(w, r) }
	x.mu.Unlock()
	x.out.direct.log, x.out.direct.ctx = l, ctx
	x.out.header, x.out.before = w.Header().Clone(), w.Header().Clone()
	up := r.Clone(ctx)
	giveBody(up, body)
	if x.p.o.Detached != nil {
		up = x.p.o.Detached(up, &x.out)
	}
	x.p.o.Runs.add(x)
	go x.serve(up, next)
	return x.attend(w, r, up, reader)
}

// runKey is the key of a run in the context of its request.
type runKey struct{}

// Readers returns how many clients read the answer to a request with the context, in the
// handlers behind this one. It returns false if that may not be resumed.
func Readers(ctx context.Context) (n int, ok bool) {
	x, ok := ctx.Value(runKey{}).(*run)
	if ok {
		n = x.log.Readers()
	}
	return n, ok
}

// serve calls next and ends the log. A panic that came out of it would end the process.
func (x *run) serve(r *http.Request, next Next) {
	defer func() { // also if next ends the goroutine
		x.end(r)
		close(x.done)
	}()
	x.panicked = caught(func() { x.err = next(&x.out, r) })
}

// end ends the run after next has returned or panicked.
func (x *run) end(r *http.Request) {
	x.mu.Lock()
	x.over = true
	alone, since := x.alone, x.since
	if alone {
		x.alone = false
		x.p.o.Runs.attach()
	}
	if x.timer != nil {
		x.timer.Stop()
	}
	e := Ended{Stream: x.kind == kindStream, Reason: x.reason, Err: x.err}
	raises := x.client != nil && !(e.Stream && e.Reason != ReasonNone) // see attend
	x.mu.Unlock()
	if alone {
		e.Detached = x.p.o.Clock.Since(since)
	}
	if v := caught(func() { x.out.end(e.Reason) }); x.panicked == nil {
		x.panicked = v
	}
	if late, ok := x.panicked.(*latePanic); ok && !raises || errors.As(x.out.err, &late) {
		e.Panicked = late
	}
	e.Events = x.log.Events()
	x.cancel(nil)
	x.p.o.Runs.remove(x)
	if e.Reason != ReasonNone {
		x.p.o.Runs.count.cancelled[e.Reason].Add(1)
	}
	x.p.o.Observer.Ended(r, e)
}

// attend answers the first client.
func (x *run) attend(w http.ResponseWriter, r, up *http.Request, reader Reader) error {
	closeReader := sync.OnceFunc(reader.Close)
	defer func() { // also if w panics
		closeReader()
		x.out.direct.begin()
		x.left()
	}()
	header, err := reader.Header()
	var n int64
	streams := err == nil
	if streams {
		x.p.o.Runs.count.begun.Add(1)
		setHeader(w.Header(), header)
		for name, values := range map[string][]string{"Trailer": x.out.trailer, "Set-Cookie": x.out.cookies} {
			if values != nil {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(http.StatusOK)
		if x.out.early {
			_ = http.NewResponseController(w).Flush() // an error comes again
		}
		n, err = x.p.send(w, r, reader, &x.out.direct)
		n += x.out.direct.n
	}
	closeReader()
	x.out.direct.begin()
	left := x.left()
	if streams {
		x.p.o.Observer.Answered(r, Answered{Bytes: n, Err: err})
	}
	if left {
		if !streams {
			w.WriteHeader(statusGone)
		}
		return cutOff(err)
	}
	stop := context.AfterFunc(r.Context(), func() { x.cancel(context.Cause(r.Context())) })
	<-x.done
	stop()
	if x.p.o.Returned != nil {
		x.p.o.Returned(r, up)
	}
	if streams && err == nil {
		head.CopyTrailers(w.Header(), x.out.header)
	}
	switch {
	case streams && x.reason != ReasonNone: // what next did was our wish
	case x.panicked != nil:
		panic(x.panicked)
	case x.err != nil:
		return x.err
	}
	return cutOff(err)
}

// left records that the first client reads no longer. It returns false if that has to
// wait for next, because next writes to it or has returned.
func (x *run) left() bool {
	x.informing.Lock() // or the client's writer would still be in use
	defer x.informing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.kind == kindPasses || x.kind == kindUnknown && x.reason != ReasonNone {
		return false
	}
	x.client, x.interrupt = nil, nil
	return true
}

// decide decides what the answer with the status and the header is, and returns the
// client's writer if it goes there.
func (x *run) decide(stream bool) (kind, http.ResponseWriter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case stream:
		x.kind = kindStream
	case x.client != nil:
		x.kind = kindPasses
	default:
		x.kind = kindNobody
	}
	return x.kind, x.client
}

// ReadersChanged implements Run.
func (x *run) ReadersChanged() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.reason != ReasonNone || x.kind == kindPasses || x.log == nil {
		return
	}
	readers := x.log.Readers()
	if readers > 1 {
		x.out.direct.end()
	}
	alone := readers == 0
	switch {
	case alone == x.alone:
	case !alone:
		x.alone = false
		x.timer.Stop()
		x.p.o.Runs.attach()
	case x.kind == kindUnknown && !x.wants, x.detach == 0, !x.p.o.Runs.detach(x.p.o.MaxDetached):
		x.cancelFor(ReasonLeft)
	default:
		x.alone, x.since = true, x.p.o.Clock.Now()
		if x.timer == nil {
			x.timer = x.p.o.Clock.AfterFunc(x.detach, x.expire)
		} else {
			x.timer.Reset(x.detach)
		}
	}
}

// expire cancels the run if it is still alone.
func (x *run) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.alone && x.p.o.Clock.Since(x.since) >= x.detach {
		x.cancelFor(ReasonExpired)
	}
}

// Cancel implements Run.
func (x *run) Cancel(why Reason) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancelFor(why)
}

// cancelFor cancels upstream's request, unless that has been done. x.mu is held.
func (x *run) cancelFor(why Reason) {
	if !x.over && x.reason == ReasonNone {
		x.reason = why
		x.cancel(&cancelled{why})
		x.out.direct.end() // next may wait for a client that does not read
	}
}

// cancelled is why upstream's request is cancelled. It is no fault of upstream's, and
// context.Canceled keeps it from being counted as one (Caddy: reverseproxy.go:736).
type cancelled struct{ why Reason }

// Error implements error.
func (c *cancelled) Error() string { return "the stream was cancelled: " + c.why.String() }

// Unwrap returns context.Canceled.
func (c *cancelled) Unwrap() error { return context.Canceled }

// nobody is the Observer of those who have none. It logs panics, as net/http does.
type nobody struct{}

// Answered implements Observer.
func (nobody) Answered(*http.Request, Answered) {}

// Ended implements Observer.
func (nobody) Ended(r *http.Request, e Ended) {
	if e.Panicked == nil {
		return
	}
	logf := log.Printf
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ErrorLog != nil {
		logf = s.ErrorLog.Printf
	}
	logf("http: panic serving %v: %v", r.RemoteAddr, e.Panicked)
}

// Interface guards
var (
	_ Run      = (*run)(nil)
	_ Observer = nobody{}
)
