package resume

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A Next is the handler that Serve calls for answers. It may return an error.
type Next func(http.ResponseWriter, *http.Request) error

// A run is a call of the next handler, in a goroutine of its own, and the http.ResponseWriter
// of that call. The final status decides whether the answer goes into a log or to the first
// client.
//
// A run counts the clients that read the answer, and is cancelled if there is none for too long.
// The first client counts separately until leave, and alone gets an answer that is no event stream.
type run struct {
	o       *Options
	entry   entry // a split writes it with mu held, so that goroutines other than that of next may read it
	ctx     context.Context
	abort   context.CancelCauseFunc
	log     log.Writer
	detach  time.Duration // how long it goes on without a client; guarded by mu
	version int           // major version of the first client's HTTP
	sdk     bool          // an SDK has sent the request
	wants   bool          // an answer is useful without the first client
	seen    seen          // the last event of a plain log that the first client has
	at      string        // the address of the stream
	// background says that the request asks for a run that goes on without a client, and gets it.
	background bool

	informing sync.Mutex // held while an informational answer is sent; taken before mu
	informed  int        // bytes of informational answers so far

	mu          sync.Mutex          // may be taken while a store's lock is held, never the other way round
	client      http.ResponseWriter // the first client's, nil if it has left or there is none
	goesOn      bool                // goes on without a client for any time: see events.go
	kind        kind
	over        bool // next has returned
	reason      log.Reason
	readers     int
	detached    bool        // it goes on without a client
	since       time.Time   // when the last client left
	until       time.Time   // when it is cancelled if no client has come back
	timer       *time.Timer // calls expire at until; nil if never set
	part        int         // how many times it has been split
	restReaders int         // readers of the log that follows the next split
	held        time.Time   // it may go on without a client until then, and for detach after that
	reserved    bool        // see reserve
	awaits      bool        // it counts as one that awaits a client

	detachRest   time.Duration // detach after a split
	split        *Split        // the prepared split, for the goroutine of next
	eventsBefore uint64        // how many are in the logs before this one

	// For the goroutine of next, and for that of the first client after done is closed or after it
	// has read the header from the log.
	header   http.Header // next's own
	before   http.Header // a copy of header from the beginning
	kept     http.Header // the header of the answer, for the log
	own      http.Header // the fields that only the first client gets
	number   *numberer
	out      []byte        // a buffer for the output of number
	ends     []int         // a buffer for the ends in out
	name     *responseName // nil for other answers than responses
	begun    bool          // the log has begun
	early    bool          // the header was flushed before any byte
	torn     bool          // upstream's stream has broken off, and may be asked for again
	status   int           // the status of a body; 0 for an event stream
	body     *bufio.Writer
	flushed  atomic.Bool // the body was flushed; the first client's goroutine reads it
	logErr   error       // an error of the log
	ended    Ended
	panicked any    // the panic of next, as panics.Catch returns it
	returned func() // see Options.Detached
	done     chan struct{}
}

// newRun returns a run for the request r of the first client. If there is no client, w is nil.
func newRun(o *Options, e entry, a asked, w http.ResponseWriter, r *http.Request, body []byte) *run {
	x := &run{
		o: o, detach: a.detach, detachRest: max(a.detach, a.detachRest), version: r.ProtoMajor, sdk: a.sdk, wants: a.sdk || asksForStream(r, body), client: w,
		entry: e, done: make(chan struct{}), number: numbererOf(e), header: make(http.Header),
		at: location(o, r, e.ID),
	}
	if w != nil {
		x.header, x.before = w.Header().Clone(), w.Header().Clone()
	}
	if rewrite.IsResponsesPath(r.URL.Path) {
		x.name, x.background = newResponseName(), a.background && a.detach > 0
	}
	ctx := context.WithValue(context.WithoutCancel(r.Context()), runKey{}, x)
	x.ctx, x.abort = context.WithCancelCause(ctx)
	return x
}

// start calls next for a clone of r.
func (x *run) start(r *http.Request, body []byte, next Next) {
	up := r.Clone(x.ctx)
	giveBody(up, body)
	up, x.returned = x.o.Detached(up, x)
	x.call(up, next)
}

