package proxy

import (
	"context"
	"errors"
	"net/http"
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
	status    int32                   // of the answer
	committed bool                    // the header has left
	late      bool                    // the client had left before the answer was decided
	muted     bool                    // its request mutes the answer, which may be empty by intent
	code      string                  // of the error that was sent instead of the answer, "" for none
	deadline  *time.Time              // of the handler's writes, nil if it has set none
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
		c.w.WriteHeader(int(c.status))
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

// send sends b behind the header, and has it leave.
func (c *client) send(b []byte) error {
	if err := c.write(b); err != nil {
		return err
	}
	return c.flush()
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

// setDeadline sets the deadline of the handler's writes.
func (c *client) setDeadline(t time.Time) error {
	if err := http.NewResponseController(c.w).SetWriteDeadline(t); err != nil {
		return err
	}
	if c.deadline == nil {
		c.deadline = new(time.Time)
	}
	*c.deadline = t
	return nil
}

// liftDeadline lifts that deadline for a write of ours.
func (c *client) liftDeadline() {
	if c.deadline != nil && !c.deadline.IsZero() {
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{}) // it could be set
	}
}

// restoreDeadline puts it back.
func (c *client) restoreDeadline() {
	if c.deadline != nil && !c.deadline.IsZero() {
		_ = http.NewResponseController(c.w).SetWriteDeadline(*c.deadline) // likewise
	}
}
