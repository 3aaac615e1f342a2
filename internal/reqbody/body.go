// Package reqbody reads the body of a request before the request goes on, heals
// the history in it (contract section 5), and gives it back when the next handler
// has failed. It knows only requests, no answers.
//
// A Body that came whole holds it once more until Decided is called and upstream
// has begun to read; a body that is not read costs nothing. What a client may have
// allocated is bounded by Plan.Limit, and by eight times the bytes that it has sent.
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

// Body is the body of a request. Prepare comes first, and once; Decided, Waited
// and Err may then be called at any time, by any goroutine.
//
// One that came whole has two readers: upstream's, of the healed body, and the client's
// request's, of the original. A handler that has that request (a placeholder of Caddy's with
// the body, an error route) finds in it the bytes that it would find without a Proxy.
// Histories are large and answers take long, so nothing is kept longer than it may be asked
// for: once the answer is chosen no error route follows, and bytes that have been read are
// not read again. Of any other body both requests have the same reader.
type Body struct {
	client io.ReadCloser // the client's
	began  io.ReadCloser // what the next handler's request began with
	length int64         // and its ContentLength

	// The mutex is not held while the client is read: that may take as long as the client
	// likes.
	mu       sync.Mutex
	own      *reader   // of the client's request, nil if that keeps its body
	upstream *reader   // of the next handler's request
	original []byte    // a body that came whole, nil once it is released
	changed  bool      // the next handler's is not the original
	again    []byte    // what Rewind sends again, nil if it may not or the answer is decided
	decided  bool      // the answer is
	used     bool      // upstream has been read, or closed
	reading  int       // how many reads of the client are under way
	waited   time.Time // the end of the last one
	err      error     // that broke the client's body off
}

// Plan says how a body is treated.
type Plan struct {
	// Heal says that the body is read, and healed if it is a history.
	Heal bool
	// Keep says that a body that is read stays as it is.
	Keep bool
	// Limit is the size in bytes above which a body passes untouched.
	Limit int64
	// Tools are the tools whose markers are removed.
	Tools *rewrite.Tools
	// Edit, if not nil, returns what upstream gets instead of a body that came whole: that body,
	// which it must not write to, or another one of another length.
	Edit func(body []byte) []byte
	// Timed says that the client is timed while it still sends the body.
	Timed bool
	// Again says that the body may have to be sent again, if it comes whole; see Body.Rewind.
	Again bool
}

// Prepare reads the body of the client's request r and gives it to up, which is
// the request of the next handler, as the plan says. A body that is not read, or not to
// its end, goes on as it comes.
func (b *Body) Prepare(r, up *http.Request, plan Plan) (healed rewrite.Healed) {
	// Transports look at the type of a body, so one that has nothing to time keeps it.
	if plan.Heal || plan.Timed && r.Body != nil && r.Body != http.NoBody {
		b.client = r.Body
		b.own = &reader{of: b}
		b.upstream = b.own
		if plan.Heal {
			healed = b.heal(r, up, plan)
		}
		r.Body, up.Body = b.own, b.upstream
	}
	b.began, b.length = up.Body, up.ContentLength
	return healed
}

// heal reads the body, and heals it if it has come whole.
func (b *Body) heal(r, up *http.Request, plan Plan) rewrite.Healed {
	came, err := Read(&objectReader{Reader: r.Body}, r.ContentLength, plan.Limit)
	b.own.rest, b.own.end = came, err
	switch err { //nolint:errorlint // they are those very values
	case errNoObject:
		b.own.end = nil // the rest is still to come
	case nil, io.EOF:
	default:
		b.err = err
	}
	// A last read may bring the end along with one byte too many.
	whole := err == io.EOF && int64(len(came)) <= plan.Limit //nolint:errorlint // likewise
	if !whole || r.ContentLength >= 0 && r.ContentLength != int64(len(came)) {
		return rewrite.Healed{}
	}
	body, healed := rewrite.Heal(came, plan.Tools)
	if healed.Asked != rewrite.AskedStream {
		healed.Reply = "" // it is answered with the rest of a stream
	}
	if plan.Keep {
		body, healed = came, rewrite.Healed{Asked: healed.Asked, Reply: healed.Reply}
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

// Rewind gives up, which is a copy of the client's request for the next handler, the body from its
// beginning, as the request before it had it. It returns false if it cannot: the body has not come whole, or
// Plan.Again does not say so, or the answer is decided.
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

// MayRewind reports whether Rewind can.
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

// GiveBack gives the client's request r the body that it would have after the
// next handler, which got up, if nothing had read it before: an error route may send
// it elsewhere. A wrapper around the body stays around it (a limit of
// Caddy's request_body), bytes that have been read are not read again, and bytes that
// have not, because upstream could not be reached, are there as they came.
func (b *Body) GiveBack(r, up *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrapped := !same(up.Body, b.began)
	if wrapped && up.ContentLength != b.length {
		r.ContentLength = up.ContentLength
	}
	if wrapped && !b.used && b.original != nil {
		b.upstream.rest = b.original // for r has the length of that
	}
	if wrapped || b.used {
		r.Body = up.Body
	}
}

// same reports whether two bodies are the same. Those that cannot be compared are
// not.
func same(a, b io.ReadCloser) bool {
	return reflect.ValueOf(a).Comparable() && a == b
}

// Waited returns until when the client has been waited for to send the rest of the
// body, which is now if it still is. It returns the zero time if there is no rest
// that is timed.
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

// reader reads a body: what of it has been read, and then the end or the client's rest.
// Like the server's body it cannot be read any more once it is closed: a proxy that tries
// again after it has sent a part must not send the rest for the whole (Caddy:
// reverseproxy.go:496-505). It may be closed while it is read.
type reader struct {
	of     *Body
	rest   []byte // nil as soon as all has been read
	end    error  // follows rest, nil for what the client still sends
	closed bool
}

func (r *reader) Read(b []byte) (int, error) {
	body := r.of
	if n, ready, err := r.take(b); ready {
		return n, err
	}
	n, err := body.client.Read(b)
	body.mu.Lock()
	defer body.mu.Unlock()
	body.reading--
	body.waited = time.Now()
	if err != nil && err != io.EOF && !r.closed { //nolint:errorlint // the end is that very value
		body.err = err // and not one of a read that Close ends
	}
	return n, err
}

// take reads what has come already. If there is none left, it is not ready: a read of the
// client begins.
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
