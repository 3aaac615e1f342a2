// Package proxy puts the engine of package rewrite between a net/http handler
// that proxies an event stream and its client, and heals the histories that
// requests carry. It knows nothing of Caddy: the handler may be Caddy's
// reverse_proxy, httputil.ReverseProxy, or any other that writes to an
// http.ResponseWriter.
//
// A request and its answer are one exchange, with one lock. Its files, each of
// which uses only those below it:
//
//	proxy.go       its life: New, Serve, its end
//	writer.go      its HTTP surface, which the next handler writes to
//	queue.go       its turn in line, and what a client is told that waits
//	runs.go        what its answer says of a run that goes on
//	timer.go       the timer for its deadlines, keepalives and drain
//	stream.go      its answer: an event stream, which the engine repairs
//	answer.go      or one that is not streamed, or passes
//	failed.go      or a failure with a status of its own
//	failure.go     or an error instead
//	exchange.go    its state, its lock, and its client
//	times.go       when its deadlines and keepalives are due
//	object.go      where a JSON object ends
//	origins.go     what upstream says to pages of other origins
//	request.go     its request: the one that upstream gets, and whether it has got it
//	options.go     the options, what upstream learns of a user in identity.go, and the
//	               Observer in observer.go
//	streams.go     the set of the requests under way, and their drain
//
//	internal/reqbody    the body of a request: read, healed, given back
//	internal/head       headers, and how they are copied
package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Proxy guards the streams of a handler. It is safe for concurrent use.
type Proxy struct {
	o     Options
	rooms sync.Pool // of *[]byte, for the bytes that leave with one write of a stream
}

// New returns a Proxy with the options.
func New(o Options) *Proxy {
	if o.Streams == nil {
		o.Streams = new(Streams)
	}
	if o.Origins == nil {
		o.Origins = new(Origins)
	}
	if o.Upstream == nil {
		o.Upstream = func(*http.Request) string { return "" }
	}
	if o.Usage == nil {
		o.Usage = func(string) rewrite.UsageMemory { return nil }
	}
	if o.ErrorStatus == nil {
		o.ErrorStatus = func(error) int { return 0 }
	}
	if o.MaxRequest == 0 {
		o.MaxRequest = DefaultMaxRequest
	}
	return &Proxy{o: o, rooms: sync.Pool{New: func() any { return new([]byte) }}}
}

// Handler returns a handler that guards next.
func (p *Proxy) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An http.Handler cannot return an error.
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
// A proxy reports an upstream that died after its header by a panic with http.ErrAbortHandler
// (Caddy: reverseproxy.go:1359-1387; httputil does the same). Serve recovers that panic if the
// answer is a guarded stream (of chat completions, or another that the engine knows) and its client
// is still there. It then also drops an error returned after the header, with which Caddy would
// write an error page into the stream. All other panics go on, with their value and their stack,
// and all other errors are returned.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error) (err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	x := &exchange{
		o: &p.o, rooms: &p.rooms, w: w, r: r, cancel: cancel,
		since: time.Now(), chat: rewrite.IsChatPath(r.URL.Path), header: make(http.Header),
	}
	head.Copy(x.header, w.Header())
	p.o.Streams.add(x)
	defer func() {
		// Panicking again from here keeps the stack of the first panic.
		panicked := recover()
		p.o.Streams.remove(x)
		defer x.endTurn() // one that bodyEnded has taken since
		if panicked, err = x.end(panicked, err); panicked != nil {
			panic(panicked)
		}
	}()
	if x.chat {
		ctx = x.reach.traced(ctx)
	}
	if p.o.Timeouts != nil {
		ctx, x.applyTimeouts = p.o.Timeouts(ctx)
	}
	up, queued := upstreamRequest(x.tries(ctx), r), p.o.queues(r)
	// No lock is held and no deadline runs while the client sends its request, which may take its
	// time. If the body goes on to upstream while it comes, upstream waits for the client and is
	// not silent: the body is timed if there is a deadline that this moves.
	var ended func() error
	if queued {
		ended = func() error { return x.bodyEnded(ctx) }
	}
	healed := x.body.Prepare(r, up, reqbody.Plan{
		Heal: mayHeal(&p.o, r, queued), Keep: p.o.History == HistoryKeep, Limit: p.o.MaxRequest, Tools: p.o.Rewrite.Tools,
		Timed: x.chat && max(p.o.FirstByteTimeout, p.o.IdleTimeout, p.o.StallTimeout) > 0,
		Again: queued, MarkersStay: p.markersStay(r),
		Ended: ended,
		Edit:  p.o.Identity.tell(r, up),
		Secrets: func() rewrite.Secrets {
			if p.o.Secrets == nil {
				return nil
			}
			return p.o.Secrets(r)
		},
	})
	if handled, err := x.reply(&healed); handled {
		return err
	}
	if !rewrite.IsRunPath(r.URL.Path) {
		healed.Ignored = 0
	}
	if (healed.Markers > 0 || healed.Ignored != 0) && p.o.Observer != nil {
		p.o.Observer.Request(r, healed)
	}
	// Contract section 3, second rule of "false stop".
	x.muted = healed.Diagnostic && up.Header.Get(SessionIDHeader) != ""
	x.noStream = healed.Asked == rewrite.AskedWhole
	if queued {
		defer x.endTurn() // before the client is sent the rest of its answer
		next = x.outlasting(next)
		if !x.body.Pending() && (!x.join(healed.Asked) || x.line != nil && !x.wait(ctx)) {
			return nil
		}
	}
	if !x.requestRead() {
		return nil
	}
	defer func() {
		// net/http looks at the request when it writes the header, which a timer may
		// do now.
		x.mu.Lock()
		defer x.unlock()
		x.body.GiveBack(r, up)
	}()
	if x.line == nil {
		return x.requestError(next(x, up))
	}
	for {
		err, refused := x.try(up, next)
		if !refused {
			return x.requestError(err)
		}
		if !x.wait(ctx) || !x.requestRead() {
			return nil
		}
		up = x.again(ctx)
	}
}

