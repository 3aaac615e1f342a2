package proxy

import (
	"bufio"
	"errors"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// errClosed is returned to a handler that writes to an answer that has been ended.
var errClosed = errors.New("the stream has been ended")

// Header implements http.ResponseWriter. The handler has a map of its own
// (contract section 7): net/http lets it write to its map at any time, for
// trailers, while a timer's write reads that of the inner writer, and a map that
// is written to while it is read ends the process. No timer looks at this one.
func (x *exchange) Header() http.Header { return x.header }

// Unwrap lets http.ResponseController find what an exchange does not implement: the
// deadline of the request's body, which no write looks at.
func (x *exchange) Unwrap() http.ResponseWriter { return x.client.w }

// Hijack implements http.Hijacker. A connection that has been handed over is out of our
// hands; httputil.ReverseProxy takes it before it says 101.
func (x *exchange) Hijack() (conn net.Conn, buffered *bufio.ReadWriter, err error) {
	err = x.control(func(c *http.ResponseController) error {
		if x.begun() && x.answer == nil {
			return http.ErrNotSupported // the client has the header of a stream
		}
		head.Copy(x.client.w.Header(), x.header)
		if conn, buffered, err = c.Hijack(); err != nil {
			return err
		}
		x.client.committed = true
		if x.answer == nil {
			x.pass(false)
		}
		x.times.phase = phaseFree
		x.watch()
		x.body.Decided()
		return nil
	})
	return conn, buffered, err
}

// SetWriteDeadline is for http.ResponseController. It takes the lock, because the inner writer may
// keep t in a field of its own (Caddy: idletimeout.go:435), which a timer's write reads.
func (x *exchange) SetWriteDeadline(t time.Time) error {
	return x.control(func(c *http.ResponseController) error {
		err := c.SetWriteDeadline(t)
		if err == nil {
			x.client.deadline = t
		}
		return err
	})
}

// EnableFullDuplex is for http.ResponseController. It takes the lock, because net/http reads the
// setting as the header leaves.
func (x *exchange) EnableFullDuplex() error {
	return x.control((*http.ResponseController).EnableFullDuplex)
}

// control calls f with the controller of the inner writer, unless the answer has ended.
func (x *exchange) control(f func(*http.ResponseController) error) error {
	x.mu.Lock()
	defer x.unlock()
	if x.closed {
		return errClosed
	}
	return f(http.NewResponseController(x.client.w))
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	x.mu.Lock()
	defer x.unlock()
	switch {
	case x.closed || x.answer != nil:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		if !x.client.committed {
			h := maps.Clone(x.header)
			x.redactHeader(h)
			head.Inform(x.client.w, x.r.ProtoMajor, status, h)
		}
	default:
		x.accept(status)
	}
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	if p, ok := x.begin().(*passing); ok {
		return p.write(b)
	}
	x.mu.Lock()
	defer x.unlock()
	if x.closed {
		return 0, errClosed
	}
	before := x.times.phase
	n, err := x.answer.write(b)
	switch {
	case x.drainDue() <= x.age(): // the drain was over before the answer was a stream
		x.endNow(rewrite.CauseShutdown)
	case x.times.phase != before:
		x.watch()
	}
	return n, err
}

// FlushError is for http.ResponseController.
func (x *exchange) FlushError() error {
	if p, ok := x.begin().(*passing); ok {
		return p.flush()
	}
	x.mu.Lock()
	defer x.unlock()
	if x.closed {
		return nil
	}
	return x.answer.flush()
}

// begin begins the answer, if it has not begun, with the status 200. It returns the answer, nil if the
// exchange is over. One that passes is written and flushed without the lock.
func (x *exchange) begin() answer {
	x.mu.Lock()
	defer x.unlock()
	if x.closed {
		return nil
	}
	if x.answer == nil {
		x.accept(http.StatusOK)
	}
	return x.answer
}

// accept chooses the answer, and begins it.
func (x *exchange) accept(status int) {
	x.o.Origins.learn(x.r, status, x.header)
	x.late = x.gone()
	x.body.Decided()
	if !x.begun() {
		x.client.status = status
		head.Copy(x.client.w.Header(), x.header)
		x.redactHeader(x.client.w.Header())
	}
	if _, says := x.header[completedHeader]; says && x.chat {
		if usage := x.o.Usage(x.upstream()); usage != nil {
			usage.ReportsFailures(true)
		}
	}
	if x.timeouts.apply != nil {
		x.timeouts.restore = x.timeouts.apply()
	}
	x.choose(status)
	if x.drainDue() <= x.age() && !x.gone() { // a stream has less time than an answer that is not streamed
		x.endNow(rewrite.CauseShutdown)
		return
	}
	x.watch()
}

// choose begins the kind of answer that the status and the header announce (contract section 0).
func (x *exchange) choose(status int) {
	h, media := x.header, head.MediaType(x.header)
	encoded, examined := head.IsEncoded(h), status == http.StatusOK && x.r.Method != http.MethodHead
	switch {
	case examined && media == "text/event-stream" && !encoded:
		s := newStream(x)
		x.answer = s
		s.begin()
		return
	case x.begun():
		x.answer = &report{x: x, status: status}
		return
	case examined && media == "application/json" && rewrite.IsAnswerPath(x.r.URL.Path) && !encoded:
		// An answer that is larger than a frame may be passes unexamined.
		if n, err := strconv.Atoi(h.Get("Content-Length")); err != nil || n <= x.o.Rewrite.FrameLimit() {
			x.answer, x.times.phase = &whole{kept: kept{x: x}}, phaseWhole
			return
		}
	case status >= http.StatusBadRequest && rewrite.BeginsRun(x.r.URL.Path):
		if f := newFailed(x); f != nil {
			x.answer, x.times.phase = f, phaseFree
			return
		}
		x.forbidRepeat()
	}
	x.pass(examined && encoded && media == "text/event-stream")
}
