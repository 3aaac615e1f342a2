package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// retryAfter is how long a client that got no place in line is asked to stay away.
const retryAfter = 10 * time.Second

// drainWait is how long a request that comes in a drain may wait for its turn: if it has its turn
// at once, it goes on.
const drainWait = 100 * time.Millisecond

// join puts the request in line. It returns false if there is no room to wait, or the exchange has
// ended: then the request has been answered.
func (x *exchange) join(asked rewrite.Asked) bool {
	turn, err := x.o.Turn(x.r)
	x.mu.Lock()
	defer x.unlock()
	switch {
	case x.closed:
		if turn != nil {
			turn.Done()
		}
		return false
	case err != nil:
		x.refuse(rewrite.CodeQueueFull)
		return false
	case turn != nil:
		p := x.params()
		x.line = &line{
			turn: turn, waiting: rewrite.NewWaiting(&x.o.Rewrite, &p), stream: (p.SessionID != "" || asked == rewrite.AskedStream && (x.chat || p.Responses)) && !x.o.Origins.awaits(x.r),
			url: *x.r.URL,
		}
	}
	return true
}

// queues reports whether r begins a run, and may have to wait for its turn.
func (o *Options) queues(r *http.Request) bool {
	return o.Turn != nil && r.Method == http.MethodPost && rewrite.BeginsRun(r.URL.Path) && (o.Queued == nil || o.Queued(r))
}

// errNoTurn is what upstream gets in place of the end of a body that came when there was no turn for
// the request. It is not upstream's fault (see cancellations).
var errNoTurn = fmt.Errorf("the request got no place in line: %w", context.Canceled)

// bodyEnded waits for the turn of a request that went on to upstream before its body had come, because
// the sidecar does not read it first: a place is held while the agent works, not while a client
// sends. Hermes reads the whole body before it begins a run. The goroutine that reads the body for
// upstream calls bodyEnded when the client has sent the end, and passes that on if the error is nil.
func (x *exchange) bodyEnded(ctx context.Context) error {
	goesOn := false
	panicked := panics.Catch(func() {
		if x.answered() { // upstream has not waited for the end
			goesOn = true
			return
		}
		if !x.join(rewrite.AskedUnknown) {
			return
		}
		if goesOn = x.line == nil; goesOn {
			return
		}
		x.line.stream = false // only the goroutine of the handler may begin the answer
		goesOn = x.wait(ctx) && x.requestRead()
	})
	if panicked != nil { // of the inner writer's
		x.mu.Lock()
		x.panicked = panicked
		x.shut()
		x.mu.Unlock()
	}
	if !goesOn {
		x.cancel(errNoTurn)
		return errNoTurn
	}
	return nil
}

// answered reports whether upstream has begun its answer.
func (x *exchange) answered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answer != nil
}

// wait waits until it is the request's turn. It returns false if the turn does not come: then the
// request has been answered, or the client has left.
func (x *exchange) wait(ctx context.Context) bool {
	l := x.line
	if !x.beginWait() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, drainWait)
		defer cancel()
	}
	var tell func(int)
	if l.stream {
		tell = x.tell
	}
	return x.endWait(l.turn.Wait(ctx, tell))
}

// beginWait records that the request waits from now on. It returns false in a drain, in which only
// a request that need not wait goes on.
func (x *exchange) beginWait() bool {
	x.mu.Lock()
	defer x.unlock()
	x.inLine.Store(true)
	if x.answer != nil {
		return true
	}
	x.running = false
	if x.o.Streams.drain.Load() != nil {
		x.times.phase = phaseFree
		return false
	}
	x.times.phase = phaseInLine
	x.watch()
	return true
}

// endWait records that the request waits no more: err is nil if it is its turn. It reports whether
// the request goes on.
func (x *exchange) endWait(err error) bool {
	x.mu.Lock()
	defer x.unlock()
	x.inLine.Store(false)
	if x.answer != nil { // upstream has not waited for the end of the request's body
		return err == nil
	}
	x.times.phase = phaseFree
	if x.committed && !x.chat {
		x.times.phase = phaseOther // which a drain ends
	}
	switch {
	case x.closed, x.gone():
		return false
	case err == nil:
		return true
	case errors.Is(err, queue.ErrTimeout) && x.line.refused != nil:
		x.line.refused.answer(x)
	case errors.Is(err, queue.ErrTimeout):
		x.refuse(rewrite.CodeQueueTimeout)
	case errors.Is(err, queue.ErrFull): // another client's request has its place in line
		x.refuse(rewrite.CodeQueueFull)
	default: // it may not wait in a drain
		x.endNow(rewrite.CauseShutdown)
	}
	return false
}

