package resume

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// caught calls f, and returns what it panics with, nil for nothing: http.ErrAbortHandler,
// which is the wish to abort the answer, or a *latePanic.
func caught(f func()) (panicked any) {
	defer func() { panicked = late(recover()) }()
	f()
	return nil
}

// late returns what to go on with in another goroutine instead of the panic v, which the
// caller has just recovered from.
func late(v any) any {
	if v == nil || v == http.ErrAbortHandler { //nolint:errorlint // the very value is the signal
		return v
	}
	return &latePanic{v, debug.Stack()}
}

// A latePanic is a panic that goes on in another goroutine than it came in.
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
