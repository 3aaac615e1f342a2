package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// responseWriter is what the next handler writes to. It decides once, at the
// final status, whether the answer is a stream to be repaired; what is not
// passes byte for byte.
//
// The handler, the goroutine in which a proxy flushes the header, that of the
// transport, which sends 1xx answers, and the timer all write: mu is held
// whenever the inner writer is used, which has no lock of its own (Caddy:
// idletimeout.go:401).
type responseWriter struct {
	// What a chunk needs comes first, and lies together: a stream that is woken
	// finds nothing of its own in the cache.
	mu        sync.Mutex
	flushed   atomic.Bool // a stream has been, and so is each further write to it
	decided   bool        // the final status is known
	committed bool        // the header has left
	closed    bool        // nothing may be written any more
	overdue   bool        // the drain was over before the stream was one that it ends
	p         *Proxy
	engine    *rewrite.Stream // nil for an answer that is no stream
	whole     *whole          // an answer that is kept until it has come, nil for others
	writeErr  error           // the first of the inner writer: the client is gone
	inner     http.ResponseWriter
	ctl       *http.ResponseController
	seen      StreamObserver // nil for a stream that nobody is told of
	since     time.Time      // the request came
	watcher

	r        *http.Request           // the client's
	chat     bool                    // the request is one for chat completions
	asked    bool                    // the request has been read, and goes on
	noStream bool                    // it was read, and does not ask for a stream
	encoded  bool                    // the answer is a stream that is compressed
	late     bool                    // the client had left before the answer was decided
	handed   bool                    // the next handler has the request
	cancel   context.CancelCauseFunc // ends upstream's request
	header   http.Header             // the handler's own
	body     reqbody.Body
	reach    reach
	status   int
	recorded *recorded     // for a file that shows what went wrong, nil for none
	cause    rewrite.Cause // how upstream ended
	answered string        // the code of the error that was sent as the answer
	timeouts Timeouts      // nil for none
	rare     *rare         // nil for most
}

// rare is what few answers need, so that the others do not pay for it.
type rare struct {
	deadline time.Time // that the handler has set for its writes, zero for none
	panicked any       // a panic to go on in the handler's goroutine, nil for none
}

// rarely returns rare, to be set.
func (rw *responseWriter) rarely() *rare {
	if rw.rare == nil {
		rw.rare = new(rare)
	}
	return rw.rare
}

// errClosed is returned to a handler that writes to a stream that has been
// ended.
var errClosed = errors.New("the stream has been ended")

func newResponseWriter(p *Proxy, w http.ResponseWriter, r *http.Request, cancel context.CancelCauseFunc) *responseWriter {
	return &responseWriter{
		p: p, r: r, chat: isChat(r), since: p.o.Clock.Now(), cancel: cancel,
		inner: w, ctl: http.NewResponseController(w), header: w.Header().Clone(),
	}
}

// Header implements http.ResponseWriter. The handler has a map of its own
// (contract section 7): net/http lets it write to its map at any time, for
// trailers, while a timer's write reads that of the inner writer, and a map that
// is written to while it is read ends the process. No timer looks at this one.
func (rw *responseWriter) Header() http.Header {
	if rw.header == nil { // see letHeaderGo
		rw.mu.Lock()
		defer rw.unlock()
		rw.header = rw.inner.Header().Clone() // net/http notes that it was asked for
	}
	return rw.header
}

// Unwrap lets http.ResponseController find what we do not implement: the deadline
// of the request's body, which nothing that is written looks at.
func (rw *responseWriter) Unwrap() http.ResponseWriter { return rw.inner }

// Hijack implements http.Hijacker. A connection that has been handed over is
// none of ours any more; httputil.ReverseProxy does that before it says 101.
func (rw *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return nil, nil, errClosed
	}
	rw.handOver()
	conn, buffered, err := rw.ctl.Hijack()
	if err == nil {
		rw.decided, rw.committed = true, true
		rw.body.Decided()
		rw.unwatch()
	}
	return conn, buffered, err
}

