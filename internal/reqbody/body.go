// Package reqbody reads the body of a request before the request goes on, heals
// the history in it (contract section 5), and gives it back when the next handler
// has failed. It knows requests alone, no answer.
//
//	body.go    Body: read, healed, given back, timed while the client still sends it
//	held.go    the bytes that have been read, as long as a handler may ask for them
//	read.go    how a body is read: bounded, and not for promises
//
// A Body that came whole holds it once more until Decided is called and upstream
// has begun to read; a body that is not read costs nothing. What a client may have
// allocated is bounded by Plan.Limit, and by eight times what it has sent.
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
	upload *upload // what is still to be read; nil if nobody times that
}

// Plan says what becomes of a body.
type Plan struct {
	// Heal has the body read, and healed if it is a history.
	Heal bool
	// Limit is the size in bytes above which a body passes untouched.
	Limit int64
	// Tools are the tools whose markers are removed.
	Tools *rewrite.Tools
	// Timed says that the client is timed while it still sends the body.
	Timed bool
}

// Prepare reads the body of the client's request r and gives it to up, which is
// what the next handler gets, as the plan says. A body that is not read, or not to
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
	came, err := read(r.Body, r.ContentLength, plan.Limit, true)
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

// Decided releases what is needed only until the answer is decided.
func (b *Body) Decided() {
	if h := b.held; h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.decided = true
		h.release()
	}
}

// GiveBack gives the client's request r the body that it would have behind the
// next handler, which got up, without us: whoever handles an error of that sends
// it elsewhere. What is wrapped around the body stays around it (a limit of
// Caddy's request_body), what has been read is not read again, and what has not,
// because upstream could not be reached, is there as it came.
func (b *Body) GiveBack(r, up *http.Request) {
	body, length := r.Body, r.ContentLength // what up began with
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
// body, which is now if it still is. It returns the zero time if there is no rest,
// or nobody times it.
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

// Err returns what broke the client's body off, nil for nothing.
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
	err     error     // what broke the body off
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
