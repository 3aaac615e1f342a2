package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// cancellations are the causes with which upstream's request is cancelled, by the cause of the
// answer's end. A proxy treats a timeout as upstream's failure (Caddy: reverseproxy.go:1756); the
// others are not upstream's fault, and context.Canceled keeps them from being counted as failures
// (reverseproxy.go:736).
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

// requestRead records that the request has been read, as far as necessary, and goes on to upstream.
// It returns false if the drain timeout has passed: then the request has been answered.
func (x *exchange) requestRead() bool {
	x.mu.Lock()
	defer x.unlock()
	if x.answer != nil { // upstream has not waited for the end of the request's body
		return true
	}
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

// drainTimeout returns how long x may go on from the beginning of a drain. A request that waits in
// line ends at once.
func (x *exchange) drainTimeout() time.Duration {
	if x.inLine.Load() {
		return 0
	}
	return x.o.DrainTimeout
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
	if t := &x.times; !t.began {
		// While upstream waits for the rest of the request, it is not silent.
		waited := x.body.Waited(x.since.Add(age)).Sub(x.since)
		t.asked, t.received, t.frame = max(t.asked, waited), max(t.received, waited), max(t.frame, waited)
	}
	switch silent := x.times.silent(x.o) <= age; {
	case x.drained() <= age:
		x.endNow(rewrite.CauseShutdown)
	case silent && x.times.phase == phaseFinished:
		x.endNow(rewrite.CauseEOF)
	case silent:
		x.endNow(rewrite.CauseTimeout)
	case x.times.keepalive(x.o) <= age:
		if s, ok := x.answer.(*stream); ok {
			s.keepalive()
		} else { // told: the client waits in line
			x.keepTold()
		}
	}
	x.watch()
}

// drained returns the age at which a drain ends the exchange.
func (x *exchange) drained() time.Duration {
	d := x.o.Streams.drain.Load()
	if d == nil || x.times.phase == phaseFree {
		return never
	}
	began := d.began.Sub(x.since)
	limit := after(began, d.limit)
	switch {
	case x.times.phase == phaseWhole:
		return limit
	case x.times.phase == phaseInLine:
		return began
	case x.o.DrainTimeout <= 0:
		return began
	}
	return min(after(began, x.o.DrainTimeout), limit)
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
		x.fail(errPanicked)
		x.shut()
	}
	x.mu.Unlock()
}

// keepTold sends a keepalive to a client that was told that it waits.
func (x *exchange) keepTold() {
	_ = x.send(x.line.waiting.Keepalive(nil)) // an error shows in x.err
	x.times.sent = x.age()
}
