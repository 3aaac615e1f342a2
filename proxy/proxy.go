package proxy

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Proxy guards the streams of a handler. It is safe for concurrent use.
type Proxy struct {
	o       Options
	limits  deadline.Limits
	now     func() time.Time // of the clock
	buffers buffers
	engines engines
	sender  *sender // of the headers of streams
}

// New returns a Proxy with the options.
func New(o Options) *Proxy {
	if o.Streams == nil {
		o.Streams = new(Streams)
	}
	if o.Upstream == nil {
		o.Upstream = func(*http.Request) string { return "" }
	}
	if o.ErrorStatus == nil {
		o.ErrorStatus = func(error) int { return 0 }
	}
	if o.MaxRequest == 0 {
		o.MaxRequest = DefaultMaxRequest
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	p := &Proxy{o: o, now: o.Clock.Now, sender: newSender(), limits: deadline.Limits{
		FirstByte: o.FirstByteTimeout,
		Idle:      o.IdleTimeout,
		Stall:     o.StallTimeout,
		DoneGrace: o.DoneGrace,
		Keepalive: o.Keepalive,
	}}
	runtime.AddCleanup(p, (*sender).end, p.sender)
	return p
}

// Handler returns a handler that guards next.
func (p *Proxy) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without a next handler that returns errors there is none to return.
		_ = p.Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
			next.ServeHTTP(w, r)
			return nil
		})
	})
}

// Serve heals the history that r carries (section 5 of the contract), calls next
// with a writer that repairs the stream it is given, and ends that stream as the
// contract says if next does not (section 3). The body of r may be replaced by
// one that gives the same bytes.
//
// A proxy tells of an upstream that died behind its header by a panic with
// http.ErrAbortHandler (Caddy: reverseproxy.go:1359-1387, httputil: likewise).
// That is recovered when the answer is a stream whose end is seen to (of chat
// completions, or another that the engine knows) and its client is still there,
// and so is an error returned behind the header, which would have Caddy write an
// error page into the stream. All other panics go on, with their value and their
// stack, and all other errors are returned.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error) (err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	rw := newResponseWriter(p, w, r, cancel)
	p.o.Streams.add(rw)
	defer func() {
		// Panicking again from here keeps the stack of the first panic.
		panicked := recover()
		p.o.Streams.remove(rw)
		if panicked, err = rw.end(panicked, err); panicked != nil {
			panic(panicked)
		}
	}()
	if rw.x.chat {
		ctx = rw.x.reach.traced(ctx)
	}
	if p.o.Timeouts != nil {
		ctx, rw.timeouts = p.o.Timeouts(ctx)
	}
	up := upstreamRequest(ctx, r)
	// No lock is held and no deadline runs while the client sends its request,
	// for which it may take its time.
	healed := rw.body.Prepare(r, up, p.bodyPlan(r))
	if !rewrite.IsRunPath(r.URL.Path) {
		healed.Ignored = 0
	}
	if (healed.Markers > 0 || healed.Ignored != 0) && p.o.Observer != nil {
		p.o.Observer.Request(r, healed)
	}
	rw.x.client.muted = healed.Diagnostic && head.First(r.Header, sessionHeader) != ""
	if !rw.requestRead(healed.Asked) {
		return nil
	}
	defer func() {
		// net/http looks at the request when it writes the header, which a timer may
		// do now.
		rw.mu.Lock()
		defer rw.unlock()
		rw.body.GiveBack(r, up)
	}()
	return rw.requestError(next(rw, up))
}

// end ends the answer after the next handler has panicked, returned err, or
// returned nil. Nothing is written behind it. It returns the panic and the error
// that go on, nil for none: a failure that the client has been told of is dealt
// with, and a panic with the wish to abort was one.
func (rw *responseWriter) end(panicked any, err error) (any, error) {
	handled := rw.endAnswer(panicked, err)
	aborted := isAbort(panicked)
	if rw.panicked != nil && (panicked == nil || aborted) {
		panicked, aborted = rw.panicked.again(), false
	}
	if rw.x.p.o.Observer != nil {
		if res, observed := rw.x.result(panicked, err); observed {
			rw.x.observer.End(rw.x.client.r, res)
		}
	}
	if s, ok := rw.x.answer.(*stream); ok && rw.panicked == nil {
		rw.x.p.engines.put(s.engine) // the answer is closed
		s.engine = nil
	}
	if handled {
		err = nil
		if aborted {
			panicked = nil
		}
	}
	return panicked, err
}

// endAnswer sends what the client is owed, and lets nothing be written any more. It
// reports whether a failure of the next handler's is dealt with: the client knows.
func (rw *responseWriter) endAnswer(panicked any, err error) (handled bool) {
	rw.mu.Lock()
	defer rw.unlockLate() // the end is told all the same
	defer func() {
		rw.shut()
		if rw.timeouts != nil {
			rw.timeouts.Restore()
		}
	}()
	c := &rw.x.client
	switch {
	case c.gone():
		return false // TestClientGoneNothingIsWritten
	case rw.closed:
		return true // a deadline has ended the answer
	case rw.x.answer == nil:
		head.Copy(c.w.Header(), rw.x.header) // for whoever answers
		// An abort before the header is somebody's wish, such as Caddy's abort
		// directive: TestAbortBeforeTheHeaderGoesOn.
		if handled = panicked == nil && rw.x.sendErrorOf(err); handled {
			rw.body.Decided()
		}
		return handled
	}
	handled = rw.x.answer.end(causeOf(panicked, err))
	if c.code == "" {
		head.CopyTrailers(c.w.Header(), rw.x.header)
	}
	return handled
}