// call starts a goroutine that calls next for up, a request of the run alone.
func (x *run) call(up *http.Request, next Next) {
	x.o.Runs.add(x)
	go func() {
		defer func() { // also if next ends the goroutine
			x.end(up)
			close(x.done)
		}()
		// A panic that leaves the goroutine would end the process.
		x.panicked = panics.Catch(func() { x.ended.Err = next(x, up) })
	}()
}

// end ends the run after next has returned or panicked.
func (x *run) end(r *http.Request) {
	x.mu.Lock()
	x.over = true
	client, e := x.client, Ended{Stream: x.kind == kindStream, Reason: x.reason, Detach: x.detach, Err: x.ended.Err}
	x.unreserveLocked() // for a split that has not been done
	if x.detached {
		e.Detached = time.Since(x.since)
		x.attach()
	}
	x.mu.Unlock()
	x.ended = e
	if v := panics.Catch(func() {
		defer x.endAnswer(client)
		x.split.Release()
		x.name.end()
	}); x.panicked == nil {
		x.panicked = v
	}
	inLog := e.Stream || x.kind == kindBody
	raises := client != nil && !(inLog && e.Reason != log.ReasonNone) // see attend
	if late, ok := x.panicked.(*panics.Late); ok && !raises || errors.As(x.logErr, &late) {
		e.Panicked = late
	}
	e.Events = x.eventsBefore + x.number.last
	x.abort(nil)
	x.o.Runs.remove(x)
	if e.Reason != log.ReasonNone {
		x.o.Runs.count(func(s *Stats) { s.TotalCancelled[e.Reason]++ })
	}
	x.o.Ended(r, e)
}

// endAnswer ends the answer. client is nil if the first client has left.
func (x *run) endAnswer(client http.ResponseWriter) {
	switch x.kind {
	case kindUnknown:
		if client != nil {
			head.Copy(client.Header(), x.header) // for the handler in front that answers instead
		}
		x.log.End(log.Dropped)
	case kindPasses:
		head.CopyTrailers(x.client.Header(), x.header)
	case kindBody:
		_ = x.body.Flush() // logErr keeps the error
		x.begin()          // the body may be empty
		if x.logErr == nil && x.ended.Reason == log.ReasonNone && x.ended.Err == nil && x.panicked == nil {
			x.log.End(log.Whole)
			return
		}
		x.log.End(log.Broken)
		_ = x.o.Store.Delete(context.Background(), x.entry.ID) // frees the key
	case kindStream:
		x.begin()
		how := log.Broken
		switch cancelled := x.ended.Reason != log.ReasonNone; {
		case x.logErr != nil, x.torn, cancelled && x.mayAskAgain():
		case cancelled:
			var p log.Part
			p, how, x.logErr = finish(x.entry, x.number.last, x.ended.Reason, rest(x.ctx, x.o.Store, x.entry.ID))
			if how == log.Whole {
				if x.logErr = x.log.Append(x.ctx, p); x.logErr != nil {
					how = log.Broken
				}
			}
		case x.ended.Err == nil && x.panicked == nil:
			how = log.Whole
		}
		x.log.End(how)
		fails := how == log.Broken || x.ended.Reason != log.ReasonNone
		nothing := fails && (x.number.last == 0 && x.part == 0 || x.entry.Once) // no client wants this answer again
		if nothing || how == log.Broken && x.mayAskAgain() {
			_ = x.o.Store.Delete(context.Background(), x.entry.ID) // frees the key; the run is over
		}
	}
}

func (x *run) Header() http.Header { return x.header }

func (x *run) WriteHeader(status int) {
	switch {
	case x.kind != kindUnknown:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		x.inform(status, x.header)
	default:
		x.decide(x.kindOf(status))
		switch x.kind {
		case kindPasses:
			x.client.WriteHeader(status)
		case kindBody:
			x.status, x.body = status, newBody(x)
			fallthrough
		case kindStream:
			x.kept = changes(x.header, x.before) // trailers may come before the log begins
		}
	}
}

