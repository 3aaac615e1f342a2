package proxy

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
)

// errPanicked is why nothing is written any more, and why upstream's request is
// cancelled, after what is not ours has panicked under the lock. It is no fault of
// upstream's (see errOver).
var errPanicked = fmt.Errorf("the writer of the answer panicked: %w", context.Canceled)

// unlock releases the lock in the handler's goroutine. It is deferred wherever what
// is not ours is used under the lock: what panics there goes on, and is not used
// again.
func (rw *responseWriter) unlock() {
	if v := recover(); v != nil {
		rw.x.client.fail(errPanicked)
		rw.mu.Unlock()
		panic(v) // keeps the stack
	}
	rw.mu.Unlock()
}

// unlockLate does the same where a panic must not go on: nobody would recover it in
// a timer's goroutine, and the process would end. It goes on in the handler's, whose
// upstream is told to end.
func (rw *responseWriter) unlockLate() {
	if v := recover(); v != nil {
		rw.panicked = &latePanic{v, debug.Stack()}
		rw.x.client.fail(errPanicked)
		rw.shut()
	}
	rw.mu.Unlock()
}

// A latePanic is a panic that goes on in another goroutine, or later, than it came.
type latePanic struct {
	value any
	stack []byte // it came with
}

// again returns what to panic with: the very value if that is the wish to abort.
func (p *latePanic) again() any {
	if isAbort(p.value) {
		return p.value
	}
	return p
}

// Error is what a server logs.
func (p *latePanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

func (p *latePanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// isAbort reports whether a panic is the wish to abort the answer.
func isAbort(panicked any) bool {
	return panicked == http.ErrAbortHandler //nolint:errorlint // the very value is the signal
}
