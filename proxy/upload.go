package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// upload is a body that the client still sends while upstream gets it. The
// deadlines of an answer count from when the request has been read (Options):
// while the client is waited for, upstream is not silent, it waits as well.
//
// Its lock is its own, and not held while the client is read: the lock of the
// answer may be held for as long as the client does not read it, which it may
// not do before it has sent its request.
type upload struct {
	io.ReadCloser
	clock Clock

	mu      sync.Mutex
	reading int       // how many reads are under way
	last    time.Time // the end of the last one
	err     error     // what broke the body off
	closed  bool
}

// follow has the rest of the body of a request for chat completions watched, if
// there is a deadline that it could move. Otherwise it stays what it is, for
// transports look at its type.
func (rw *responseWriter) follow(up *http.Request) {
	o := &rw.p.o
	if !rw.chat || up.Body == nil || up.Body == http.NoBody || max(o.FirstByteTimeout, o.IdleTimeout, o.StallTimeout) <= 0 {
		return
	}
	rw.sent.upload = &upload{ReadCloser: up.Body, clock: o.Clock}
	up.Body = rw.sent.upload
}

// Read implements io.Reader.
func (u *upload) Read(b []byte) (int, error) {
	u.mu.Lock()
	u.reading++
	u.mu.Unlock()
	n, err := u.ReadCloser.Read(b)
	now := u.clock.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading--
	u.last = now
	if err != nil && err != io.EOF && !u.closed { //nolint:errorlint // the end is that very value
		u.err = err
	}
	return n, err
}

// Close implements io.Closer. Errors of reads that it ends are not the client's.
func (u *upload) Close() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	return u.ReadCloser.Close()
}

// at returns until when the client has been waited for, which is now if it still
// is.
func (u *upload) at(now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reading > 0 {
		return now
	}
	return u.last
}

// failure returns what broke the body off, nil for nothing.
func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// uploadCame moves what the deadlines count from to where the client was last
// waited for, as long as no byte of the answer has come. The request has the age.
func (rw *responseWriter) uploadCame(age time.Duration) {
	if rw.sent.upload == nil || rw.began {
		return
	}
	at := rw.sent.upload.at(rw.since.Add(age)).Sub(rw.since)
	rw.askedAt, rw.byteAt, rw.frameAt = max(rw.askedAt, at), max(rw.byteAt, at), max(rw.frameAt, at)
}

// failure returns what broke the client's body off, nil for nothing.
func (s *requestBody) failure() error {
	switch {
	case s.upload != nil:
		return s.upload.failure()
	case s.held != nil && s.held.err != io.EOF: //nolint:errorlint // the end is that very value
		return s.held.err
	}
	return nil
}

// A RequestError says that the next handler failed because the body of the
// client's request could not be read.
type RequestError struct {
	// Status is the HTTP status that says so: 400, 408 where the client was
	// too slow, or 499 (Caddy: reverseproxy.go:1774) where it has gone.
	Status int
	// Err is the error of the body.
	Err error
}

// Error implements error.
func (e *RequestError) Error() string { return "reading the body of the request: " + e.Err.Error() }

// Unwrap returns the error of the body.
func (e *RequestError) Unwrap() error { return e.Err }

// statusGone is the status that Caddy logs for a client that has gone.
const statusGone = 499

// isGone tells whether err, of the client's body, says that the client has left.
func isGone(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op)
}

// blame returns err, the next handler's, or a RequestError when it says that
// upstream could not be asked, but the client had not sent its request: an error
// of the agent's would be counted, and sent to try again.
func (rw *responseWriter) blame(err error) error {
	failure := rw.sent.failure()
	if err == nil || failure == nil || !rw.chat {
		return err
	}
	status := rw.p.o.ErrorStatus(err)
	if status != http.StatusBadGateway && status != http.StatusGatewayTimeout {
		return err
	}
	var tooLarge *http.MaxBytesError
	if rw.p.o.ErrorStatus(failure) != 0 || errors.As(failure, &tooLarge) {
		return err // whoever limits the body has its own way of saying so
	}
	rw.mu.Lock()
	defer rw.unlock()
	if rw.decided {
		return err
	}
	failed := &RequestError{Status: http.StatusBadRequest, Err: failure}
	switch t := (interface{ Timeout() bool })(nil); {
	case rw.gone():
		failed.Status = statusGone
	case errors.As(failure, &t) && t.Timeout():
		failed.Status = http.StatusRequestTimeout
	case isGone(failure):
		failed.Status = statusGone
		rw.lost(failure)
	}
	return failed
}
