// Package bounded bounds what others write into our logs: the length of texts, and how often a
// message is logged. Every text of upstream and of clients goes through it before it reaches a log
// line, a file, a list or a span (contract section 7).
package bounded

import "strings"

const (
	// maxLogged is the length in bytes up to which a name from upstream is logged.
	maxLogged = 256
	// maxLoggedError is the length in bytes up to which the text of an error is logged: Go's
	// transport quotes a malformed header, which may have megabytes.
	maxLoggedError = 1 << 10
)

// Name returns a name as valid UTF-8 of at most 256 bytes.
func Name(s string) string { return Text(s, maxLogged) }

// NameEnd returns the last 256 bytes of a name as valid UTF-8.
func NameEnd(s string) string { return strings.ToValidUTF8(s[max(len(s)-maxLogged, 0):], "") }

// Text returns s as valid UTF-8 of at most n bytes.
func Text(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

// Error returns err or, if its text is longer than 1 KiB, an error that wraps err and has the
// first 1 KiB of the text.
func Error(err error) error {
	if err == nil || !Long(err) {
		return err
	}
	return WithText(err.Error(), err)
}

// Long reports whether the text of an error is longer than 1 KiB.
func Long(err error) bool { return len(err.Error()) > maxLoggedError }

// WithText returns an error that wraps err and has the first 1 KiB of text as its text.
func WithText(text string, err error) error {
	return &cutError{Text(text, maxLoggedError), err}
}

// cutError is an error whose text is cut.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }

// Unwrap returns the whole error.
func (e *cutError) Unwrap() error { return e.err }
