// Package reqbody reads the body of a request before the request is forwarded, heals the history
// in it (contract section 5), and restores it if the next handler fails. It knows only requests,
// no answers.
//
// A Body that was read whole keeps the original until Decided has been called and upstream has
// begun to read. A body that is not read costs nothing. The memory that a client can make a Body
// allocate is bounded by Plan.Limit, and by eight times the bytes that the client has sent.
package reqbody

import (
	"io"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Body is the body of a request. Prepare must be called first, and once; then any goroutine may
// call Decided, Waited and Err at any time.
//
// A body that was read whole has two readers: one of the healed body, for upstream, and one of the
// original, for the client's request. A handler that uses the client's request (Caddy's placeholder
// of the body, an error route) finds the bytes that it would find without a Proxy. Histories are
// large and answers take long, so bytes are kept only as long as something may read them: once the
// answer is chosen no error route follows, and bytes that have been read are not read again. With
// any other body both requests share one reader.
type Body struct {
	client io.ReadCloser // the body that the client sends
	began  io.ReadCloser // the body that the next handler's request was given
	length int64         // the ContentLength of the next handler's request

	// The mutex is not held while the client is read, nor in ended: that may take as long as the
	// client likes.
	mu       sync.Mutex
	size     int64        // how many bytes the client has announced, -1 for unknown
	came     int64        // how many were read
	ended    func() error // Plan.Ended, nil once it is called
	own      *reader      // of the client's request, nil if that keeps its body
	upstream *reader      // of the next handler's request
	original []byte       // a body that came whole, nil once it is released
	changed  bool         // the next handler's body is not the original
	again    []byte       // the body that Rewind gives, nil if it may not be sent again or the answer is decided
	decided  bool         // Decided was called
	used     bool         // upstream has been read, or closed
	reading  int          // how many reads of the client are under way
	waited   time.Time    // when the last read of the client ended
	err      error        // the error that broke off the client's body
}

// Plan says how a body is treated.
type Plan struct {
	// Heal says that the body is read, and healed if it is a history.
	Heal bool
	// Keep says that a body that is read is not healed.
	Keep bool
	// Limit is the size in bytes above which a body passes untouched, and beyond which no records make it grow.
	Limit int64
	// Tools are the tools whose markers are removed.
	Tools *rewrite.Tools
	// MarkersStay reports whether markers are not removed after all. It is called once the body was
	// read, if there are any. Nil means that they are removed.
	MarkersStay func() bool
	// Secrets returns what the client was given to answer requests for approval; nil means nothing.
	// It is called once the body was read.
	Secrets func() rewrite.Secrets
	// Memory remembers the tools of the client's answers, of which the history gets records. Nil means
	// none.
	Memory rewrite.Memory
	// Results says that records show what tools returned.
	Results bool
	// Edit, if not nil, returns what upstream gets instead of a body that was read whole: body
	// itself, which it must not write to, or a new slice of another length.
	Edit func(body []byte) []byte
	// Timed says that the client is timed while it still sends the body.
	Timed bool
	// Again says that the body may have to be sent again, if it is whole; see Body.Rewind.
	Again bool
	// Ended, if not nil, is called once if the client is still sending the body after Prepare: when
	// its end was read, before upstream can see it, in the goroutine that reads the body. Upstream
	// gets its error in place of the end. It may take its time.
	Ended func() error
}

// Prepare reads the body of the client's request r as plan says, and gives it to up, the request
// of the next handler. A body that is not read, or not to its end, is passed on as it is read.
func (b *Body) Prepare(r, up *http.Request, plan Plan) (healed rewrite.Healed) {
	// Transports look at the type of a body, so it stays as it is if it is neither read nor watched.
	if plan.Heal || (plan.Timed || plan.Ended != nil) && r.Body != nil && r.Body != http.NoBody {
		b.client, b.size, b.ended = r.Body, r.ContentLength, plan.Ended
		b.own = &reader{of: b}
		b.upstream = b.own
		if plan.Heal {
			healed = b.heal(r, up, plan)
		}
		if !b.Pending() {
			b.ended = nil
		}
		r.Body, up.Body = b.own, b.upstream
	}
	b.began, b.length = up.Body, up.ContentLength
	return healed
}

// heal reads the body, and heals it if it is whole.
func (b *Body) heal(r, up *http.Request, plan Plan) rewrite.Healed {
	came, err := Read(&objectReader{Reader: r.Body}, r.ContentLength, plan.Limit)
	b.own.rest, b.own.end, b.came = came, err, int64(len(came))
	switch err {
	case errNoObject: //nolint:errorlint // they are those very values
		b.own.end = nil // the rest was not read yet
	case nil, io.EOF:
	default:
		b.err = err
	}
	// The last read may return io.EOF along with one byte too many.
	whole := err == io.EOF && int64(len(came)) <= plan.Limit //nolint:errorlint // likewise
	if !whole || r.ContentLength >= 0 && r.ContentLength != int64(len(came)) {
		return rewrite.Healed{}
	}
	var given rewrite.Secrets
	if plan.Secrets != nil {
		given = plan.Secrets()
	}
	healing := rewrite.Healing{Tools: plan.Tools, Given: given, Memory: plan.Memory, Results: plan.Results}
	body, healed := healing.Heal(came)
	if healed.Markers > 0 && !plan.Keep && plan.MarkersStay != nil && plan.MarkersStay() {
		healing.KeepMarkers = true
		body, healed = healing.Heal(came)
	}
	if healed.Recalled() > 0 && int64(len(body)) > plan.Limit { // upstream may have the same limit
		turn := healed.Turn
		healing.Memory = nil
		body, healed = healing.Heal(came)
		healed.Turn = turn
	}
	if plan.Keep {
		body, healed = came, rewrite.Healed{Form: healed.Form, Changes: rewrite.Changes{Reply: healed.Reply}}
	}
	changed := healed.Changed()
	if plan.Edit != nil {
		before := len(body)
		body = plan.Edit(body)
		changed = changed || len(body) != before
	}
	b.original = came
	if plan.Again {
		b.again = body
	}
	b.upstream = &reader{of: b, rest: body, end: io.EOF}
	if b.changed = changed; changed {
		fitHeader(up, len(body))
	}
	return healed
}

// Pending reports whether the client is still sending the body.
func (b *Body) Pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own != nil && b.own.end == nil && !b.whole()
}

