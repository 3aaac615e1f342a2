package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// exchange is a request and its answer. It is the http.ResponseWriter of the next
// handler.
//
// Several goroutines write: that of the handler, that in which a proxy flushes the header, that of
// the transport, which sends 1xx answers, and those of timers. The inner writer has no lock of its
// own (Caddy: idletimeout.go:401), so mu is held whenever the inner writer or a field after mu is
// used, except by an answer that passes.
type exchange struct {
	o      *Options
	rooms  *sync.Pool              // those of the Proxy
	w      http.ResponseWriter     // the inner writer
	r      *http.Request           // the client's
	cancel context.CancelCauseFunc // ends upstream's request
	since  time.Time               // when the request came
	chat   bool                    // the request is one for chat completions
	header http.Header             // the handler's own; see Header
	reach  reach
	body   reqbody.Body

	mu     sync.Mutex
	err    error // the first error of the inner writer: the client is gone
	closed bool  // nothing may be written any more

	noStream bool // the request was read, and does not ask for a stream
	muted    bool // the request mutes the answer, which may be empty by intent
	replied  bool // the request was a reply to a request for approval, which Reply has answered
	running  bool // the next handler has the request: the agent may be running

	answer    answer    // nil before the final status
	followed  *followed // reads the answer, nil if it says nothing of a run
	status    int       // of the answer
	code      string    // of the error that was sent instead of the answer, "" for none
	late      bool      // the client had left before the answer was chosen
	committed bool      // the header has left
	flushed   bool      // a stream has been flushed, and is with each write from then on

	times         times         // the ages that the deadlines count from
	timer         *time.Timer   // of the deadlines, nil as long as there was none
	fires         time.Duration // the age at which it fires, 0 while it is stopped
	applyTimeouts func() func() // of the inner writer, nil for none
	restore       func()        // undoes applyTimeouts, nil for nothing
	writeDeadline time.Time     // of the handler's writes, zero for none

	observer AnswerObserver // nil as long as it does not observe the answer
	line     *line          // nil if the request does not wait for its turn
	inLine   atomic.Bool    // the request waits; used without the lock
	panicked any            // to panic with in the handler's goroutine, nil for none
}

// answer is upstream's answer: passing, stream, whole, failed, refusal or report. It is chosen and
// begun once, at the final status; only a whole one, a failed one or a refusal that turns out to be
// something else becomes another one. From then on it alone enters the phases of times and writes to
// the client.
type answer interface {
	// write takes upstream's bytes. It returns len(b) even if some are held back, because copiers
	// take less for a short write.
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

// line is an exchange's place in line (Options.Turn). Its request goes on to upstream when it is its
// turn, and again after each time that upstream has refused it. Its invariants:
//
//   - While the request waits, the phase is phaseInLine, and the agent is not running.
//   - The header of an exchange has left before its answer is chosen if and only if the client
//     was told that it waits. Then each error ends its stream, whatever status it would have had.
//   - Nothing leaves of an answer with which upstream refuses the request, and the next try finds
//     everything as the first one did.
type line struct {
	turn    *queue.Turn
	stream  bool            // the client asks for a stream: it is told that it waits
	waiting rewrite.Waiting // writes the stream of the client while it waits
	header  http.Header     // the inner writer's, before the client was told that it waits; each try begins with it
	url     url.URL         // of the request
	refused *refused        // upstream's last refusal, nil for none
	kept    bool            // the run that the request has begun keeps its place
}

// followed is an answer that passes and is read for what it says of a run.
type followed struct {
	begins bool   // it answers a POST: the run may begin
	body   []byte // its beginning
	object objectEnd
}

// age returns the time since the request came.
func (x *exchange) age() time.Duration { return time.Since(x.since) }

// upstream names the upstream that answers. Only the handler's goroutine may ask: it
// looks at values that handlers have set.
func (x *exchange) upstream() string { return x.o.Upstream(x.r) }

// gone reports whether the client has left.
func (x *exchange) gone() bool { return x.err != nil || x.r.Context().Err() != nil }

// fail records that the client cannot be written to, and ends upstream's request.
func (x *exchange) fail(err error) {
	if x.err == nil {
		x.err = err
		x.cancel(err)
	}
}

// commit sends the header, if it has not left.
func (x *exchange) commit() {
	if !x.committed {
		x.committed = true
		x.w.WriteHeader(x.status)
	}
}

// sendBytes sends the header and b.
func (x *exchange) sendBytes(b []byte) error {
	x.commit()
	if len(b) == 0 {
		return nil
	}
	_, err := x.w.Write(b)
	if err != nil {
		x.fail(err)
	}
	return err
}

// send sends the header and b, and flushes them.
func (x *exchange) send(b []byte) error {
	if err := x.sendBytes(b); err != nil {
		return err
	}
	err := http.NewResponseController(x.w).Flush()
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	x.fail(err)
	return err
}

// moveDeadline moves the deadline of writes to t, if the handler has set one, because it must not
// end a write of the sidecar's own.
func (x *exchange) moveDeadline(t time.Time) {
	if !x.writeDeadline.IsZero() {
		_ = http.NewResponseController(x.w).SetWriteDeadline(t) // it could be set before
	}
}

// errPanicked is the cause with which upstream's request ends after code that is not ours
// has panicked under the lock. It is no fault of upstream's (see cancellations).
var errPanicked = fmt.Errorf("the writer of the answer panicked: %w", context.Canceled)

// unlock releases the lock in the handler's goroutine. It is deferred wherever code that is not
// ours is called under the lock: a panic of that code goes on, and the inner writer is not used
// again.
func (x *exchange) unlock() {
	if v := recover(); v != nil {
		x.fail(errPanicked)
		x.mu.Unlock()
		panic(v) // keeps the stack
	}
	x.mu.Unlock()
}
