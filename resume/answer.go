package resume

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// An answer is the http.ResponseWriter of a call of next, and for its goroutine alone. The final
// status decides whether the answer goes into a log or to the first client.
type answer struct {
	o      *Options
	life   *life
	ctx    context.Context
	entry  entry // a split changes it
	log    log.Writer
	logErr error  // an error of the log
	at     string // the address of the stream
	sdk    bool   // an SDK has sent the request

	kind   kind
	client http.ResponseWriter // of an answer that passes
	header http.Header         // next's own
	before http.Header         // a copy of header from the beginning
	kept   http.Header         // the header of the answer, for the log
	opened chan<- opening
	begun  bool // the log has begun

	events  numbers
	name    *responseName // nil for other answers than responses
	unsplit func()        // gives up the prepared split; nil if there is none
	torn    bool          // upstream's stream has broken off, and may be asked for again
	body    *body         // nil for an event stream
}

// opening is what the first client learns of an answer when its log begins.
type opening struct {
	own     http.Header // the fields that only the first client gets
	early   bool        // the header was flushed before any byte
	flushed func() bool // whether a body was flushed
}

// numbers are the numbered events of an answer.
type numbers struct {
	number *numberer
	before uint64 // how many are in the logs before a split
	split  bool   // there are logs before
	out    []byte // a buffer for the output of number
	ends   []int  // a buffer for the ends in out
}

func numbersOf(e entry) numbers { return numbers{number: numbererOf(e)} }

// all returns how many events there have been.
func (n *numbers) all() uint64 { return n.before + n.number.last }

// goOn makes the next events those of the log of e.
func (n *numbers) goOn(e entry) {
	n.before, n.split, n.number = n.all(), true, numbererOf(e)
}

// next returns p with ids and where events end in it, valid until the next call.
func (n *numbers) next(p []byte) (b []byte, ends []int) {
	b = slices.Grow(n.out[:0], len(p)+len("id: /18446744073709551615\n")+len(n.number.id))
	b, ends = n.number.add(b, n.ends[:0], p)
	if cap(b) <= atOnce { // a large one would stay for as long as the stream
		n.out, n.ends = b, ends
	}
	return b, ends
}

// end ends the answer. client is nil if the first client has left. why says why the run was
// cancelled, and failed that next has returned an error or panicked.
func (a *answer) end(client http.ResponseWriter, why log.Reason, failed bool) {
	switch a.kind {
	case kindUnknown:
		if client != nil {
			head.Copy(client.Header(), a.header) // for the handler in front that answers instead
		}
		a.log.End(log.Dropped)
	case kindPasses:
		head.CopyTrailers(a.client.Header(), a.header)
	case kindBody:
		_ = a.body.Flush() // logErr keeps the error
		a.begin(false)     // the body may be empty
		if a.logErr == nil && why == log.ReasonNone && !failed {
			a.log.End(log.Whole)
			return
		}
		a.log.End(log.Broken)
		_ = a.o.Store.Delete(context.Background(), a.entry.ID) // frees the key
	case kindStream:
		a.begin(false)
		how := log.Broken
		switch cancelled := why != log.ReasonNone; {
		case a.logErr != nil, a.torn, cancelled && a.mayAskAgain(why):
		case cancelled:
			var p log.Part
			p, how, a.logErr = finish(a.entry, a.events.number.last, why, rest(a.ctx, a.o.Store, a.entry.ID))
			if how == log.Whole {
				if a.logErr = a.log.Append(a.ctx, p); a.logErr != nil {
					how = log.Broken
				}
			}
		case !failed:
			how = log.Whole
		}
		a.log.End(how)
		fails := how == log.Broken || why != log.ReasonNone
		nothing := fails && (a.events.number.last == 0 && !a.events.split || a.entry.Once) // no client wants this answer again
		if nothing || how == log.Broken && a.mayAskAgain(why) {
			_ = a.o.Store.Delete(context.Background(), a.entry.ID) // frees the key; the run is over
		}
	}
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	switch {
	case a.kind != kindUnknown:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		a.life.inform(status, a.header)
	default:
		a.decide(a.kindOf(status))
		switch a.kind {
		case kindPasses:
			a.client.WriteHeader(status)
		case kindBody:
			a.body = newBody(a, status)
			fallthrough
		case kindStream:
			a.kept = changes(a.header, a.before) // trailers may be set before the log begins
		}
	}
}

// kindOf returns the kind of an answer with the status, as if the first client were there.
func (a *answer) kindOf(status int) kind {
	is := kindPasses
	switch {
	case status == http.StatusOK && head.MediaType(a.header) == "text/event-stream" && !head.IsEncoded(a.header):
		is = kindStream
	case a.sdk && status >= 200 && status < 300:
		is = kindBody
	}
	if is != kindPasses && log.HeaderSize(a.header)+len(a.at) > maxKeptHeader {
		return kindPasses
	}
	return is
}

// The errors that next gets if it cannot write.
var (
	errLeft     = errors.New("the client has left, and the answer is not an event stream")
	errNoHijack = errors.New("a connection cannot be hijacked after its answer has begun")
)

// decide decides what the answer is. One that passes goes to the first client, or to none if the
// client has left.
func (a *answer) decide(is kind) {
	a.kind, a.client = a.life.decide(is)
	switch a.kind {
	case kindPasses:
		head.Copy(a.client.Header(), a.header)
		a.log.End(log.Dropped)
	case kindUnwanted:
		a.log.End(log.Dropped)
		a.life.abort(errLeft)
	}
}

