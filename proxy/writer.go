package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// responseWriter is what the next handler writes to. It has the lock of an exchange,
// and the timer of its deadlines.
//
// The handler, the goroutine in which a proxy flushes the header, that of the
// transport, which sends 1xx answers, and the timer all write: mu is held whenever
// the exchange is used, and with it the inner writer.
type responseWriter struct {
	// What a chunk needs comes first, and lies together: a stream that is woken
	// finds nothing of its own in the cache.
	mu      sync.Mutex
	closed  bool // nothing may be written any more
	drained bool // the drain was over before the answer was one that it ends
	late    bool // the client had left before the answer was decided
	exchange
	timer    Timer // of the deadlines, nil as long as there was none
	body     reqbody.Body
	timeouts Timeouts   // nil for none
	panicked *latePanic // a panic to go on in the handler's goroutine, nil for none
}

// errClosed is returned to a handler that writes to an answer that has been ended.
var errClosed = errors.New("the stream has been ended")

func newResponseWriter(p *Proxy, w http.ResponseWriter, r *http.Request, cancel context.CancelCauseFunc) *responseWriter {
	return &responseWriter{exchange: exchange{
		p: p, chat: isChat(r), since: p.o.Clock.Now(), header: w.Header().Clone(),
		client: client{w: w, r: r, cancel: cancel},
	}}
}

// Header implements http.ResponseWriter. The handler has a map of its own
// (contract section 7): net/http lets it write to its map at any time, for
// trailers, while a timer's write reads that of the inner writer, and a map that
// is written to while it is read ends the process. No timer looks at this one.
func (rw *responseWriter) Header() http.Header {
	if rw.header == nil { // see dropHeader
		rw.mu.Lock()
		defer rw.unlock()
		rw.header = rw.client.w.Header().Clone() // net/http records that it was asked for
	}
	return rw.header
}

// Unwrap lets http.ResponseController find what we do not implement: the deadline
// of the request's body, which nothing that is written looks at.
func (rw *responseWriter) Unwrap() http.ResponseWriter { return rw.client.w }

// Hijack implements http.Hijacker. A connection that has been handed over is
// none of ours any more; httputil.ReverseProxy does that before it says 101.
func (rw *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return nil, nil, errClosed
	}
	copyHeader(rw.client.w.Header(), rw.header)
	conn, buffered, err := http.NewResponseController(rw.client.w).Hijack()
	if err == nil {
		rw.client.committed = true
		if rw.answer == nil {
			rw.answer = passing{&rw.exchange}
			rw.answer.begin()
		}
		rw.body.Decided()
		rw.unwatch()
	}
	return conn, buffered, err
}

// SetWriteDeadline implements the deadline of http.ResponseController. The inner
// writer may keep it in a field of its own (Caddy: idletimeout.go:435), which a
// timer's write looks at.
func (rw *responseWriter) SetWriteDeadline(t time.Time) error {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return errClosed
	}
	return rw.client.setDeadline(t)
}

// EnableFullDuplex implements the same of http.ResponseController: net/http looks
// at it as the header leaves.
func (rw *responseWriter) EnableFullDuplex() error {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return errClosed
	}
	return http.NewResponseController(rw.client.w).EnableFullDuplex()
}

// WriteHeader implements http.ResponseWriter.
func (rw *responseWriter) WriteHeader(status int) {
	rw.mu.Lock()
	defer rw.unlock()
	switch {
	case rw.closed || rw.answer != nil:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		rw.client.sendInformational(status, rw.header)
	default:
		rw.decide(status)
	}
}

// decide decides what the answer is.
func (rw *responseWriter) decide(status int) {
	rw.late, rw.client.status = rw.client.gone(), status
	rw.body.Decided()
	copyHeader(rw.client.w.Header(), rw.header)
	rw.recordCompletedHeader()
	if rw.timeouts != nil {
		rw.timeouts.Apply()
	}
	rw.answer = rw.choose(status)
	rw.answer.begin()
	rw.watch()
}

// started returns the answer, nil if it has ended. One that the handler gives no
// status begins with a good one.
func (rw *responseWriter) started() answer {
	if rw.closed {
		return nil
	}
	if rw.answer == nil {
		rw.decide(http.StatusOK)
	}
	return rw.answer
}

// Write implements http.ResponseWriter.
func (rw *responseWriter) Write(b []byte) (int, error) {
	passes, n, err := rw.writeLocked(b)
	if passes != nil {
		return passes.write(b)
	}
	return n, err
}

// writeLocked writes b, unless it returns an answer to write it to, which passes.
func (rw *responseWriter) writeLocked(b []byte) (passes answer, n int, err error) {
	rw.mu.Lock()
	defer rw.unlock()
	a := rw.started()
	switch {
	case a == nil:
		return nil, 0, errClosed
	case rw.passes:
		return a, 0, nil
	}
	before := rw.times.Phase
	n, err = a.write(b)
	switch now := rw.times.Phase; {
	case rw.drained && now.Stream():
		rw.endNow(rewrite.CauseShutdown)
	case now != before:
		rw.watch()
	}
	return nil, n, err
}

// begin begins the answer, if it has not begun. It returns it if it passes.
func (rw *responseWriter) begin() (passes answer) {
	rw.mu.Lock()
	defer rw.unlock()
	if a := rw.started(); rw.passes {
		return a
	}
	return nil
}

// ReadFrom keeps io.Copy from going past Write: the method of an embedded
// writer would (TestReadFromIsRepaired).
func (rw *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	if rw.begin() != nil {
		return io.Copy(rw.client.w, r)
	}
	return io.Copy(struct{ io.Writer }{rw}, r)
}

// FlushError implements the flushing of http.ResponseController.
func (rw *responseWriter) FlushError() error {
	if rw.flushed.Load() { // as of almost all: it is asked with each chunk
		return nil
	}
	if passes := rw.begin(); passes != nil {
		return passes.flush()
	}
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return nil
	}
	return rw.answer.flush()
}
