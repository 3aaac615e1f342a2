package resume

import (
	"context"
	"errors"
	"io"
	"iter"
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
	x.answer = answer{run: x, number: newNumberer(e.ID, 0)}
	return x
}

// start calls next for r, whose client is the first, and answers it.
func (x *run) start(w http.ResponseWriter, r *http.Request, body []byte, next Next) error {
	reader := x.p.o.Store.Read(r.Context(), x.entry.ID, 0)
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
	first, err := reader.Next()
	streams, n := err == nil || errors.Is(err, io.EOF), int64(0)
	if streams {
		x.p.o.Runs.count.begun.Add(1)
		setHeader(w.Header(), first.Header)
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

// callbacks returns what a store calls.
func (x *run) callbacks() Run { return Run{ReadersChanged: x.readersChanged, Cancel: x.Cancel} }

// readersChanged records how many readers the log has.
func (x *run) readersChanged(n int) {
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

// Cancel cancels upstream's request.
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

// abandon ends the log of a run that was cancelled, and whose last event has the number last.
func (x *run) abandon(last uint64, why Reason) error {
	part, how, err := Finish(x.entry, last, why, rest(x.ctx, x.p.o.Store, x.entry.ID))
	if how == Whole {
		if err = x.w.Append(x.ctx, part); err != nil {
			how = Broken
		}
	}
	x.w.End(how)
	return err
}

// rest returns what is in the log with the id, piece by piece. ctx is done.
func rest(ctx context.Context, s Store, id string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r := s.Read(ctx, id, 0)
		defer func() { r.Close() }()
		_, err := r.Next()
		for old := (*GoneError)(nil); errors.As(err, &old); _, err = r.Next() { // more may go meanwhile
			r.Close()
			r = s.Read(ctx, id, old.First-1)
		}
		for err == nil {
			var part Part
			if part, err = r.Next(); err == nil && !yield(part.Data, nil) {
				return
			}
		}
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			yield(nil, err)
		}
	}
}

// Finish returns what the log with the entry e still needs, and how it ends, if its run was
// cancelled or is no more. Its last event has the number last, and rest is what is there, up
// to an error. If the stream is one of Hermes', it gets the error finish that it still needs
// (contract section 3), and is whole with that. Any other stream has broken off, and so has
// one for which this panics, which is an error.
func Finish(e Entry, last uint64, why Reason, rest iter.Seq2[[]byte, error]) (p Part, how State, err error) {
	if v := panics.Catch(func() { p, how, err = finish(e, last, why, rest) }); v != nil {
		err, _ = v.(error)
		return Part{}, Broken, err
	}
	return p, how, err
}

func finish(e Entry, last uint64, why Reason, rest iter.Seq2[[]byte, error]) (Part, State, error) {
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
	number := newNumberer(e.ID, 0) // to see where the stream stands
	number.apart = true            // a tool event may be a comment, which has lost its blank line
	var fed, scratch []byte
	for p, err := range rest {
		if err != nil {
			return Part{}, Broken, err
		}
		scratch, _ = number.add(scratch[:0], nil, p)
		fed = s.Feed(fed[:0], scratch, now)
	}
	if !s.Guarded() || !number.between() {
		return Part{}, Broken, nil
	}
	number.apart = false
	number.last = last
	out, ends := number.add(nil, nil, s.Finish(nil, cause))
	return Part{Data: out, Ends: ends}, Whole, nil
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
var _ Observer = unobserved{}
