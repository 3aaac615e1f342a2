package proxy

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Proxy guards the streams of a handler. It is safe for concurrent use.
type Proxy struct {
	o       Options
	buffers buffers
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
	return &Proxy{o: o}
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
	if rw.chat {
		ctx = rw.reach.traced(ctx)
	}
	if p.o.Timeouts != nil {
		ctx, rw.timeouts = p.o.Timeouts(ctx)
	}
	up := upstreamRequest(ctx, r)
	// No lock is held and no deadline runs while the client sends its request,
	// for which it may take its time.
	if asked := rw.readBody(up); !rw.ask(asked) {
		return nil
	}
	defer rw.giveBack(up)
	return rw.requestError(next(rw, up))
}

// readBody reads the body of the request, and returns what it asks for.
func (rw *responseWriter) readBody(up *http.Request) rewrite.Asked {
	healed := rw.body.Prepare(rw.r, up, rw.p.bodyPlan(rw.r))
	if healed.Markers > 0 && rw.p.o.OnHeal != nil {
		rw.p.o.OnHeal(rw.r, healed.Markers)
	}
	return healed.Asked
}

// giveBack gives the client's request back what is left of its body. net/http looks
// at the request when it writes the header, which a timer may do now.
func (rw *responseWriter) giveBack(up *http.Request) {
	rw.mu.Lock()
	defer rw.unlock()
	rw.body.GiveBack(rw.r, up)
}

// end ends the answer after the next handler has panicked, returned err, or
// returned nil. Nothing is written behind it. It returns the panic that goes on,
// nil for none: upstream's death is told by one, and has been dealt with.
func (rw *responseWriter) end(panicked any, err error) (any, error) {
	swallow, keep := rw.endAnswer(panicked, err)
	if rw.rare != nil && rw.rare.panicked != nil && (panicked == nil || isAbort(panicked)) {
		panicked, swallow = rw.rare.panicked, false
	}
	if result, tell := rw.endStream(panicked, err); tell && rw.p.o.OnEnd != nil {
		rw.p.o.OnEnd(rw.r, result)
	}
	if swallow {
		panicked = nil
	}
	if !keep {
		err = nil
	}
	return panicked, err
}

// endAnswer sends what the client is owed. swallow says that the panic was the way
// in which upstream's death is told, keep that the error is to be returned.
func (rw *responseWriter) endAnswer(panicked any, err error) (swallow, keep bool) {
	rw.mu.Lock()
	defer rw.rescue() // and tells of the end
	defer rw.shut()
	return rw.endLocked(panicked, err)
}

// shut lets nothing be written any more.
func (rw *responseWriter) shut() {
	rw.closed = true
	rw.unwatch()
	if rw.timeouts != nil {
		rw.timeouts.Restore()
	}
}

// endStream tells observer and recording of the end.
func (rw *responseWriter) endStream(panicked any, err error) (result Result, tell bool) {
	rw.mu.Lock()
	defer rw.unlock()
	if result, tell = rw.result(panicked, err); tell {
		rw.observeEnd(result)
	}
	rw.endRecording(result)
	return result, tell
}

// endLocked does what endAnswer does.
func (rw *responseWriter) endLocked(panicked any, err error) (swallow, keep bool) {
	aborted := isAbort(panicked)
	switch {
	case rw.gone():
		return false, true // TestClientGoneNothingIsWritten
	case rw.closed:
		return aborted, false // a deadline has ended the stream, or answered
	case !rw.decided:
		// An abort before the header is somebody's wish, such as Caddy's abort
		// directive: TestAbortBeforeTheHeaderGoesOn.
		rw.handOver() // for whoever answers
		return false, panicked != nil || !rw.answerFor(err)
	}
	if rw.engine != nil {
		rw.finish(causeOf(panicked, err))
	} else if rw.keeps() {
		rw.endWhole(panicked == nil && err == nil)
	}
	if rw.answered == "" {
		rw.handOverTrailers()
	}
	if !rw.guarded() {
		return false, true
	}
	return aborted, false
}

// guarded tells whether the answer is a stream whose end is seen to, one way or
// the other.
func (rw *responseWriter) guarded() bool { return rw.engine != nil && rw.engine.Guarded() }

// result tells what became of the stream, and whether there was one.
func (rw *responseWriter) result(panicked any, err error) (Result, bool) {
	streamed := rw.guarded()
	left := rw.chat && rw.engine == nil && rw.gone() && (!rw.decided || rw.late)
	encoded := rw.chat && rw.encoded
	if !streamed && rw.answered == "" && !left && !encoded && !rw.repaired().Completion {
		return Result{}, false
	}
	res := Result{
		Duration: rw.age(),
		Upstream: rw.p.o.Upstream(rw.r),
		Status:   rw.status,
		Whole:    rw.repaired().Completion || rw.noStream && !streamed,
		Err:      err,
	}
	if e, ok := panicked.(error); ok {
		res.Err = e
	} else if panicked != nil {
		res.Err = fmt.Errorf("panic: %v", panicked)
	}
	if streamed {
		res.Summary = rw.engine.Summary()
		res.Chunks = rw.engine.Chunks()
	} else {
		res.Summary = rw.repaired().Summary
	}
	switch {
	case rw.answered != "":
		res.Outcome, res.Code = rw.answered, rw.answered
	case encoded:
		res.Outcome = OutcomeEncoded
	case rw.gone() && !(streamed && rw.engine.Done()):
		res.Outcome = OutcomeClientGone
	case res.Code != "":
		res.Outcome = res.Code
	default:
		res.Outcome = OutcomeOK
	}
	return res, true
}
