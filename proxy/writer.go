package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
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
	mu       sync.Mutex
	closed   bool  // nothing may be written any more
	drained  bool  // the drain was over before the answer was one that it ends
	place    int32 // among the open ones; see Streams
	x        exchange
	timer    Timer         // of the deadlines, nil as long as there was none
	fires    time.Duration // the age at which it does, 0 while it is stopped
	body     reqbody.Body
	timeouts Timeouts   // nil for none
	panicked *latePanic // a panic to go on in the handler's goroutine, nil for none
}

// errClosed is returned to a handler that writes to an answer that has been ended.
var errClosed = errors.New("the stream has been ended")

func newResponseWriter(p *Proxy, w http.ResponseWriter, r *http.Request, cancel context.CancelCauseFunc) *responseWriter {
	header := make(http.Header)
	head.Copy(header, w.Header())
	return &responseWriter{x: exchange{
		p: p, chat: isChat(r), since: p.o.Clock.Now(), header: header,
		client: client{w: w, r: r, cancel: cancel},
	}}
}

// Header implements http.ResponseWriter. The handler has a map of its own
// (contract section 7): net/http lets it write to its map at any time, for
// trailers, while a timer's write reads that of the inner writer, and a map that
// is written to while it is read ends the process. No timer looks at this one.
func (rw *responseWriter) Header() http.Header {
	if rw.x.header == nil { // see dropHeader
		rw.mu.Lock()
		defer rw.unlock()
		// net/http records that it was asked for. The header has left: what its fields
		// say matters to nobody else any more.
		rw.x.header = maps.Clone(rw.x.client.w.Header())
	}
	return rw.x.header
}

// Unwrap lets http.ResponseController find what we do not implement: the deadline
// of the request's body, which nothing that is written looks at.
func (rw *responseWriter) Unwrap() http.ResponseWriter { return rw.x.client.w }

// Hijack implements http.Hijacker. A connection that has been handed over is
// none of ours any more; httputil.ReverseProxy does that before it says 101.
func (rw *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return nil, nil, errClosed
	}
	head.Copy(rw.x.client.w.Header(), rw.x.header)
	conn, buffered, err := http.NewResponseController(rw.x.client.w).Hijack()
	if err == nil {
		rw.x.client.committed = true
		if rw.x.answer == nil {
			rw.x.answer = passing{&rw.x}
			rw.x.answer.begin()
		}
		rw.x.times.Phase = deadline.Free
		rw.watch()
		rw.body.Decided()
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
	return rw.x.client.setDeadline(t)
}

// EnableFullDuplex implements the same of http.ResponseController: net/http looks
// at it as the header leaves.
func (rw *responseWriter) EnableFullDuplex() error {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return errClosed
	}
	return http.NewResponseController(rw.x.client.w).EnableFullDuplex()
}

// WriteHeader implements http.ResponseWriter.
func (rw *responseWriter) WriteHeader(status int) {
	rw.mu.Lock()
	defer rw.unlock()
	switch {
	case rw.closed || rw.x.answer != nil:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		head.Inform(rw.x.client.w, rw.x.client.r.ProtoMajor, status, rw.x.header)
	default:
		rw.decide(status)
	}
}

// decide decides what the answer is.
func (rw *responseWriter) decide(status int) {
	c := &rw.x.client
	c.status, c.late = int32(status), c.gone()
	rw.body.Decided()
	head.Copy(c.w.Header(), rw.x.header)
	rw.x.recordCompletedHeader()
	if rw.timeouts != nil {
		rw.timeouts.Apply()
	}
	rw.x.answer = rw.x.choose(status)
	rw.x.answer.begin()
	rw.watch()
}

// started returns the answer, nil if it has ended. One that the handler gives no
// status begins with a good one.
func (rw *responseWriter) started() answer {
	if rw.closed {
		return nil
	}
	if rw.x.answer == nil {
		rw.decide(http.StatusOK)
	}
	return rw.x.answer
}

// Write implements http.ResponseWriter.
func (rw *responseWriter) Write(b []byte) (int, error) {
	passes, n, err := rw.writeLocked(b)
	if passes {
		return passing{&rw.x}.write(b)
	}
	return n, err
}

// writeLocked writes b, unless the answer passes.
func (rw *responseWriter) writeLocked(b []byte) (passes bool, n int, err error) {
	rw.mu.Lock()
	defer rw.unlock()
	a := rw.started()
	switch {
	case a == nil:
		return false, 0, errClosed
	case rw.x.passes:
		return true, 0, nil
	}
	before := rw.x.times.Phase
	n, err = a.write(b)
	switch now := rw.x.times.Phase; {
	case rw.drained && now.Stream():
		rw.endNow(rewrite.CauseShutdown)
	case now != before:
		rw.watch()
	}
	return false, n, err
}

// begin begins the answer, if it has not begun, and reports whether it passes.
func (rw *responseWriter) begin() (passes bool) {
	rw.mu.Lock()
	defer rw.unlock()
	return rw.started() != nil && rw.x.passes
}

// ReadFrom keeps io.Copy from going past Write: the method of an embedded
// writer would (TestReadFromIsRepaired).
func (rw *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	if rw.begin() {
		return io.Copy(rw.x.client.w, r)
	}
	return io.Copy(struct{ io.Writer }{rw}, r)
}

// FlushError implements the flushing of http.ResponseController.
func (rw *responseWriter) FlushError() error {
	if rw.x.flushed.Load() { // as of almost all: it is asked with each chunk
		return nil
	}
	if rw.begin() {
		return passing{&rw.x}.flush()
	}
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return nil
	}
	return rw.x.answer.flush()
}
