package proxy

import (
	"context"
	"fmt"
	"time"

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

// ask records that the request goes on to upstream, as far as it has been read. It returns false if
// the drain timeout has passed: then the request has been answered.
func (x *exchange) ask() bool {
	x.mu.Lock()
	defer x.unlock()
	age := x.age()
	x.times.forwarded, x.times.received, x.times.frame = age, age, age
	switch {
	case x.chat && x.form == rewrite.AnswerWhole:
		x.times.phase = phaseWhole
	case x.chat:
		x.times.phase = phaseAwaiting
	case x.begun():
		x.times.phase = phaseOther // which a drain ends
	}
	if x.times.phase == phaseAwaiting && x.drainDue() <= age && !x.gone() {
		x.endNow(rewrite.CauseShutdown)
		return false
	}
	x.running = true
	x.watch()
	return true
}

// watch sets the timer for the next deadline. A timer that is too early, because the deadline has moved,
// finds nothing to do, and is set again; so does one that has fired and waits for the lock.
func (x *exchange) watch() {
	at := never
	if !x.closed {
		at = min(x.drainDue(), x.times.silenceDue(x.o), x.keepaliveDue())
	}
	switch {
	case x.timer != nil && at == never:
		x.timer.Stop()
	case x.timer != nil:
		x.timer.Reset(at - x.age())
	case at != never:
		x.timer = time.AfterFunc(at-x.age(), x.tick)
	}
}

// keepaliveDue returns the age at which a keepalive is due, unless something is sent before. It
// neither resets nor hides the timeouts.
func (x *exchange) keepaliveDue() time.Duration {
	if x.times.phase < phaseStreaming && (!x.begun() || x.answer != nil) {
		return never
	}
	return after(x.sent, x.o.Keepalive)
}

// tick does the action that is due and sets the alarm again.
func (x *exchange) tick() {
	x.mu.Lock()
	defer x.unlockLate()
	if x.closed || x.gone() {
		return
	}
	age := x.age()
	if t := &x.times; !t.began {
		// While upstream waits for the rest of the request, it is not silent.
		waited := x.body.Waited(x.since.Add(age)).Sub(x.since)
		t.forwarded, t.received, t.frame = max(t.forwarded, waited), max(t.received, waited), max(t.frame, waited)
	}
	switch silent := x.times.silenceDue(x.o) <= age; {
	case x.drainDue() <= age:
		x.endNow(rewrite.CauseShutdown)
	case silent && x.times.phase == phaseFinished:
		x.endNow(rewrite.CauseEOF)
	case silent:
		x.endNow(rewrite.CauseTimeout)
	case x.keepaliveDue() <= age:
		if s, ok := x.answer.(*stream); ok {
			s.keepalive()
		} else {
			_ = x.client.send(x.waiting.Keepalive(nil)) // an error shows in x.client.err
		}
		x.sent = x.age() // also if no keepalive may leave now
	}
	x.watch()
}

// drainDue returns the age at which a drain ends the exchange.
func (x *exchange) drainDue() time.Duration {
	d := x.o.Streams.drain.Load()
	if d == nil || x.times.phase == phaseFree {
		return never
	}
	began := d.began.Sub(x.since)
	limit := after(began, d.limit)
	switch {
	case x.times.phase == phaseWhole:
		return limit
	case x.o.DrainTimeout <= 0:
		return began
	}
	return min(after(began, x.o.DrainTimeout), limit)
}