// refuse ends the answer to a request that gets no place in line, with the code.
func (x *exchange) refuse(code string) {
	x.body.Decided()
	x.w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	body := rewrite.AppendError(nil, code, rewrite.Message(code))
	x.sendError(http.StatusTooManyRequests, code, append(body, '\n'), false)
	x.shut()
}

// tell tells the client how many requests have their turn before its own.
func (x *exchange) tell(before int) {
	x.mu.Lock()
	defer x.unlock()
	if x.closed || x.err != nil {
		return
	}
	first := !x.committed
	if first {
		x.beginTold()
	}
	text := "Waiting in line: you are next"
	if before > 0 {
		text = fmt.Sprintf("Waiting in line: %d before you", before)
	}
	_ = x.sendElsewhere(func() []byte { // an error shows in x.err
		out := x.line.waiting.Status(nil, text)
		if len(out) > 0 || first {
			x.times.sent = x.age()
		}
		return out
	})
	x.watch()
}

// sendElsewhere sends the header and what f returns from a goroutine of its own. net/http needs
// more stack for a header than a request that waits needs, and a stack stays as large as it once
// was: so each of thousands of requests that wait takes 8 KiB less.
func (x *exchange) sendElsewhere(f func() []byte) (err error) {
	var panicked any
	sent := make(chan struct{})
	go func() {
		defer close(sent) // also if the writer ends the goroutine
		panicked = panics.Catch(func() { err = x.send(f()) })
	}()
	<-sent
	if panicked != nil {
		panic(panicked)
	}
	return err
}

// beginTold begins the stream of a client that waits.
func (x *exchange) beginTold() {
	x.status, x.flushed, x.times.told = http.StatusOK, true, true
	h := x.w.Header()
	x.line.header = h.Clone()
	h.Set("Content-Type", "text/event-stream")
	x.dressStream(h)
	x.o.Origins.give(x.r, h)
	if x.o.Observer != nil {
		kind := KindOther
		if x.chat {
			kind = KindChat
		}
		x.observer = x.o.Observer.Begin(x.r, Begun{Since: x.since, Kind: kind, Status: x.status, Header: h, Raw: x.o.ObserveRaw})
	}
}

// try calls next with up. It reports whether upstream has refused the request, so that it waits
// again.
func (x *exchange) try(up *http.Request, next func(http.ResponseWriter, *http.Request) error) (err error, refused bool) {
	defer func() {
		if !x.held() {
			return
		}
		// A proxy aborts if the rest of the refusal does not come.
		v := recover()
		if v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the very value is the wish
			panic(v)
		}
		if refused = x.tryAgain(); refused {
			err = nil
		} else if v != nil {
			panic(v)
		}
	}()
	return next(x, up), false
}

// held reports whether the answer is one that may be a refusal.
func (x *exchange) held() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.answer.(*refusal)
	return ok
}

// tryAgain makes the exchange what it was before upstream refused the request. It returns false if
// the answer is no refusal after which the request waits again: then the answer goes on to the
// client, unless the exchange has ended.
func (x *exchange) tryAgain() bool {
	l := x.line
	x.mu.Lock()
	defer x.unlock()
	if x.closed {
		return false
	}
	f := x.answer.(*refusal)
	if x.gone() || !rewrite.RefusesRun(f.body) || !l.turn.Refused(retryAfterOf(x.header)) {
		_, _ = f.release() // an error shows in x.err
		return false
	}
	l.refused = &refused{x.header.Clone(), f.body}
	x.running, x.answer = false, nil
	x.moveDeadline(time.Time{})
	x.writeDeadline = time.Time{}
	before := l.header
	if !x.committed {
		before = x.w.Header()
	}
	head.Copy(x.header, before)
	x.reach.dialed.Store(false)
	x.reach.connected.Store(false)
	return true
}

// tries returns the context for a try.
func (x *exchange) tries(ctx context.Context) context.Context {
	if x.o.Try == nil {
		return ctx
	}
	return x.o.Try(ctx)
}