// WriteHeader implements http.ResponseWriter. The header of a stream is held
// until there is something to send behind it: until then an error can have a
// status of its own (contract section 3).
func (rw *responseWriter) WriteHeader(status int) {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return
	}
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		if !rw.decided {
			rw.inform(status)
		}
		return // the final status is yet to come
	}
	rw.decide(status)
}

// decide decides what the answer is.
func (rw *responseWriter) decide(status int) {
	if rw.decided {
		return
	}
	rw.decided, rw.status, rw.late = true, status, rw.gone()
	rw.body.Decided()
	rw.handOver()
	rw.noteCompleted()
	if rw.timeouts != nil {
		rw.timeouts.Apply()
	}
	if !rw.isStream(status) {
		rw.unwatch()
		if rw.isWhole(status) {
			rw.whole = &whole{keeps: true}
		} else {
			rw.commit()
		}
		return
	}
	h := rw.inner.Header()
	prepareHeader(h)
	rw.engine = rewrite.New(&rw.p.o.Rewrite, rw.params())
	rw.observe()
	if rw.guarded() {
		rw.recordBytes(nil)
	}
	if !rw.chat {
		rw.commit() // most likely not ours: nothing is held back
	}
	rw.headerCame()
}

// commit sends the header.
func (rw *responseWriter) commit() {
	if rw.committed {
		return
	}
	rw.committed = true
	rw.inner.WriteHeader(rw.status)
}

// Write implements http.ResponseWriter. Of a stream it takes all of b even when
// some of it is held back: copiers take less for a short write.
func (rw *responseWriter) Write(b []byte) (int, error) {
	passes, err := rw.take(b)
	switch {
	case passes:
		return rw.inner.Write(b)
	case err != nil:
		return 0, err
	}
	return len(b), nil
}

// take takes b, unless the answer is one that passes.
func (rw *responseWriter) take(b []byte) (passes bool, err error) {
	rw.mu.Lock()
	defer rw.unlock()
	switch rw.decideOK(); {
	case rw.passes():
		return true, nil
	case rw.keeps() && !rw.closed:
		return false, rw.keep(b)
	}
	return false, rw.feed(b)
}

// decideOK decides what the answer is, of which the handler has said no status.
func (rw *responseWriter) decideOK() {
	if !rw.decided && !rw.closed {
		rw.decide(http.StatusOK)
	}
}

// passes tells whether the answer goes to the inner writer as it comes.
func (rw *responseWriter) passes() bool {
	return rw.engine == nil && !rw.keeps() && !rw.closed
}

// ReadFrom keeps io.Copy from going past Write: the method of an embedded
// writer would (TestReadFromIsRepaired).
func (rw *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	if rw.begin() {
		return io.Copy(rw.inner, r)
	}
	return io.Copy(struct{ io.Writer }{rw}, r)
}

// begin begins the answer, if it has not begun, and tells whether it passes.
func (rw *responseWriter) begin() (passes bool) {
	rw.mu.Lock()
	defer rw.unlock()
	rw.decideOK()
	return rw.passes()
}

// FlushError implements the flushing of http.ResponseController. Of a stream
// each write has been flushed already; what is left is the header of one that
// may not be ours.
func (rw *responseWriter) FlushError() error {
	if rw.flushed.Load() { // as of almost all: it is asked with each chunk
		return nil
	}
	if rw.begin() {
		return rw.ctl.Flush()
	}
	rw.mu.Lock()
	defer rw.unlock()
	if rw.whole != nil {
		rw.whole.flushed = true
	}
	if rw.closed || !rw.committed {
		return nil
	}
	return rw.flush()
}

// flush sends what has been written.
func (rw *responseWriter) flush() error {
	err := rw.ctl.Flush()
	if rw.engine != nil && !rw.flushed.Load() {
		rw.flushed.Store(true)
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		rw.lost(err)
		return err
	}
	return nil
}

// lost notes that the client cannot be written to, and ends upstream's request
// at once.
func (rw *responseWriter) lost(err error) {
	if rw.writeErr != nil {
		return
	}
	rw.writeErr = err
	rw.cancel(err)
}

// gone tells whether the client has left.
func (rw *responseWriter) gone() bool {
	return rw.writeErr != nil || rw.r.Context().Err() != nil
}
