package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// client is the client of an exchange: its request, the inner writer, and what has
// left by that. The inner writer has no lock of its own (Caddy:
// idletimeout.go:401): that of the exchange is held whenever it is used, but by an
// answer that passes.
type client struct {
	w         http.ResponseWriter
	err       error                   // the first of w: the client is gone
	r         *http.Request           // its request
	cancel    context.CancelCauseFunc // ends upstream's request
	status    int                     // of the answer
	committed bool                    // the header has left
	code      string                  // of the error that was sent instead of the answer, "" for none
	deadline  *time.Time              // that the handler has set for its writes, nil for none
}

// gone reports whether the client has left.
func (c *client) gone() bool { return c.err != nil || c.r.Context().Err() != nil }

// fail records that the client cannot be written to, and ends upstream's request at
// once.
func (c *client) fail(err error) {
	if c.err == nil {
		c.err = err
		c.cancel(err)
	}
}

// commit sends the header, if it has not left.
func (c *client) commit() {
	if !c.committed {
		c.committed = true
		c.w.WriteHeader(c.status)
	}
}

// write sends b behind the header.
func (c *client) write(b []byte) error {
	c.commit()
	if len(b) == 0 {
		return nil
	}
	_, err := c.w.Write(b)
	if err != nil {
		c.fail(err)
	}
	return err
}

// flush has what was written leave.
func (c *client) flush() error {
	err := http.NewResponseController(c.w).Flush()
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	c.fail(err)
	return err
}

// liftDeadline lifts the deadline that the handler has set for its own writes, for
// one of ours.
func (c *client) liftDeadline() {
	if c.deadline != nil {
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{}) // it could be set
	}
}

// restoreDeadline puts it back.
func (c *client) restoreDeadline() {
	if c.deadline != nil {
		_ = http.NewResponseController(c.w).SetWriteDeadline(*c.deadline) // likewise
	}
}

// retryHeader is the header that tells SDKs whether to send the request again,
// whatever they would make of the status.
const retryHeader = "X-Should-Retry"

// sendError sends body, the JSON of an error with the code, instead of the answer,
// which has not begun: what clients handle best, and SDKs try again (contract
// section 3), unless running says that the agent may be at work.
func (c *client) sendError(status int, code string, body []byte, running bool) {
	h := c.w.Header()
	dropOfBody(h)
	for _, name := range []string{"Content-Encoding", "X-Accel-Buffering", "Trailer", "Transfer-Encoding"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if running {
		h.Set(retryHeader, "false")
	}
	c.status, c.code = status, code
	c.liftDeadline()
	if c.r.Method == http.MethodHead {
		body = nil
	}
	if c.write(body) == nil && body != nil {
		_ = c.flush() // an error shows in c.err
	}
}
