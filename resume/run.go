package resume

import (
	"context"
	"errors"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A run is a call of the next handler, in a goroutine of its own, whose answer goes into a
// log. While the log has no reader, a timer runs.
//
// Its lock may be taken while that of a log is held, never the other way round.
type run struct {
	answer answer

	p       *Resume
	entry   Entry
	detach  time.Duration
	version int  // of HTTP, of the first client
	wants   bool // the request says that it wants an event stream
	log     Log
	w       Writer
	ctx     context.Context
	cancel  context.CancelCauseFunc

	done     chan struct{} // closed after the following are set
	err      error         // of next
	panicked any           // by next, for panic

	informing sync.Mutex // held while an informational answer is sent; taken before mu

	mu        sync.Mutex
	client    http.ResponseWriter // the first client's, nil when that has left
	interrupt func()              // ends a write to client
	kind      kind
	over      bool // next has returned
	reason    Reason
	readers   int
	detached  bool        // it goes on without a client
	since     time.Time   // when the last client left
	timer     *time.Timer // of detach; nil if it has never been set
}

// kind is what the answer of a run is.
type kind uint8

const (
	kindUnknown  kind = iota // it has not begun
	kindPasses               // no event stream: only the first client gets it
	kindStream               // an event stream, which is in the log
	kindUnwanted             // no event stream, and its client has left
)

// newRun returns a run for the request r, whose client is the first.
func newRun(p *Resume, e Entry, detach time.Duration, w http.ResponseWriter, r *http.Request, body []byte) *run {
	x := &run{
		p: p, entry: e, detach: detach, version: r.ProtoMajor, wants: asksForStream(r, body), done: make(chan struct{}),
		client: w, interrupt: func() { p.o.Interrupt(w, r) },
	}
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(r.Context()), runKey{}, x))
	x.answer = answer{run: x, number: numberer{id: e.ID}}
	return x
}

// start calls next for r, whose client is the first, and answers it.
func (x *run) start(w http.ResponseWriter, r *http.Request, body []byte, next Next) error {
	reader := x.log.Read(r.Context(), 0)
	x.answer.header, x.answer.before = w.Header().Clone(), w.Header().Clone()
	up := r.Clone(x.ctx)
	giveBody(up, body)
	if x.p.o.Detached != nil {
		up = x.p.o.Detached(up, &x.answer)
	}
	x.p.o.Runs.add(x)
	go x.serve(up, next)
	return x.attend(w, r, up, reader)
}

// runKey is the key of a run in the context of its request.
type runKey struct{}

// Readers returns how many clients read the answer to a request with the context, in the
// handlers that the run calls. It returns false if the answer may not be resumed.
func Readers(ctx context.Context) (n int, ok bool) {
	x, ok := ctx.Value(runKey{}).(*run)
	if ok {
		x.mu.Lock()
		defer x.mu.Unlock()
		n = x.readers
	}
	return n, ok
}

// serve calls next and ends the log. A panic that came out of it would end the process.
func (x *run) serve(r *http.Request, next Next) {
	defer func() { // also if next ends the goroutine
		x.end(r)
		close(x.done)
	}()
	x.panicked = panics.Catch(func() { x.err = next(&x.answer, r) })
}

// end ends the run after next has returned or panicked.
func (x *run) end(r *http.Request) {
	x.mu.Lock()
	x.over = true
	e := Ended{Stream: x.kind == kindStream, Reason: x.reason, Err: x.err}
	if x.detached {
		e.Detached = time.Since(x.since)
		x.attach()
	}
	raises := x.client != nil && !(e.Stream && e.Reason != ReasonNone) // see attend
	x.mu.Unlock()
	if v := panics.Catch(func() { x.answer.end(e.Reason) }); x.panicked == nil {
		x.panicked = v
	}
	if late, ok := x.panicked.(*panics.Late); ok && !raises || errors.As(x.answer.err, &late) {
		e.Panicked = late
	}
	e.Events = x.answer.number.last
	x.cancel(nil)
	x.p.o.Runs.remove(x)
	if e.Reason != ReasonNone {
		x.p.o.Runs.count.cancelled[e.Reason].Add(1)
	}
	x.p.o.Observer.Ended(r, e)
}

// attend answers the first client, which reads the log as others do.
func (x *run) attend(w http.ResponseWriter, r, up *http.Request, reader Reader) error {
	leave := sync.OnceValue(func() bool {
		reader.Close()
		return x.leave()
	})
	defer leave() // also if w panics
	header, _, err := reader.Start()
	streams, n := err == nil, int64(0)
	if streams {
		x.p.o.Runs.count.begun.Add(1)
		setHeader(w.Header(), header)
		for name, values := range map[string][]string{"Trailer": x.answer.trailer, "Set-Cookie": x.answer.cookies} {
			if values != nil {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(http.StatusOK)
		if x.answer.early {
			_ = http.NewResponseController(w).Flush() // an error comes again
		}
		n, err = x.p.send(w, reader)
	}
	left := leave()
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
		head.CopyTrailers(w.Header(), x.answer.header)
	}
	switch {
	case streams && x.reason != ReasonNone: // what next did is of no interest
	case x.panicked != nil:
		panic(x.panicked)
	case x.err != nil:
		return x.err
	}
	return cutOff(err)
}

// leave records that the first client no longer reads. It returns false if the client has to
// wait for next, because that writes to it or has returned.
func (x *run) leave() bool {
	x.informing.Lock() // or the client's writer would still be in use
	defer x.informing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.kind == kindPasses || x.kind == kindUnknown && x.reason != ReasonNone {
		return false
	}
	x.client, x.interrupt = nil, nil
	x.count()
	return true
}

// decide decides what the answer is, and returns the client's writer if it goes there.
func (x *run) decide(stream bool) (kind, http.ResponseWriter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case stream:
		x.kind = kindStream
	case x.client != nil:
		x.kind = kindPasses
	default:
		x.kind = kindUnwanted
	}
	return x.kind, x.client
}

