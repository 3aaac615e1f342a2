package resume

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/head"
)

// writer is what next writes to. What it is for, is decided at the final status. It is
// used by next alone, which writes from one goroutine at a time; direct has a lock. What a
// chunk needs comes first, and lies together.
type writer struct {
	run    *run
	kind   kind
	begun  bool  // the log has
	early  bool  // its header left before any byte
	err    error // of the log
	number numberer
	direct direct

	client http.ResponseWriter // of an answer that passes
	header http.Header         // next's own
	before http.Header         // what was in it at the beginning

	// What the first client alone gets of the header of a stream, nil for none.
	trailer []string // the trailers that it announces
	cookies []string
}

// room is what a piece is numbered in. Runs share a few, so that what one has just used
// is still in the cache for the next.
type room struct {
	out  []byte
	ends []int
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// maxRoom is the size in bytes up to which room is used again.
const maxRoom = 64 << 10

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
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	switch {
	case w.kind != kindUnknown:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		w.run.inform(status, w.header)
	default:
		w.decide(status)
	}
}

// decide decides what the answer is.
func (w *writer) decide(status int) {
	stream := status == http.StatusOK && head.MediaType(w.header) == "text/event-stream" && !head.IsEncoded(w.header) &&
		sizeOf(w.header) <= maxKeptHeader
	w.kind, w.client = w.run.decide(stream)
	switch w.kind {
	case kindPasses:
		head.Copy(w.client.Header(), w.header)
		w.client.WriteHeader(status)
		w.run.log.Drop()
	case kindNobody:
		w.run.log.Drop()
		w.run.cancel(errLeft)
	}
}

// begin begins the log, if it has not begun.
func (w *writer) begin() {
	if w.begun || w.err != nil {
		return
	}
	w.begun = true
	h := headerOf(w.header, w.before)
	head.DropOfBody(h)
	head.DropTrailers(h)
	w.trailer = w.header["Trailer"]
	w.cookies = h["Set-Cookie"]
	delete(h, "Set-Cookie")
	h[StreamHeader] = []string{w.run.entry.ID}
	w.err = w.run.log.Begin(h)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if w.kind == kindUnknown {
		w.decide(http.StatusOK)
	}
	switch {
	case w.kind == kindPasses:
		return w.client.Write(p)
	case w.kind == kindNobody:
		return 0, errLeft
	}
	w.begin()
	if w.err == nil {
		w.append(p)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// append appends p to the log. If the write to the client fails, nobody else gets the room:
// a server of HTTP/2 may still be sending it (net/http: h2_bundle.go:5149). A client that has
// left before is sent nothing.
func (w *writer) append(p []byte) {
	r := rooms.Get().(*room)
	r.out, r.ends = w.number.add(r.out[:0], r.ends[:0], p)
	before := w.direct.err
	w.err = w.direct.write(r.out, r.ends)
	if w.direct.err == before && cap(r.out) <= maxRoom && cap(r.ends) <= maxRoom/8 {
		rooms.Put(r)
	}
}

// FlushError implements the flushing of http.ResponseController. A log is flushed with
// all that is appended to it.
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.kind == kindPasses:
		return http.NewResponseController(w.client).Flush()
	case w.kind == kindStream && !w.begun:
		w.early = true
		w.begin()
	}
	return nil
}

// end ends the answer after next has returned.
func (w *writer) end(why Reason) {
	x := w.run
	switch w.kind {
	case kindUnknown:
		x.mu.Lock()
		if x.client != nil {
			head.Copy(x.client.Header(), w.header) // for whoever answers
		}
		x.mu.Unlock()
		x.log.Drop()
	case kindPasses:
		head.CopyTrailers(w.client.Header(), w.header)
	case kindStream:
		w.begin()
		x.out.direct.off(true)
		x.out.direct.end()
		whole := why == ReasonNone && x.err == nil && x.panicked == nil && w.err == nil
		if why == ReasonNone || w.err != nil {
			x.log.End(whole)
		} else if err := Abandon(x.log, why, x.p.o.Clock.Now()); err != nil {
			w.err = err
		}
		if !whole && x.log.Events() == 0 { // it has failed: nobody would get anything
			_ = x.log.Cancel(context.Background()) // frees the key; the run is over
		}
	}
}

// Hijack implements http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.kind == kindUnknown {
		w.kind, w.client = w.run.decide(false)
		w.run.log.Drop()
	}
	if w.kind != kindPasses {
		return nil, nil, errNoHijack
	}
	head.Copy(w.client.Header(), w.header)
	return http.NewResponseController(w.client).Hijack()
}

// SetReadDeadline implements the deadline of http.ResponseController. The request has
// been read.
func (w *writer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements the deadline of http.ResponseController. A log is written
// at once.
func (w *writer) SetWriteDeadline(t time.Time) error {
	if w.kind == kindPasses {
		return http.NewResponseController(w.client).SetWriteDeadline(t)
	}
	return nil
}

// EnableFullDuplex implements the same of http.ResponseController. The request has been
// read.
func (w *writer) EnableFullDuplex() error { return nil }

// inform sends an informational answer to the first client, if that is there. One that does
// not read is interrupted, and holds up nobody who takes x.mu.
func (x *run) inform(status int, header http.Header) {
	x.informing.Lock()
	defer x.informing.Unlock()
	x.mu.Lock()
	w, interrupt := x.client, x.interrupt
	x.mu.Unlock()
	if w == nil {
		return
	}
	stuck := time.AfterFunc(stuckAfter, interrupt)
	defer stuck.Stop()
	head.Inform(w, x.version, status, header)
}
