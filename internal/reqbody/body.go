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
type Body struct {
	held   *held   // as far as it has been read; nil if it was not
	upload *upload // the rest, which is still to be read; nil if that is not timed
}

// Plan says how a body is treated.
type Plan struct {
	// Heal says that the body is read, and healed if it is a history.
	Heal bool
	// Limit is the size in bytes above which a body passes untouched.
	Limit int64
	// Tools are the tools whose markers are removed.
	Tools *rewrite.Tools
	// Timed says that the client is timed while it still sends the body.
	Timed bool
}

// Prepare reads the body of the client's request r and gives it to up, which is
// the request of the next handler, as the plan says. A body that is not read, or not to
// its end, goes on as it comes.
func (b *Body) Prepare(r, up *http.Request, plan Plan) (healed rewrite.Healed) {
	if plan.Heal {
		healed = b.heal(r, up, plan)
	}
	// Transports look at the type of a body, so one that has nothing to time keeps it.
	if open := b.held == nil || b.held.err == nil; open && plan.Timed && up.Body != nil && up.Body != http.NoBody {
		b.upload = &upload{ReadCloser: up.Body}
		up.Body = b.upload
	}
	return healed
}

// heal reads the body, and heals it if it has come whole.
func (b *Body) heal(r, up *http.Request, plan Plan) rewrite.Healed {
	came, err := Read(&objectReader{Reader: r.Body}, r.ContentLength, plan.Limit)
	if err == errNoObject { //nolint:errorlint // it is that very value
		err = nil // the rest is still to come
	}
	h := &held{client: r.Body, err: err, length: r.ContentLength}
	b.held = h
	h.own = heldReader{of: h, rest: came}
	h.upstream = &h.own
	r.Body, up.Body = h.upstream, h.upstream
	// A last read may bring the end along with one byte too many.
	whole := err == io.EOF && int64(len(came)) <= plan.Limit //nolint:errorlint // the end is that very value
	if !whole || r.ContentLength >= 0 && r.ContentLength != int64(len(came)) {
		return rewrite.Healed{}
	}
	body, healed := rewrite.Heal(came, plan.Tools)
	h.original = came
	h.healed = heldReader{of: h, rest: body}
	h.upstream = &h.healed
	up.Body = h.upstream
	if healed.Changed() {
		fitHeader(up, len(body))
		h.length = up.ContentLength
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
	if h := b.held; h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.decided = true
		h.release()
	}
}

// GiveBack gives the client's request r the body that it would have after the
// next handler, which got up, if nothing had read it before: an error route may send
// it elsewhere. A wrapper around the body stays around it (a limit of
// Caddy's request_body), bytes that have been read are not read again, and bytes that
// have not, because upstream could not be reached, are there as they came.
func (b *Body) GiveBack(r, up *http.Request) {
	body, length := r.Body, r.ContentLength // those that up began with
	apart, used := false, false             // r has a reader of its own; upstream has read
	if h := b.held; h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		body, length = h.upstream, h.length
		apart, used = h.upstream == &h.healed, h.used
	}
	if b.upload != nil {
		body = b.upload
	}
	wrapped := !same(up.Body, body)
	if wrapped && up.ContentLength != length {
		r.ContentLength = up.ContentLength
	}
	if wrapped || apart && used {
		r.Body = up.Body
	}
	if wrapped && apart && !used {
		b.held.upstream.rest = b.held.original // for r has the length of that
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
	u := b.upload
	if u == nil {
		return time.Time{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reading > 0 {
		return now
	}
	return u.last
}

// Err returns the error that broke the client's body off, nil for none.
func (b *Body) Err() error {
	switch u := b.upload; {
	case u != nil:
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.err
	case b.held != nil && b.held.err != io.EOF: //nolint:errorlint // the end is that very value
		return b.held.err
	}
	return nil
}

// upload is a body that the client still sends while upstream reads it. It
// records until when the client has been waited for.
//
// Its mutex is not held while the client is read: that may take as long as the
// client likes.
type upload struct {
	io.ReadCloser

	mu      sync.Mutex
	reading int       // how many reads are under way
	last    time.Time // the end of the last one
	err     error     // that broke the body off
	closed  bool
}

func (u *upload) Read(b []byte) (int, error) {
	u.mu.Lock()
	u.reading++
	u.mu.Unlock()
	n, err := u.ReadCloser.Read(b)
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading--
	u.last = now
	if err != nil && err != io.EOF && !u.closed { //nolint:errorlint // the end is that very value
		u.err = err
	}
	return n, err
}

// Close closes the body. Errors of reads that it ends are not the client's.
func (u *upload) Close() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	return u.ReadCloser.Close()
}

// held is a body of which a part, or all, has been read.
//
// One that came whole has two readers: upstream's, of the healed body, and the
// client's request's, of the original. A handler that has that request (a placeholder of
// Caddy's with the body, an error route) finds in it the bytes that it would find
// without a Proxy. Histories are large and answers take long, so nothing is kept longer
// than it may be asked for: once the answer is chosen no error route follows, and bytes
// that have been read are not read again.
type held struct {
	client io.ReadCloser // the client's
	err    error         // follows the bytes that have been read, nil for the rest of client
	length int64         // the ContentLength of the next handler's request

	mu       sync.Mutex
	own      heldReader  // of the client's request
	healed   heldReader  // of the next handler's request, if the body came whole
	upstream *heldReader // which of the two the next handler has
	original []byte      // a body that came whole, nil once it is released
	decided  bool        // the answer is
	used     bool        // upstream has been read, or closed
}

// use records that r has been read or closed. h.mu is held.
func (h *held) use(r *heldReader) {
	if r == h.upstream {
		h.used = true
		h.release()
	}
}

// release releases the original once the answer is decided and the next handler
// has begun to read: without a Proxy, the client's request would have lost its body by
// then. h.mu is held.
func (h *held) release() {
	if h.decided && h.used && h.upstream == &h.healed {
		h.original = nil
		h.own.close()
	}
}

// heldReader reads a held body. Like the server's body it cannot be read any more
// once it is closed: a proxy that tries again after it has sent a part must not
// send the rest for the whole (Caddy: reverseproxy.go:496-505). It may be closed
// while it is read.
type heldReader struct {
	of     *held
	rest   []byte // nil as soon as all has been read
	closed bool
}

func (r *heldReader) Read(b []byte) (int, error) {
	h := r.of
	h.mu.Lock()
	h.use(r)
	closed, n := r.closed, copy(b, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.rest = nil
	}
	more := n > 0 || len(r.rest) > 0
	h.mu.Unlock()
	switch {
	case closed:
		return 0, http.ErrBodyReadAfterClose
	case more:
		return n, nil
	case h.err != nil:
		return 0, h.err
	}
	return h.client.Read(b)
}

func (r *heldReader) Close() error {
	h := r.of
	h.mu.Lock()
	h.use(r)
	r.close()
	h.mu.Unlock()
	return h.client.Close()
}

// close closes the reader, but not the client's body. The held body's mu is held.
func (r *heldReader) close() { r.closed, r.rest = true, nil }
