package proxy

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// errPanicked is why nothing is written any more, and why upstream's request is
// cancelled, when what we use under the lock has panicked. It is no fault of
// upstream's (see errOver).
var errPanicked = fmt.Errorf("the writer of the answer panicked: %w", context.Canceled)

// unlock lets the lock go in the handler's goroutine. It is deferred wherever what
// is not ours is used under the lock: what panics there goes on, and is not used
// again.
func (rw *responseWriter) unlock() {
	if v := recover(); v != nil {
		rw.lost(errPanicked)
		rw.mu.Unlock()
		panic(v) // keeps the stack
	}
	rw.mu.Unlock()
}

// rescue does the same where a panic must not go on: nobody would recover it in a
// timer's goroutine, and the process would end. It goes on in the handler's, whose
// upstream is told to end.
func (rw *responseWriter) rescue() {
	if v := recover(); v != nil {
		if !isAbort(v) {
			v = &latePanic{v, debug.Stack()}
		}
		rw.rarely().panicked = v
		rw.lost(errPanicked)
		rw.closed = true
		rw.unwatch()
	}
	rw.mu.Unlock()
}

// A latePanic is a panic that goes on in another goroutine, or later, than it came.
type latePanic struct {
	value any
	stack []byte // it came with
}

// Error implements error. A server logs it.
func (p *latePanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value, if it is an error.
func (p *latePanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// isAbort tells whether a panic is the wish to abort the answer.
func isAbort(panicked any) bool {
	return panicked == http.ErrAbortHandler //nolint:errorlint // the very value is the signal
}

// SetWriteDeadline implements the deadline of http.ResponseController. The inner
// writer may keep it in a field of its own (Caddy: idletimeout.go:435), which a
// timer's write looks at.
func (rw *responseWriter) SetWriteDeadline(t time.Time) error {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return errClosed
	}
	err := rw.ctl.SetWriteDeadline(t)
	if err == nil {
		rw.rarely().deadline = t
	}
	return err
}

// EnableFullDuplex implements the same of http.ResponseController: net/http looks
// at it as the header leaves.
func (rw *responseWriter) EnableFullDuplex() error {
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed {
		return errClosed
	}
	return rw.ctl.EnableFullDuplex()
}

// liftDeadline lifts the deadline that the handler has set for its own writes, for
// one of ours.
func (rw *responseWriter) liftDeadline() {
	if rw.rare != nil && !rw.rare.deadline.IsZero() {
		_ = rw.ctl.SetWriteDeadline(time.Time{}) // it could be set
	}
}

// dropDeadline puts it back.
func (rw *responseWriter) dropDeadline() {
	if rw.rare != nil && !rw.rare.deadline.IsZero() {
		_ = rw.ctl.SetWriteDeadline(rw.rare.deadline) // likewise
	}
}