// begin begins the log, if it has not begun. early says that the header is flushed before any byte.
func (a *answer) begin(early bool) {
	if a.begun {
		return
	}
	a.begun = true
	h := a.kept
	own := make(http.Header)
	for _, name := range []string{"Trailer", "Set-Cookie"} {
		if h[name] != nil {
			own[name] = h[name]
		}
	}
	head.DropTrailers(h)
	delete(h, "Set-Cookie")
	if a.kind == kindStream {
		head.DropOfBody(h)
		if !a.entry.Plain {
			h[StreamHeader] = []string{a.entry.ID}
			h["Content-Location"] = []string{a.at}
		}
	}
	part, flushed := log.Part{Header: h}, func() bool { return false }
	if a.body != nil {
		part.Status, flushed = a.body.status, a.body.flushed.Load
	}
	a.opened <- opening{own, early, flushed}
	a.logErr = a.log.Append(a.ctx, part)
}

// changes returns the fields that next has set in its header, and nil for each field that it has
// deleted. It leaves out the fields that are as they were before.
func changes(next, before http.Header) http.Header {
	h := maps.Clone(next)
	for name, was := range before {
		switch values, ok := next[name]; {
		case !ok:
			h[name] = nil
		case slices.Equal(values, was):
			delete(h, name)
		}
	}
	return h
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	switch a.kind {
	case kindPasses:
		return a.client.Write(p)
	case kindUnwanted:
		return 0, errLeft
	case kindBody:
		return a.body.Write(p)
	}
	a.begin(false)
	if a.torn = a.torn || a.isTorn(p); a.torn {
		return len(p), nil
	}
	if a.logErr == nil {
		a.name.look(a.ctx, a.o, a.entry, p) // before a client can know the id
		b, ends := a.events.next(p)
		if a.entry.Plain && len(ends) > 0 {
			a.life.goOn()
		}
		a.logErr = a.log.Append(a.ctx, log.Part{Data: b, Ends: ends})
	}
	if a.logErr != nil {
		return 0, a.logErr
	}
	return len(p), nil
}

// FlushError implements the flushing of http.ResponseController. Readers of a log are sent all that
// is appended to it at once.
func (a *answer) FlushError() error {
	a.WriteHeader(http.StatusOK)
	switch a.kind {
	case kindPasses:
		return http.NewResponseController(a.client).Flush()
	case kindBody:
		a.body.flushed.Store(true)
		if a.body.Buffered() == 0 {
			a.begin(true)
		}
		return a.body.Flush()
	case kindStream:
		a.begin(true)
	}
	return nil
}

func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if a.kind == kindUnknown {
		a.decide(kindPasses)
	}
	if a.kind != kindPasses {
		return nil, nil, errNoHijack
	}
	return http.NewResponseController(a.client).Hijack()
}

// SetWriteDeadline implements the deadline of http.ResponseController. It does nothing for a log.
func (a *answer) SetWriteDeadline(t time.Time) error {
	if a.kind == kindPasses {
		return http.NewResponseController(a.client).SetWriteDeadline(t)
	}
	return nil
}

// SetReadDeadline and EnableFullDuplex do nothing: the request has been read.

func (a *answer) SetReadDeadline(time.Time) error { return nil }
func (a *answer) EnableFullDuplex() error         { return nil }

// Sizes of the body of an answer for an SDK. A failure is not kept: an SDK repeats the request to get
// another answer.
const (
	// bodyBuffer is how many bytes of a body are collected for the log. net/http, which decides by
	// the size of its own buffer whether an answer has a length, decides as without a log.
	bodyBuffer = 4 << 10
	// bodyPiece is how many bytes of a body are deleted at once if its log grows too large.
	bodyPiece = 8 << 10
)

// body writes an answer that is no event stream to a log, byte for byte.
type body struct {
	*bufio.Writer
	status  int
	flushed atomic.Bool
}

func newBody(a *answer, status int) *body {
	return &body{Writer: bufio.NewWriterSize(bodyLog{a}, bodyBuffer), status: status}
}

// bodyLog writes pieces of a body to the log of an answer.
type bodyLog struct{ a *answer }

func (b bodyLog) Write(p []byte) (int, error) {
	a := b.a
	a.begin(false)
	var ends []int
	for at := bodyPiece; at < len(p); at += bodyPiece {
		ends = append(ends, at)
	}
	if a.logErr == nil {
		a.logErr = a.log.Append(a.ctx, log.Part{Data: p, Ends: append(ends, len(p))})
	}
	if a.logErr != nil {
		return 0, a.logErr
	}
	return len(p), nil
}

// mayAskAgain reports whether a run that is cut short leaves the rest to another run: upstream
// repeats events, or the run was cancelled without a client that needs an end. why says why it was cancelled.
func (a *answer) mayAskAgain(why log.Reason) bool {
	return a.entry.Plain && (a.events.number.kept || why == log.ReasonLeft || why == log.ReasonMemory)
}

// repeats reports whether upstream may be asked for events again: it repeats them, or there was
// none.
func (a *answer) repeats() bool {
	number := a.events.number
	return a.entry.Plain && a.kind == kindStream && (number.kept || number.last == 0)
}

// isTorn reports whether b ends as package proxy ends events of a run that break off (contract
// section 6), and upstream can be asked for the rest.
func (a *answer) isTorn(b []byte) bool {
	if !a.repeats() || !bytes.Contains(b, []byte(`"event": "run.failed"`)) {
		return false
	}
	for _, cause := range []rewrite.Cause{rewrite.CauseEOF, rewrite.CauseAborted, rewrite.CauseTimeout, rewrite.CauseShutdown} {
		if quoted, err := json.Marshal(rewrite.Message(cause.Code())); err == nil && bytes.Contains(b, append([]byte(`, "error": `), quoted...)) {
			return true
		}
	}
	return false
}