// again returns the request for the next try, which equals that of the first.
func (x *exchange) again(ctx context.Context) *http.Request {
	if l := x.line; *x.r.URL != l.url { // handlers have changed it in place
		*x.r.URL = l.url
	}
	up := upstreamRequest(x.tries(ctx), x.r)
	x.body.Rewind(up)
	return up
}

// mayBeRefusal reports whether upstream's answer with the status may be a refusal after which the
// request waits again: upstream is at its own limit.
func (x *exchange) mayBeRefusal(status int) bool {
	return x.line != nil && status == http.StatusTooManyRequests && !x.gone() && x.body.MayRewind() &&
		head.MediaType(x.header) == "application/json" && !head.IsEncoded(x.header)
}

// retryAfterOf returns how long the field Retry-After of h asks to wait, at least a second.
func retryAfterOf(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(n, 1), int64(never/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), time.Second)
	}
	return time.Second
}

// refusal is an answer that may be one with which upstream refuses the request. It is held until it
// has come, because only its body says so. Nothing of it leaves if the request waits again.
type refusal struct {
	x       *exchange
	body    []byte // at most maxReport bytes
	object  objectEnd
	flushed bool // the next handler has flushed
}

func (f *refusal) write(b []byte) (int, error) {
	f.body = append(f.body, b...)
	if len(f.body) > maxReport || !f.object.take(b) {
		if _, err := f.release(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// release makes the answer one that goes on to the client, as far as it has come.
func (f *refusal) release() (int, error) {
	x := f.x
	x.accept(http.StatusTooManyRequests)
	n, err := x.answer.write(f.body)
	if err == nil && f.flushed {
		err = x.answer.flush()
	}
	return n, err
}

func (f *refusal) flush() error {
	f.flushed = true
	return nil
}

func (f *refusal) cut(cause rewrite.Cause) { f.x.sendCause(cause) }
func (*refusal) end(rewrite.Cause) bool    { return false }
func (*refusal) report(*Result) bool       { return false }

// refused is upstream's last refusal of a request that waits again: its answer, if the wait is over
// before upstream has room.
type refused struct {
	header http.Header
	body   []byte
}

// answer answers the request of x.
func (f *refused) answer(x *exchange) {
	head.Copy(x.header, f.header)
	x.accept(http.StatusTooManyRequests)
	_, _ = x.answer.write(f.body) // an error shows in x.err
}

// report is an answer that is no stream, to a client that was told that it waits and whose header
// has left: its error ends the client's stream.
type report struct {
	x      *exchange
	status int
	body   []byte // at most maxReport+1 bytes
}

// maxReport is the number of bytes of the largest answer that is searched for an error, or for a
// refusal.
const maxReport = 16 << 10

func (r *report) write(b []byte) (int, error) {
	r.body = append(r.body, b[:min(len(b), maxReport+1-len(r.body))]...)
	return len(b), nil
}

func (r *report) flush() error            { return nil }
func (r *report) cut(cause rewrite.Cause) { r.x.sendCause(cause) }

func (r *report) end(rewrite.Cause) bool {
	x := r.x
	if out, ok := x.line.waiting.Refuse(nil, r.body); ok && len(r.body) <= maxReport {
		x.code = rewrite.CodeAgentError
		x.moveDeadline(time.Time{})
		_ = x.send(out) // an error shows in x.err
		return true
	}
	x.refuseStatus(r.status)
	return true
}

func (r *report) report(*Result) bool { return true }

// refuseStatus ends the stream of a client that was told that it waits, because the answer has the
// status and does not say more.
func (x *exchange) refuseStatus(status int) {
	message := fmt.Sprintf("the answer to the request was no stream, but had the status %d %s", status, http.StatusText(status))
	x.refuseTold(rewrite.CodeAgentError, rewrite.AppendError(nil, rewrite.CodeAgentError, message))
}

// endTold ends the stream of a client that was told that it waits, after the next handler has
// panicked or returned err without an answer.
func (x *exchange) endTold(panicked any, err error) {
	status := 0
	if err != nil {
		status = x.o.ErrorStatus(err)
	}
	switch status {
	case 0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		cause := causeOf(panicked, err)
		if status == http.StatusGatewayTimeout {
			cause = rewrite.CauseTimeout
		}
		x.sendFailure(status, cause, x.reach.failed(status))
	default:
		x.refuseStatus(status)
	}
}
