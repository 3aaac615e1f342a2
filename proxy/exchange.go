package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// exchange is a request with the next handler, and its answer. It is the http.ResponseWriter of that
// handler.
//
// Several goroutines write: that of the handler, that in which a proxy flushes the header, that of
// the transport, which sends 1xx answers, and those of timers. So the lock of the Request is held
// whenever a field after reach is used, except by an answer that passes.
type exchange struct {
	*Request
	header http.Header // the handler's own; see Header
	reach  reach

	closed   bool        // nothing may be written any more
	running  bool        // the next handler has the request: the agent may be running
	answer   answer      // nil before the final status
	code     string      // of the error that was sent instead of the answer, "" for none
	late     bool        // the client had left before the answer was chosen
	times    times       // the ages that the deadlines count from
	timer    *time.Timer // of the next deadline, nil as long as there was none
	timeouts timeouts
	panicked any // to panic with in the handler's goroutine, nil for none
}

// timeouts are the write timeouts of handlers (Options.Timeouts).
type timeouts struct {
	apply   func() func() // applies them to the inner writer, nil for none
	restore func()        // undoes apply, nil for nothing
}

// answer is upstream's answer: passing, stream, whole, failed or report. It is chosen and begun once,
// at the final status; only a whole one or a failed one that turns out to be something else becomes
// another one. From then on it alone enters the phases of times and writes to the client.
type answer interface {
	// write takes upstream's bytes. It returns len(b) even if some are held back, because copiers
	// call less a short write.
	write(b []byte) (int, error)
	// flush flushes the bytes that have been written, as far as they may leave.
	flush() error
	// cut ends the answer for a cause of the sidecar's own. The next handler may still write.
	cut(cause rewrite.Cause)
	// end ends the answer after the next handler has ended for the cause. It reports whether the
	// client has been told of a failure: then Serve does not return it.
	end(cause rewrite.Cause) (handled bool)
	// report adds the answer's end to res, and reports whether an Observer
	// observes it.
	report(res *Result) (observed bool)
}

// ErrAgain is the error of a next handler that has not answered, because the request is to be served
// again: nothing is sent or observed, and Serve returns it, unless the exchange is over.
var ErrAgain = errors.New("the request must be served again")

