package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// params returns what the engine must know of the request.
func (rw *responseWriter) params() rewrite.Params {
	return rewrite.Params{
		Active:    rw.chat,
		Responses: rewrite.IsResponsesPath(rw.r.URL.Path),
		RunID:     rewrite.RunOfPath(rw.r.URL.Path),
		SessionID: rewrite.SessionOfPath(rw.r.URL.Path),
		Progress:  rewrite.ProgressOf(rw.r.Header.Get(ProgressHeader)),
		ID:        newID,
		Created:   rw.since.Unix(),
		Usage:     rw.usage(),
		OnTool:    rw.onTool(),
	}
}

// usage returns the memory of reported usage, nil when there is none. Upstream is
// named here, in the handler's goroutine: a timer, which may end the stream, must
// not look at what handlers have set.
func (rw *responseWriter) usage() rewrite.UsageMemory {
	if rw.p.o.Usage == nil {
		return nil
	}
	return usageMemory{rw.p.o.Usage, rw.p.o.Upstream(rw.r)}
}

// newID returns an id for a completion that upstream has given none, in the
// form of Hermes' own.
func newID() string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // never fails
	return "chatcmpl-" + hex.EncodeToString(b[:])[:29]
}

// feed repairs bytes of upstream's and sends what may leave: one write and one
// flush.
func (rw *responseWriter) feed(b []byte) error {
	if rw.closed {
		return errClosed
	}
	if rw.writeErr != nil {
		return rw.writeErr
	}
	if rw.engine.Pass(b) {
		return rw.pass(b)
	}
	age := rw.age()
	now := rw.since.Add(age)
	rw.began, rw.byteAt = true, age
	frames, active, finished := rw.engine.Frames(), rw.engine.Active(), rw.engine.Finished()
	room := rw.p.buffers.get()
	out := rw.engine.Feed(room.b, b, now)
	if rw.engine.Frames() > frames {
		rw.frameAt = age
	}
	rw.recordBytes(b)
	rw.readCame(now)
	err := rw.send(out)
	// The client may have been slow: that was not upstream's silence.
	rw.byteAt = rw.age()
	rw.frameAt += rw.byteAt - age
	if len(out) > 0 {
		rw.sentAt = rw.byteAt
	}
	rw.p.buffers.put(room, out)
	if frames == 0 {
		rw.letHeaderGo()
	}
	if rw.overdue && rw.engine.Guarded() {
		rw.finishNow(rewrite.CauseShutdown)
	} else if rw.engine.Active() != active || rw.engine.Finished() != finished {
		rw.watchLocked()
	}
	return err
}

// pass sends b, a frame like the one before it, which the engine has let pass. It does
// what feed does for others, as far as such a frame can change anything: almost all of
// a stream comes through here, mostly when nothing of it is in the cache.
func (rw *responseWriter) pass(b []byte) error {
	rw.recordBytes(b)
	err := rw.send(b)
	age := rw.age() // behind the write, for the client may have been slow
	rw.byteAt, rw.frameAt, rw.sentAt = age, age, age
	rw.readCame(rw.since.Add(age))
	if rw.overdue {
		rw.finishNow(rewrite.CauseShutdown)
	}
	return err
}

// send writes and flushes out, which is not kept. The header leaves with the first
// complete frame, even when its text is held back.
func (rw *responseWriter) send(out []byte) error {
	if len(out) == 0 && (rw.committed || rw.engine.Frames() == 0) {
		return nil
	}
	rw.commit()
	if len(out) > 0 {
		if _, err := rw.inner.Write(out); err != nil {
			rw.lost(err)
			return err
		}
	}
	return rw.flush()
}

// finish ends the stream: with what the client is still owed or, when it has
// been sent nothing, with an error that has a status of its own.
func (rw *responseWriter) finish(cause rewrite.Cause) {
	rw.cause = cause
	rw.liftDeadline()
	room := rw.p.buffers.get()
	out := rw.engine.Finish(room.b, cause)
	defer rw.p.buffers.put(room, out)
	if rw.engine.Active() && !rw.committed && rw.engine.Frames() == 0 {
		rw.answerCause(cause)
		return
	}
	// An error shows in rw.writeErr; there is nobody left to tell.
	_ = rw.send(out)
}

// finishNow ends the stream although the next handler goes on, and then ends
// upstream's request.
func (rw *responseWriter) finishNow(cause rewrite.Cause) {
	rw.finish(cause)
	rw.close(cause)
}

// causeOf tells how upstream ended.
func causeOf(panicked any, err error) rewrite.Cause {
	var t interface{ Timeout() bool }
	switch {
	case panicked != nil:
		return rewrite.CauseAborted
	case err == nil:
		return rewrite.CauseEOF
	case errors.As(err, &t) && t.Timeout():
		return rewrite.CauseTimeout
	}
	return rewrite.CauseAborted
}