// reply answers the client's request if its last message is a reply to a request for approval, or
// has the code of one that waits. It reports whether it has: then the request does not go to the
// next handler.
func (x *exchange) reply(m *rewrite.Healed) (handled bool, err error) {
	if m.Reply.Code == "" || x.o.Reply == nil || !x.chat {
		return false, nil
	}
	x.o.announce(x.w.Header())
	if x.replied, err = x.o.Reply(x.w, x.r, m.Reply, m.Asked); !x.replied {
		head.Copy(x.w.Header(), x.header)
	}
	return x.replied, err
}

// end ends the answer after the next handler has panicked, returned err, or returned nil. Nothing
// is written after it. It returns the panic and the error that go on, nil for none. If the client
// has been told of a failure, its error does not go on, nor does a panic with http.ErrAbortHandler.
func (x *exchange) end(panicked any, err error) (any, error) {
	if x.replied {
		return panicked, err
	}
	handled := x.endAnswer(panicked, err)
	x.endRun()
	aborted := panicked == http.ErrAbortHandler //nolint:errorlint // the very value is the wish
	if x.panicked != nil && (panicked == nil || aborted) {
		panicked, aborted = x.panicked, false
	}
	if x.o.Observer != nil {
		x.observeEnd(panicked, err)
	}
	if handled {
		err = nil
		if aborted {
			panicked = nil
		}
	}
	return panicked, err
}

// endAnswer sends the client the rest of its answer, and ends writing. It reports whether the
// client has been told of a failure of the next handler: then Serve does not return it.
func (x *exchange) endAnswer(panicked any, err error) (handled bool) {
	x.mu.Lock()
	defer x.unlockLate() // a panic must not skip the observer
	defer func() {
		if s, ok := x.answer.(*stream); ok {
			s.engine.End()
		}
		x.shut()
		if x.restore != nil {
			x.restore()
		}
	}()
	switch {
	case x.gone():
		return false // TestEndsThatGoOn
	case x.closed:
		return true // a deadline has ended the answer
	case x.answer == nil && x.committed:
		x.endTold(panicked, err)
		return true
	case x.answer == nil:
		head.Copy(x.w.Header(), x.header) // for the handler that answers instead
		// An abort before the header is intended, such as that of Caddy's abort directive:
		// TestEnds.
		if handled = panicked == nil && x.sendErrorOf(err); handled {
			x.body.Decided()
		}
		return handled
	}
	handled = x.answer.end(causeOf(panicked, err))
	if x.code == "" {
		head.CopyTrailers(x.w.Header(), x.header)
		x.redactHeader(x.w.Header())
	}
	return handled
}

// observeEnd tells the observer how the exchange ended, if there is anything to observe. No other
// goroutine uses the exchange any more.
func (x *exchange) observeEnd(panicked any, err error) {
	res := Result{Duration: x.age(), Status: x.status, Whole: x.noStream, Err: err}
	if e, ok := panicked.(error); ok {
		res.Err = e
	} else if panicked != nil {
		res.Err = fmt.Errorf("panic: %v", panicked)
	}
	observed := false
	if x.gone() {
		res.Outcome = OutcomeClientGone
		observed = x.chat && (x.answer == nil || x.late)
	}
	if x.answer != nil && x.answer.report(&res) {
		observed = true
	}
	switch {
	case x.code != "":
		res.Outcome, res.Code = x.code, x.code
		observed = true
	case res.Outcome == "":
		res.Outcome = cmp.Or(res.Code, OutcomeOK)
	}
	if !observed && x.observer == nil {
		return
	}
	if x.line != nil {
		res.Waited = x.line.turn.Waited()
	}
	if res.Upstream == "" {
		res.Upstream = x.upstream()
	}
	if x.observer == nil {
		kind := KindChat
		if res.Whole {
			kind = KindWhole
		}
		x.observer = x.o.Observer.Begin(x.r, Begun{Since: x.since, Kind: kind, Upstream: res.Upstream})
	}
	x.observer.End(x.r, res)
}
