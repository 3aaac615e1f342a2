package proxy

import (
	"io"
	"net/http"
	"sync"
)

// heldBody is the body of a request of which a part, or all, has been read.
//
// What came whole is there twice: for the next handler, which gets it healed,
// and for the client's request, as it came; whoever has that one (a placeholder
// of Caddy's with the body, an error route) finds in it what it would find
// without us. Histories are large and answers take long, so that nothing is
// held that nobody will ask for: when the answer is decided no error route follows,
// and what has been read is not read again.
type heldBody struct {
	client io.ReadCloser // the client's
	err    error         // what comes behind what has been read, nil for the rest of client

	mu      sync.Mutex
	theirs  *heldReader // the next handler's
	ours    *heldReader // the client's request's; theirs, where the body has not come whole
	came    []byte      // a body that came whole, nil once it is dropped
	decided bool        // the answer is
	touched bool        // theirs has been read, or closed
}

// decide drops what is needed only until the answer is decided.
func (h *heldBody) decide() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decided = true
	h.drop()
}

// touch notes that the next handler's body is no more what it was.
func (h *heldBody) touch(r *heldReader) {
	if r == h.theirs {
		h.touched = true
		h.drop()
	}
}

// drop drops what the client's request has for itself, once it would have been
// sent without us, and no error route follows.
func (h *heldBody) drop() {
	if h.decided && h.touched && h.ours != h.theirs {
		h.came = nil
		h.ours.close()
	}
}

// spent tells whether the client's request would have lost its body to the next
// handler without us, and has one of its own.
func (h *heldBody) spent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.touched && h.ours != h.theirs
}

// unheal has the next handler's body, of which nothing has been read, give what
// has come, for a request that has the length of that.
func (h *heldBody) unheal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.touched && h.ours != h.theirs {
		h.theirs.b = h.came
	}
}

// heldReader reads a heldBody. Like the server's body it cannot be read any more
// once it is closed: a proxy that tries again after it has sent a part must not
// send the rest for the whole (Caddy: reverseproxy.go:496-505). It may be closed
// while it is read.
type heldReader struct {
	of     *heldBody
	b      []byte // what is left; it is let go when it has been read
	closed bool
}

// Read implements io.Reader.
func (r *heldReader) Read(b []byte) (int, error) {
	h := r.of
	h.mu.Lock()
	h.touch(r)
	closed, n := r.closed, copy(b, r.b)
	if r.b = r.b[n:]; len(r.b) == 0 {
		r.b = nil
	}
	left := n > 0 || len(r.b) > 0
	h.mu.Unlock()
	switch {
	case closed:
		return 0, http.ErrBodyReadAfterClose
	case left:
		return n, nil
	case h.err != nil:
		return 0, h.err
	}
	return h.client.Read(b)
}

// Close implements io.Closer.
func (r *heldReader) Close() error {
	h := r.of
	h.mu.Lock()
	h.touch(r)
	r.close()
	h.mu.Unlock()
	return h.client.Close()
}

func (r *heldReader) close() { r.closed, r.b = true, nil }