// kindOf returns the kind of an answer with the status, as if the first client were there.
func (x *run) kindOf(status int) kind {
	is := kindPasses
	switch {
	case status == http.StatusOK && head.MediaType(x.header) == "text/event-stream" && !head.IsEncoded(x.header):
		is = kindStream
	case x.isBody(status):
		is = kindBody
	}
	if is != kindPasses && log.HeaderSize(x.header)+len(x.at) > maxKeptHeader {
		return kindPasses
	}
	return is
}

// maxKeptHeader is the size in bytes above which a header, and so its answer, is not kept. It is
// the size of the header in memory, which is many times its length if it has many fields.
const maxKeptHeader = 16 << 10

// The errors that next gets if it cannot write.
var (
	errLeft     = errors.New("the client has left, and the answer is no event stream")
	errNoHijack = errors.New("the connection of an answer that has begun cannot be taken over")
)

// decide records which kind the answer is. An answer that passes goes to the first client, which
// waits, or to none if the client has left.
func (x *run) decide(is kind) {
	x.mu.Lock()
	if is == kindPasses && x.client == nil {
		is = kindUnwanted
	}
	x.kind = is
	x.mu.Unlock()
	switch x.kind {
	case kindPasses:
		head.Copy(x.client.Header(), x.header)
		x.log.End(log.Dropped)
	case kindUnwanted:
		x.log.End(log.Dropped)
		x.abort(errLeft)
	}
}

// begin begins the log, if it has not begun.
func (x *run) begin() {
	if x.begun {
		return
	}
	x.begun = true
	h := x.kept
	x.own = make(http.Header)
	for _, name := range []string{"Trailer", "Set-Cookie"} {
		if h[name] != nil {
			x.own[name] = h[name]
		}
	}
	head.DropTrailers(h)
	delete(h, "Set-Cookie")
	if x.kind == kindStream {
		head.DropOfBody(h)
		if !x.entry.Plain {
			h[StreamHeader] = []string{x.entry.ID}
			h["Content-Location"] = []string{x.at}
		}
	}
	x.logErr = x.log.Append(x.ctx, log.Part{Header: h, Status: x.status})
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

func (x *run) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	switch x.kind {
	case kindPasses:
		return x.client.Write(p)
	case kindUnwanted:
		return 0, errLeft
	case kindBody:
		return x.body.Write(p)
	}
	x.begin()
	if x.torn = x.torn || x.isTorn(p); x.torn {
		return len(p), nil
	}
	if x.logErr == nil {
		x.name.look(x, p) // before a client can know the id
		b := slices.Grow(x.out[:0], len(p)+len("id: /18446744073709551615\n")+len(x.entry.ID))
		b, ends := x.number.add(b, x.ends[:0], p)
		if x.entry.Plain && len(ends) > 0 {
			x.goOn()
		}
		x.logErr = x.log.Append(x.ctx, log.Part{Data: b, Ends: ends})
		if cap(b) <= atOnce { // a large one would stay for as long as the stream
			x.out, x.ends = b, ends
		}
	}
	if x.logErr != nil {
		return 0, x.logErr
	}
	return len(p), nil
}

// FlushError implements the flushing of http.ResponseController. Readers of a log are sent all that
// is appended to it at once.
func (x *run) FlushError() error {
	x.WriteHeader(http.StatusOK)
	switch {
	case x.kind == kindPasses:
		return http.NewResponseController(x.client).Flush()
	case x.kind == kindBody:
		x.flushed.Store(true)
		if !x.begun && x.body.Buffered() == 0 {
			x.early = true
			x.begin()
		}
		return x.body.Flush()
	case x.kind == kindStream && !x.begun:
		x.early = true
		x.begin()
	}
	return nil
}

func (x *run) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if x.kind == kindUnknown {
		x.decide(kindPasses)
	}
	if x.kind != kindPasses {
		return nil, nil, errNoHijack
	}
	return http.NewResponseController(x.client).Hijack()
}

// SetWriteDeadline implements the deadline of http.ResponseController. It does nothing for a log.
func (x *run) SetWriteDeadline(t time.Time) error {
	if x.kind == kindPasses {
		return http.NewResponseController(x.client).SetWriteDeadline(t)
	}
	return nil
}

// SetReadDeadline and EnableFullDuplex do nothing: the request has been read.

func (x *run) SetReadDeadline(time.Time) error { return nil }
func (x *run) EnableFullDuplex() error         { return nil }
