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

// alarm is the timer of the deadlines of an exchange.
type alarm struct {
	timer *time.Timer   // nil as long as there was no deadline
	at    time.Duration // the age at which it fires, 0 while it is stopped
}

// set sets the alarm to ring at the age at or before; ring calls f. The exchange has the age now. never
// stops it. An alarm that rings too early is set again, and one that has rung and waits for the lock
// finds nothing to do.
func (a *alarm) set(at, now time.Duration, f func()) {
	switch {
	case at == never:
		a.at = 0
		if a.timer != nil {
			a.timer.Stop()
		}
	case a.timer == nil:
		a.at = at
		a.timer = time.AfterFunc(at-now, f)
	case a.at == 0 || at < a.at:
		a.at = at
		a.timer.Reset(at - now)
	}
}

// watch sets the alarm for the next deadline.
func (x *exchange) watch() {
	at := never
	if !x.closed {
		at = min(x.drainDue(), x.times.silenceDue(x.o), x.keepaliveDue())
	}
	x.alarm.set(at, x.age(), x.tick)
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
	x.alarm.at = 0
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
