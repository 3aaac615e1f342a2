// Package panics carries panics from the goroutine that they occur in to another one.
package panics

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// Catch calls f. If f panics, it returns the value to panic with in another goroutine (see
// Carry), and otherwise nil.
func Catch(f func()) (panicked any) {
	defer func() { panicked = Carry(recover()) }()
	f()
	return nil
}

// Aborts calls f, and reports whether f panics with http.ErrAbortHandler. Other panics go on.
func Aborts(f func() error) (aborted bool, err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler: // the very value is the wish
			aborted = true
		default:
			panic(v) // keeps the stack
		}
	}()
	return false, f()
}

// Carry returns the value to panic with in another goroutine, in place of the recovered v. It
// returns nil for nil, http.ErrAbortHandler, which asks for the answer to be aborted, unchanged,
// and for anything else a *Late with the stack of the caller, which must be the deferred function
// that recovered v.
func Carry(v any) any {
	if v == nil || v == http.ErrAbortHandler { //nolint:errorlint // the very value is the signal
		return v
	}
	return &Late{v, debug.Stack()}
}

// Late is the value of a panic that was carried from one goroutine to another.
type Late struct {
	Value any
	Stack []byte // of the first goroutine
}

// Error implements error. A server logs it.
func (l *Late) Error() string { return fmt.Sprintf("%v\n\n%s", l.Value, l.Stack) }

// Unwrap returns the value, if it is an error.
func (l *Late) Unwrap() error {
	err, _ := l.Value.(error)
	return err
}
