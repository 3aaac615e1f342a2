package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// cancellations are the causes with which upstream's request is cancelled, by the cause of
// the answer's end. A proxy takes a timeout for one of upstream's (Caddy:
// reverseproxy.go:1756); the others are no fault of upstream's, and context.Canceled
// keeps them from being counted as one (reverseproxy.go:736).
var cancellations = map[rewrite.Cause]error{
	rewrite.CauseTimeout:  timeoutError{},
	rewrite.CauseShutdown: fmt.Errorf("the server is shutting down: %w", context.Canceled),
	rewrite.CauseEOF:      fmt.Errorf("the stream is over: %w", context.Canceled),
}

// timeoutError is a net.Error.
type timeoutError struct{}

func (timeoutError) Error() string   { return "upstream was silent for too long" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// requestRead records that the request has been read, as far as it is, and goes on
// to upstream. It returns false if the drain timeout has passed: then the request has
// been answered.
func (x *exchange) requestRead(asked rewrite.Asked) bool {
	x.mu.Lock()
	defer x.unlock()
	x.noStream = asked == rewrite.AskedWhole
	age := x.age()
	x.times.asked, x.times.received, x.times.frame = age, age, age
	switch {
	case x.chat && x.noStream:
		x.times.phase = phaseWhole
	case x.chat:
		x.times.phase = phaseAwaiting
	}
	if x.times.phase == phaseAwaiting && x.drained() <= age && !x.gone() {
		x.endNow(rewrite.CauseShutdown)
		return false
	}
	x.running = true
	x.watch()
	return true
}

// watch sets the timer to fire at the next deadline or before, and stops it if there is
// none. A timer that fires too early is set again, and one that has fired and waits for
// the lock finds nothing to do.
func (x *exchange) watch() {
	at := min(x.drained(), x.times.silent(x.o), x.times.keepalive(x.o))
	switch {
	case x.closed || at == never:
		x.fires = 0
		if x.timer != nil {
			x.timer.Stop()
		}
	case x.timer == nil:
		x.fires = at
		x.timer = time.AfterFunc(at-x.age(), x.tick)
	case x.fires == 0 || at < x.fires:
		x.fires = at
		x.timer.Reset(at - x.age())
	}
}

// tick does the action that is due and sets the timer again.
func (x *exchange) tick() {
	x.mu.Lock()
	defer x.unlockLate()
	x.fires = 0
	if x.closed || x.gone() {
		return
	}
	age := x.age()
	x.times.requestWaited(x.body.Waited(x.since.Add(age)).Sub(x.since))
	switch {
	case x.drained() <= age:
		x.endNow(rewrite.CauseShutdown)
	case x.times.silent(x.o) <= age && x.times.phase == phaseFinished:
		x.endNow(rewrite.CauseEOF)
	case x.times.silent(x.o) <= age:
		x.endNow(rewrite.CauseTimeout)
	case x.times.keepalive(x.o) <= age:
		if s, ok := x.answer.(*stream); ok { // always, by the phase
			s.keepalive()
		}
	}
	x.watch()
}

// drained returns the age at which a drain ends the exchange.
func (x *exchange) drained() time.Duration {
	streams, limit := x.o.Streams.drain.Load().ends(x)
	switch x.times.phase {
	case phaseFree:
		return never
	case phaseWhole:
		return limit
	}
	return streams
}

// endNow ends the answer for a cause of ours, or sends an error if it has not begun,
// and then ends upstream's request. The client does not wait until the handler
// notices.
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

// shut ends the writing.
func (x *exchange) shut() {
	x.closed = true
	x.watch()
}

// unlockLate is unlock where a panic must not go on: in a timer's goroutine it would end
// the process. It goes on in the handler's, and upstream's request ends.
func (x *exchange) unlockLate() {
	if v := recover(); v != nil {
		x.panicked = panics.Carry(v)
		x.fail(errPanicked)
		x.shut()
	}
	x.mu.Unlock()
}
