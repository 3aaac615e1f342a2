package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// watcher holds the times that a stream's deadlines count from, as ages: the time
// since the request came. All deadlines share one timer. Bytes and frames move them
// later and leave the timer alone: when it fires early it is set again, so that a
// chunk costs no timer.
type watcher struct {
	askedAt time.Duration // the request goes on to upstream
	byteAt  time.Duration // upstream's last byte; before the first one, askedAt
	frameAt time.Duration // upstream's last frame; before the first one, askedAt
	sentAt  time.Duration // our last byte to the client
	began   bool          // a byte of the answer has come
	timer   Timer
}

// Why upstream's request is cancelled. A proxy takes a cause that is a timeout
// for one of upstream's (Caddy: reverseproxy.go:1756); the others are no fault
// of upstream's, and context.Canceled keeps them from being counted as one
// (reverseproxy.go:736).
var (
	errTimeout  error = timeoutError{}
	errShutdown       = fmt.Errorf("the server is shutting down: %w", context.Canceled)
	errOver           = fmt.Errorf("the stream is over: %w", context.Canceled)
)

type timeoutError struct{}

// Error implements error.
func (timeoutError) Error() string { return "upstream was silent for too long" }

// Timeout implements net.Error.
func (timeoutError) Timeout() bool { return true }

// Temporary implements net.Error.
func (timeoutError) Temporary() bool { return true }

// age returns the time since the request came.
func (rw *responseWriter) age() time.Duration { return rw.p.o.Clock.Since(rw.since) }

// ask notes that the request has been read, as far as it is, and goes on to
// upstream now, and sets the timer for the deadlines of its answer. It is false
// when the process has waited long enough for its end: the request is answered.
func (rw *responseWriter) ask(asked rewrite.Asked) bool {
	rw.mu.Lock()
	defer rw.unlock()
	rw.asked, rw.noStream = true, asked == rewrite.AskedWhole
	rw.askedAt = rw.age()
	rw.byteAt, rw.frameAt = rw.askedAt, rw.askedAt
	if rw.overdue && rw.watched() && !rw.gone() {
		rw.endFor(rewrite.CauseShutdown)
		return false
	}
	rw.handed = true
	rw.watchLocked()
	return true
}

// watchLocked sets the timer to the next deadline.
func (rw *responseWriter) watchLocked() {
	at, ok := rw.nextDeadline()
	if !ok || rw.closed {
		return
	}
	d := at - rw.age()
	if rw.timer == nil {
		rw.timer = rw.p.o.Clock.AfterFunc(d, rw.tick)
		return
	}
	rw.timer.Reset(d)
}

// unwatch stops the timer. A tick that is under way waits for the lock and then
// finds nothing to do.
func (rw *responseWriter) unwatch() {
	if rw.timer != nil {
		rw.timer.Stop()
	}
}

// headerCame notes that upstream's header has come.
func (rw *responseWriter) headerCame() {
	age := rw.age()
	rw.byteAt, rw.sentAt = age, age
	if rw.noStream {
		rw.askedAt, rw.frameAt = age, age // nobody has waited for a stream yet
	}
	rw.watchLocked()
}

// watched tells whether the deadlines apply: to streams of chat completions,
// and to requests that may be for one and have no answer yet. Other streams may
// be silent for as long as they like.
func (rw *responseWriter) watched() bool {
	if !rw.decided {
		return rw.chat && rw.asked && !rw.noStream
	}
	return rw.engine != nil && rw.engine.Active()
}

// deadline is an age at which the stream ends for a cause.
type deadline struct {
	at    time.Duration
	cause rewrite.Cause
}

// deadlines calls each with the deadlines that are set.
func (rw *responseWriter) deadlines(each func(deadline)) {
	o := &rw.p.o
	set := func(from, d time.Duration, cause rewrite.Cause) {
		if d > 0 {
			each(deadline{from + d, cause})
		}
	}
	if rw.engine != nil && rw.engine.Finished() {
		set(rw.byteAt, o.DoneGrace, rewrite.CauseEOF)
		return
	}
	if !rw.began {
		set(rw.askedAt, o.FirstByteTimeout, rewrite.CauseTimeout)
	}
	set(rw.byteAt, o.IdleTimeout, rewrite.CauseTimeout)
	set(rw.frameAt, o.StallTimeout, rewrite.CauseTimeout)
}

// nextDeadline returns the age at which there is something to do.
func (rw *responseWriter) nextDeadline() (at time.Duration, ok bool) {
	if !rw.watched() {
		return at, false
	}
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	rw.deadlines(func(d deadline) { sooner(d.at) })
	if rw.decided && rw.p.o.Keepalive > 0 {
		sooner(rw.sentAt + rw.p.o.Keepalive)
	}
	return at, ok
}

// tick does what is due and sets the timer again.
func (rw *responseWriter) tick() {
	rw.mu.Lock()
	defer rw.rescue()
	if rw.closed || !rw.watched() || rw.gone() {
		return
	}
	age := rw.age()
	rw.requestWaited(age)
	var due *deadline
	rw.deadlines(func(d deadline) {
		if d.at <= age && (due == nil || d.at < due.at) {
			due = &d
		}
	})
	if due != nil {
		rw.endFor(due.cause)
		return
	}
	rw.keepalive(age)
	rw.watchLocked()
}

// requestWaited moves what the deadlines count from to where the client was last
// waited for, as long as no byte of the answer has come. The request has the age.
func (rw *responseWriter) requestWaited(age time.Duration) {
	if rw.began {
		return
	}
	at := rw.body.Waited(rw.since.Add(age)).Sub(rw.since)
	rw.askedAt, rw.byteAt, rw.frameAt = max(rw.askedAt, at), max(rw.byteAt, at), max(rw.frameAt, at)
}

// endFor ends the stream for a cause of ours, or answers in upstream's stead
// when it has not. The client does not wait for the handler to notice.
func (rw *responseWriter) endFor(cause rewrite.Cause) {
	if rw.decided {
		rw.finishNow(cause)
		return
	}
	rw.answerCause(cause)
	rw.close(cause)
}

// close refuses all further writes and ends upstream's request.
func (rw *responseWriter) close(cause rewrite.Cause) {
	rw.closed = true
	rw.unwatch()
	switch cause {
	case rewrite.CauseTimeout:
		rw.cancel(errTimeout)
	case rewrite.CauseShutdown:
		rw.cancel(errShutdown)
	default:
		rw.cancel(errOver)
	}
}

// keepalive sends a keepalive when the client has heard nothing for too long.
// It neither resets nor hides the timeouts.
func (rw *responseWriter) keepalive(age time.Duration) {
	k := rw.p.o.Keepalive
	if k <= 0 || !rw.decided || age-rw.sentAt < k {
		return
	}
	room := rw.p.buffers.get()
	out := rw.engine.Keepalive(room.b)
	rw.liftDeadline()
	_ = rw.send(out) // an error shows in rw.writeErr
	rw.dropDeadline()
	rw.sentAt = rw.age() // also when none may leave now
	rw.p.buffers.put(room, out)
}
