package proxy

import (
	"errors"
	"net/http"
	"time"
)

// client is the side of the client: what has been sent to it, whoever sends it. The inner writer has
// no lock of its own (Caddy: idletimeout.go:401), so the lock of the Request is held whenever it is
// used, except by an answer that passes.
type client struct {
	w         http.ResponseWriter // the inner writer
	cancel    func(error)         // ends upstream's request
	err       error               // the first error of the inner writer: the client is gone
	status    int                 // of the answer
	committed bool                // the header has left
	flushed   bool                // a stream has been flushed, and is with each write from then on
	deadline  time.Time           // of the handler's writes, zero for none
}

// fail records that the client cannot be written to, and ends upstream's request.
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

// write sends the header and b.
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

// send sends the header and b, and flushes them.
func (c *client) send(b []byte) error {
	if err := c.write(b); err != nil {
		return err
	}
	err := http.NewResponseController(c.w).Flush()
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	c.fail(err)
	return err
}

// moveDeadline moves the deadline of writes to t, if the handler has set one, because it must not
// end a write of the sidecar's own.
func (c *client) moveDeadline(t time.Time) {
	if !c.deadline.IsZero() {
		_ = http.NewResponseController(c.w).SetWriteDeadline(t) // it could be set before
	}
}
