package reqbody

import (
	"io"
	"net/http"
	"sync"
)

// held is a body of which a part, or all, has been read.
//
// One that came whole has two readers: upstream's, of the healed body, and the
// client's request's, of the original. Whoever has that request (a placeholder of
// Caddy's with the body, an error route) finds in it what it would find without
// us. Histories are large and answers take long, so nothing is kept that nobody
// will ask for: once the answer is decided no error route follows, and what has
// been read is not read again.
type held struct {
	client io.ReadCloser // the client's
	err    error         // what comes behind what has been read, nil for the rest of client
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
// has begun to read: without us, the client's request would have lost its body by
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
