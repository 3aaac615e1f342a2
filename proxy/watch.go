package proxy

import (
	"context"
	"fmt"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Why upstream's request is cancelled. A proxy takes a cause that is a timeout
// for one of upstream's (Caddy: reverseproxy.go:1756); the others are no fault
// of upstream's, and context.Canceled keeps them from being counted as one
// (reverseproxy.go:736).
var (
	errTimeout  error = timeoutError{}
	errShutdown       = fmt.Errorf("the server is shutting down: %w", context.Canceled)
	errOver           = fmt.Errorf("the stream is over: %w", context.Canceled)
)

// timeoutError is a net.Error.
type timeoutError struct{}

func (timeoutError) Error() string   { return "upstream was silent for too long" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// requestRead records that the request has been read, as far as it is, and goes on
// to upstream now. It returns false if the process has waited long enough for its
// end: then the request has been answered.
func (rw *responseWriter) requestRead(asked rewrite.Asked) bool {
	rw.mu.Lock()
	defer rw.unlock()
	rw.x.noStream = asked == rewrite.AskedWhole
	rw.x.times.RequestRead(rw.x.age())
	switch {
	case rw.x.chat && rw.x.noStream:
		rw.x.times.Phase = deadline.Whole
	case rw.x.chat:
		rw.x.times.Phase = deadline.Awaiting
	}
	if rw.drained && rw.x.times.Phase == deadline.Awaiting && !rw.x.client.gone() {
		rw.endNow(rewrite.CauseShutdown)
		return false
	}
	rw.x.running = true
	rw.watch()
	return true
}

// watch sees to it that the timer fires at the next deadline or before, and stops it if
// there is none. One that fires too early is set again. A tick that is under way waits for the lock and finds
// nothing to do.
func (rw *responseWriter) watch() {
	at, ok := rw.x.times.Next(&rw.x.p.limits)
	switch {
	case (rw.closed || !ok) && rw.timer != nil:
		rw.fires = 0
		rw.timer.Stop()
	case rw.closed || !ok:
	case rw.timer == nil:
		rw.fires = at
		rw.timer = rw.x.p.o.Clock.AfterFunc(rw.fires-rw.x.age(), rw.tick)
	case rw.fires == 0 || at < rw.fires:
		rw.fires = at
		rw.timer.Reset(at - rw.x.age())
	}
}

// tick does what is due and sets the timer again.
func (rw *responseWriter) tick() {
	rw.mu.Lock()
	defer rw.unlockLate()
	rw.fires = 0
	if rw.closed || rw.x.client.gone() {
		return
	}
	age := rw.x.age()
	rw.x.times.RequestWaited(rw.body.Waited(rw.x.since.Add(age)).Sub(rw.x.since))
	switch rw.x.times.Due(&rw.x.p.limits, age) {
	case deadline.Silence:
		rw.endNow(rewrite.CauseTimeout)
	case deadline.Grace:
		rw.endNow(rewrite.CauseEOF)
	case deadline.Keepalive:
		if s, ok := rw.x.answer.(*stream); ok { // as of the phase
			s.keepalive()
		}
	}
	rw.watch()
}

// endNow ends the answer for a cause of ours, or sends an error if it has not begun,
// and then ends upstream's request. The client does not wait for the handler to
// notice.
func (rw *responseWriter) endNow(cause rewrite.Cause) {
	if rw.x.answer == nil {
		rw.body.Decided()
		rw.x.sendCause(cause)
	} else {
		rw.x.answer.cut(cause)
	}
	rw.shut()
	switch cause {
	case rewrite.CauseTimeout:
		rw.x.client.cancel(errTimeout)
	case rewrite.CauseShutdown:
		rw.x.client.cancel(errShutdown)
	default:
		rw.x.client.cancel(errOver)
	}
}

// shut lets nothing be written any more.
func (rw *responseWriter) shut() {
	rw.closed = true
	rw.watch()
}