// interrupt ends a write to w that another goroutine waits for.
func interrupt(w http.ResponseWriter, _ *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // or it goes on
}

// stuckAfter is how long an informational answer may take.
const stuckAfter = time.Second

// inform sends an informational answer to the first client, if that is there. A client that
// does not read is interrupted, so that it holds up no others.
func (x *run) inform(status int, header http.Header) {
	x.informing.Lock()
	defer x.informing.Unlock()
	x.mu.Lock()
	w, interrupt := x.client, x.interrupt
	x.mu.Unlock()
	if w == nil {
		return
	}
	stuck := time.AfterFunc(stuckAfter, interrupt)
	defer stuck.Stop()
	head.Inform(w, x.version, status, header)
}

// ReadersChanged implements Run.
func (x *run) ReadersChanged(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.readers = n
	x.count()
}

// count detaches the run if it has no client any more, and attaches it if it has one again.
// x.mu is held.
func (x *run) count() {
	if x.over || x.reason != ReasonNone || x.kind == kindPasses {
		return
	}
	unread := x.readers == 0 && x.client == nil
	switch {
	case unread == x.detached:
	case !unread:
		x.attach()
	case x.kind == kindUnknown && !x.wants, x.detach == 0, !x.p.o.Runs.detach(x.p.o.MaxDetached):
		x.cancelFor(ReasonLeft)
	default:
		x.detached, x.since = true, time.Now()
		x.timer = time.AfterFunc(x.detach, x.expire)
	}
}

// attach ends the time without a client. x.mu is held.
func (x *run) attach() {
	x.detached = false
	x.timer.Stop()
	x.p.o.Runs.attach()
}

// expire cancels the run if it still has no client.
func (x *run) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.detached && time.Since(x.since) >= x.detach {
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
	}
}

// cancelled is why upstream's request is cancelled. It is no fault of upstream's, and
// context.Canceled keeps it from being counted as one (Caddy: reverseproxy.go:736).
type cancelled struct{ why Reason }

// Error implements error.
func (c *cancelled) Error() string { return "the stream was cancelled: " + c.why.String() }

// Unwrap returns context.Canceled.
func (c *cancelled) Unwrap() error { return context.Canceled }

// Abandon ends the log of w, which has the entry e and whose last event has the number last,
// if its run was cancelled or is no more. If the stream is one of Hermes', it gets the error
// finish that it still needs (contract section 3), and is whole with that. Any other stream
// has broken off, and so has one for which this panics, which is an error. If ctx is done,
// Abandon waits for no readers.
func Abandon(ctx context.Context, w Writer, e Entry, last uint64, why Reason) (err error) {
	if v := panics.Catch(func() { err = finish(ctx, w, e, last, why) }); v != nil {
		w.End(Broken)
		err, _ = v.(error)
	}
	return err
}

func finish(ctx context.Context, w Writer, e Entry, last uint64, why Reason) error {
	cause, now := rewrite.CauseAborted, time.Now()
	if why == ReasonShutdown {
		cause = rewrite.CauseShutdown
	}
	s := rewrite.New(new(rewrite.Options), rewrite.Params{
		Active:    rewrite.IsChatPath(e.Path),
		Responses: rewrite.IsResponsesPath(e.Path),
		RunID:     rewrite.RunOfPath(e.Path),
		SessionID: rewrite.SessionOfPath(e.Path),
		Progress:  rewrite.ProgressOf(e.Progress),
		ID:        func() string { return "chatcmpl-" + e.ID },
		Created:   now.Unix(),
	})
	number := numberer{id: e.ID} // to see where the stream stands
	number.apart = true          // a tool event may be a comment, which has lost its blank line
	var fed, scratch []byte
	err := w.Each(func(p []byte) {
		scratch, _ = number.add(scratch[:0], nil, p)
		fed = s.Feed(fed[:0], scratch, now)
	})
	if err != nil || !s.Guarded() || !number.between() {
		w.End(Broken)
		return err
	}
	number.apart = false
	number.last = last
	out, ends := number.add(nil, nil, s.Finish(nil, cause))
	if err := w.Append(ctx, out, ends); err != nil {
		w.End(Broken)
		return err
	}
	w.End(Whole)
	return nil
}

// unobserved is the Observer of a Resume without one. It logs panics, as net/http does.
type unobserved struct{}

// Answered implements Observer.
func (unobserved) Answered(*http.Request, Answered) {}

// Ended implements Observer.
func (unobserved) Ended(r *http.Request, e Ended) {
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
	_ Observer = unobserved{}
)