// whole reports whether as many bytes were read as were announced. b.mu is held.
func (b *Body) whole() bool { return b.size >= 0 && b.came >= b.size }

// fitHeader fits the header of a request to a body that has changed and is n
// bytes long. A body that came without a length leaves without one.
func fitHeader(up *http.Request, n int) {
	if up.ContentLength >= 0 {
		up.ContentLength = int64(n)
		if up.Header.Get("Content-Length") != "" {
			up.Header.Set("Content-Length", strconv.Itoa(n))
		}
	}
	for _, name := range []string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest"} {
		up.Header.Del(name)
	}
}

// Decided releases the bytes that are needed only until the answer is chosen.
func (b *Body) Decided() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decided, b.again = true, nil
	b.release()
}

// Rewind sets the body of up, a new copy of the client's request for the next handler, to the body
// that the copy before had, from its beginning. It returns false if the body was not read whole,
// if Plan.Again is false, or if the answer is decided.
func (b *Body) Rewind(up *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.again == nil {
		return false
	}
	b.upstream = &reader{of: b, rest: b.again, end: io.EOF}
	b.used = false
	b.began, up.Body = b.upstream, b.upstream
	if b.changed {
		fitHeader(up, len(b.again))
	}
	return true
}

// MayRewind reports whether Rewind would return true.
func (b *Body) MayRewind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.again != nil
}

// release releases the original once the answer is decided and the next handler
// has begun to read: without a Proxy, the client's request would have lost its body by
// then. b.mu is held.
func (b *Body) release() {
	if b.decided && b.used && b.original != nil {
		b.original = nil
		b.own.closed, b.own.rest = true, nil
	}
}

// GiveBack gives the client's request r the body that it would have after the next handler, which
// got up, without a Proxy: an error route may send it elsewhere. A wrapper around the body (a
// limit of Caddy's request_body) stays. Bytes that have been read are not read again. Bytes that
// have not been read, because upstream could not be reached, are those of the original.
func (b *Body) GiveBack(r, up *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrapped := !same(up.Body, b.began)
	if wrapped && up.ContentLength != b.length {
		r.ContentLength = up.ContentLength
	}
	if wrapped && !b.used && b.original != nil {
		b.upstream.rest = b.original // r has the length of the original
	}
	if wrapped || b.used {
		r.Body = up.Body
	}
}

// same reports whether a and b are the same body. Bodies that cannot be compared are not.
func same(a, b io.ReadCloser) bool {
	return reflect.ValueOf(a).Comparable() && a == b
}

// Waited returns when the last read of the client's bytes ended, or now while one is under way. It
// returns the zero time if there has been no such read, or none that is timed.
func (b *Body) Waited(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading > 0 {
		return now
	}
	return b.waited
}

// Err returns the error that broke the client's body off, nil for none.
func (b *Body) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// reader reads a body: the bytes that have been read from the client already, and then the end or
// what the client still sends. Like the server's body, it cannot be read after it is closed: a
// proxy that tries again after it has sent a part must not send the rest as the whole (Caddy:
// reverseproxy.go:496-505). It may be closed during a read.
type reader struct {
	of     *Body
	rest   []byte // nil as soon as all has been read
	end    error  // the error after rest, nil if the client still sends
	closed bool
}

func (r *reader) Read(b []byte) (int, error) {
	body := r.of
	if n, ready, err := r.take(b); ready {
		return n, err
	}
	n, err := body.client.Read(b)
	var refused error
	if ended := body.count(n, err); ended != nil {
		refused = ended()
	}
	body.mu.Lock()
	defer body.mu.Unlock()
	body.reading--
	body.waited = time.Now()
	if refused != nil {
		r.end = refused
		return 0, refused
	}
	if err == io.EOF {
		r.end = err // the server closes its body when the answer begins, and transports read the end twice
	}
	if err != nil && err != io.EOF && !r.closed {
		body.err = err // not the error of a read that Close ended
	}
	return n, err
}

// count counts the n bytes of a read of the client with the result err. It returns the function to
// call if they are the last ones, nil for none.
func (b *Body) count(n int, err error) (ended func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.came += int64(n)
	if err == io.EOF || b.whole() { //nolint:errorlint // the end is that very value
		ended, b.ended = b.ended, nil
	}
	return ended
}

// take reads from rest, or returns the error after it. ready is false if neither is there: take
// then has recorded that a read of the client begins.
func (r *reader) take(b []byte) (n int, ready bool, err error) {
	r.of.use(r)
	defer r.of.mu.Unlock()
	n = copy(b, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.rest = nil
	}
	switch {
	case r.closed:
		return 0, true, http.ErrBodyReadAfterClose
	case n > 0 || r.rest != nil:
		return n, true, nil
	case r.end != nil:
		return 0, true, r.end
	}
	r.of.reading++
	return 0, false, nil
}

func (r *reader) Close() error {
	r.of.use(r)
	r.closed, r.rest = true, nil
	r.of.mu.Unlock()
	return r.of.client.Close()
}

// use locks b, and records that r is read or closed.
func (b *Body) use(r *reader) {
	b.mu.Lock()
	if r == b.upstream {
		b.used = true
		b.release()
	}
}
