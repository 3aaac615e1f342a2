// Package panics carries panics from the goroutine that they occur in to another one.
package panics

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// Catch calls f and returns what to panic with in another goroutine, if f panics:
// http.ErrAbortHandler, which asks for the answer to be aborted, or a *Late. It returns nil
// if f does not panic.
func Catch(f func()) (panicked any) {
	defer func() {
		v := recover()
		if v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the very value is the signal
			v = &Late{v, debug.Stack()}
		}
		panicked = v
	}()
	f()
	return nil
}

// Late is a panic that goes on in another goroutine than it occurred in.
type Late struct {
	Value any
	Stack []byte // of the goroutine that it occurred in
}

// Error implements error. A server logs it.
func (l *Late) Error() string { return fmt.Sprintf("%v\n\n%s", l.Value, l.Stack) }

// Unwrap returns the value, if it is an error.
func (l *Late) Unwrap() error {
	err, _ := l.Value.(error)
	return err
}
