package resume

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
)

// answer is the http.ResponseWriter of a run. The final status decides what it is. It is used
// by next alone, which writes from one goroutine at a time.
type answer struct {
	run    *run
	kind   kind
	begun  bool  // the log has
	early  bool  // its header left before any byte
	err    error // of the log
	number *numberer

	client http.ResponseWriter // of an answer that passes
	header http.Header         // next's own
	before http.Header         // what was in it at the beginning

	// What only the first client gets of the header of a stream, nil for none.
	trailer []string // the trailers that it announces
	cookies []string
}

// maxKeptHeader is the size in bytes above which a header is not kept, and so neither is the
// answer. It is that of the header in memory, which is many times its length if it has many
// fields.
const maxKeptHeader = 16 << 10

// Why next cannot write.
var (
	errLeft     = errors.New("the client has left, and the answer is no event stream")
	errNoHijack = errors.New("the connection of an answer that has begun cannot be taken over")
)

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	switch {
	case a.kind != kindUnknown:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		a.run.inform(status, a.header)
	default:
		a.decide(status)
	}
}

// decide decides what the answer is.
func (a *answer) decide(status int) {
	stream := status == http.StatusOK && head.MediaType(a.header) == "text/event-stream" && !head.IsEncoded(a.header) &&
		sizeOf(a.header) <= maxKeptHeader
	a.kind, a.client = a.run.decide(stream)
	switch a.kind {
	case kindPasses:
		head.Copy(a.client.Header(), a.header)
		a.client.WriteHeader(status)
		a.run.w.End(Dropped)
	case kindUnwanted:
		a.run.w.End(Dropped)
		a.run.cancel(errLeft)
	}
}

// begin begins the log, if it has not begun.
func (a *answer) begin() {
	if a.begun || a.err != nil {
		return
	}
	a.begun = true
	h := headerOf(a.header, a.before)
	head.DropOfBody(h)
	head.DropTrailers(h)
	a.trailer = a.header["Trailer"]
	a.cookies = h["Set-Cookie"]
	delete(h, "Set-Cookie")
	h[StreamHeader] = []string{a.run.entry.ID}
	a.err = a.run.w.Append(a.run.ctx, Part{Header: h})
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.kind == kindUnknown {
		a.decide(http.StatusOK)
	}
	switch {
	case a.kind == kindPasses:
		return a.client.Write(p)
	case a.kind == kindUnwanted:
		return 0, errLeft
	}
	a.begin()
	if a.err == nil {
		b, ends := a.number.add(make([]byte, 0, len(p)+len("id: /18446744073709551615\n")+len(a.number.id)), nil, p)
		a.err = a.run.w.Append(a.run.ctx, Part{Data: b, Ends: ends})
	}
	if a.err != nil {
		return 0, a.err
	}
	return len(p), nil
}

// FlushError implements the flushing of http.ResponseController. A log is flushed with
// all that is appended to it.
func (a *answer) FlushError() error {
	a.WriteHeader(http.StatusOK)
	switch {
	case a.kind == kindPasses:
		return http.NewResponseController(a.client).Flush()
	case a.kind == kindStream && !a.begun:
		a.early = true
		a.begin()
	}
	return nil
}

// end ends the answer after next has returned.
func (a *answer) end(why Reason) {
	x := a.run
	switch a.kind {
	case kindUnknown:
		x.mu.Lock()
		if x.client != nil {
			head.Copy(x.client.Header(), a.header) // for the handler that answers
		}
		x.mu.Unlock()
		x.w.End(Dropped)
	case kindPasses:
		head.CopyTrailers(a.client.Header(), a.header)
	case kindStream:
		a.begin()
		whole := why == ReasonNone && x.err == nil && x.panicked == nil && a.err == nil
		switch {
		case whole:
			x.w.End(Whole)
		case why == ReasonNone || a.err != nil:
			x.w.End(Broken)
		default:
			a.err = x.abandon(a.number.last, why)
		}
		if !whole && a.number.last == 0 { // it has failed: there is nothing to repeat
			_ = x.p.o.Store.Delete(context.Background(), x.entry.ID) // frees the key; the run is over
		}
	}
}

// Hijack implements http.Hijacker.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if a.kind == kindUnknown {
		a.kind, a.client = a.run.decide(false)
		a.run.w.End(Dropped)
	}
	if a.kind != kindPasses {
		return nil, nil, errNoHijack
	}
	head.Copy(a.client.Header(), a.header)
	return http.NewResponseController(a.client).Hijack()
}

// SetReadDeadline implements the deadline of http.ResponseController. The request has
// been read.
func (a *answer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements the deadline of http.ResponseController. A log is written
// at once.
func (a *answer) SetWriteDeadline(t time.Time) error {
	if a.kind == kindPasses {
		return http.NewResponseController(a.client).SetWriteDeadline(t)
	}
	return nil
}

// EnableFullDuplex implements the same of http.ResponseController. The request has been
// read.
func (a *answer) EnableFullDuplex() error { return nil }