// Refusal is the error of a next handler that has not asked upstream, and of the function ended of
// Proxy.Read. The client gets it as an answer.
type Refusal struct {
	// Status is the HTTP status of the answer, if that has not begun.
	Status int
	// Code and Message are those of the error.
	Code, Message string
	// RetryAfter is how long the client is asked to stay away. Zero means that it is not asked.
	RetryAfter time.Duration
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// Serve calls next with upstream's request and a writer that repairs the stream it is given, and ends
// that stream as the contract says if next does not (section 3). What it returns, and which panics go
// on, is that of Proxy.Serve.
func (q *Request) Serve(next func(http.ResponseWriter, *http.Request) error) (err error) {
	x, up := q.newExchange()
	defer func() {
		// Panicking again from here keeps the stack of the first panic.
		panicked := recover()
		if panicked, err = x.end(panicked, err); panicked != nil {
			panic(panicked)
		}
	}()
	if !x.ask() {
		return nil
	}
	defer x.giveBack(up)
	err = next(x, up)
	if _, refused := errors.AsType[*Refusal](err); refused {
		x.refuse(err)
		return nil
	}
	return x.requestError(err)
}

// newExchange returns an exchange, and the request for upstream.
func (q *Request) newExchange() (*exchange, *http.Request) {
	x := &exchange{Request: q, header: make(http.Header)}
	from := q.client.w.Header()
	if q.begun() {
		from = q.front
	}
	head.Copy(x.header, from)
	ctx := q.ctx
	if q.chat || q.r.Method == http.MethodPost && rewrite.BeginsRun(q.r.URL.Path) {
		ctx = x.reach.traced(ctx)
	}
	if q.o.Timeouts != nil {
		ctx, x.timeouts.apply = q.o.Timeouts(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.x = x
	return x, q.next(ctx)
}

// giveBack gives the client's request the body that it would have without a Proxy.
func (x *exchange) giveBack(up *http.Request) {
	// net/http looks at the request when it writes the header, which a timer may
	// do now.
	x.mu.Lock()
	defer x.unlock()
	x.body.GiveBack(x.r, up)
}

// refuse ends the exchange, whose request does not go on because of err.
func (x *exchange) refuse(err error) {
	x.mu.Lock()
	defer x.unlockLate()
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || x.answer != nil || x.closed || x.gone() {
		return
	}
	x.body.Decided()
	if refusal.RetryAfter > 0 {
		x.client.w.Header().Set("Retry-After", strconv.Itoa(int(refusal.RetryAfter.Seconds())))
	}
	body := rewrite.AppendError(nil, refusal.Code, refusal.Message)
	x.sendError(refusal.Status, refusal.Code, append(body, '\n'), false)
	x.shut()
}

// end ends the answer after the next handler has panicked, returned err, or returned nil. Nothing
// is written after it. It returns the panic and the error that go on, nil for none. If the client
// has been told of a failure, its error does not go on, nor does a panic with http.ErrAbortHandler.
func (x *exchange) end(panicked any, err error) (any, error) {
	if errors.Is(err, ErrAgain) {
		if x.undo() {
			return nil, err
		}
		err = nil
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

// undo undoes what the exchange has done, so that another one may follow. It returns false if the
// exchange is over.
func (x *exchange) undo() bool {
	x.mu.Lock()
	defer x.unlock()
	if x.closed || x.answer != nil || x.gone() {
		return false
	}
	x.client.moveDeadline(time.Time{})
	x.client.deadline = time.Time{}
	x.shut()
	x.x = nil
	return true
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
		if x.timeouts.restore != nil {
			x.timeouts.restore()
		}
	}()
	switch {
	case x.gone():
		return false // TestEndsThatGoOn
	case x.closed:
		return true // a deadline has ended the answer
	case x.answer == nil && x.begun():
		x.endUnanswered(panicked, err)
		return true
	case x.answer == nil:
		head.Copy(x.client.w.Header(), x.header) // for the handler that answers instead
		// An abort before the header is intended, such as that of Caddy's abort directive:
		// TestEnds.
		if handled = panicked == nil && x.sendErrorOf(err); handled {
			x.body.Decided()
		}
		return handled
	}
	handled = x.answer.end(causeOf(panicked, err))
	if x.code == "" {
		head.CopyTrailers(x.client.w.Header(), x.header)
		x.redactHeader(x.client.w.Header())
	}
	return handled
}

// observeEnd tells the observer how the exchange ended, if there is anything to observe. No other
// goroutine uses the exchange any more.
func (x *exchange) observeEnd(panicked any, err error) {
	whole := x.form == rewrite.AnswerWhole
	res := Result{Duration: x.age(), Status: x.client.status, Whole: whole, Err: err}
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

// endNow ends the answer for a cause of the sidecar's own, or sends an error if the answer has not
// begun, and then ends upstream's request. The client does not wait until the handler notices.
func (x *exchange) endNow(cause rewrite.Cause) {
	if x.answer == nil {
		x.body.Decided()
		x.sendCause(cause)
	} else {
		x.answer.cut(cause)
	}
	x.shut()
	x.cancel(cancellations[cause])
}

// shut ends writing to the client.
func (x *exchange) shut() {
	x.closed = true
	x.watch()
}

// unlockLate is unlock for callers in which a panic must not go on, such as a timer's goroutine,
// where it would end the process. The panic goes on later in the handler's goroutine, and
// upstream's request ends.
func (x *exchange) unlockLate() {
	if v := recover(); v != nil {
		x.panicked = panics.Carry(v)
		x.client.fail(errPanicked)
		x.shut()
	}
	x.mu.Unlock()
}
