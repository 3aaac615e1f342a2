package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

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

// requestError returns err, the next handler's, or a RequestError if err says that
// upstream could not be asked and the client has not sent its request: an error of
// the agent's would be counted, and sent to try again.
func (rw *responseWriter) requestError(err error) error {
	failure := rw.body.Err()
	if err == nil || failure == nil || !rw.x.chat {
		return err
	}
	status := rw.x.p.o.ErrorStatus(err)
	if status != http.StatusBadGateway && status != http.StatusGatewayTimeout {
		return err
	}
	var tooLarge *http.MaxBytesError
	if rw.x.p.o.ErrorStatus(failure) != 0 || errors.As(failure, &tooLarge) {
		return err // whoever limits the body has its own way of saying so
	}
	rw.mu.Lock()
	defer rw.unlock()
	if rw.closed || rw.x.answer != nil {
		return err
	}
	failed := &RequestError{Status: http.StatusBadRequest, Err: failure}
	var network *net.OpError
	switch {
	case rw.x.client.gone():
		failed.Status = statusGone
	case causeOf(nil, failure) == rewrite.CauseTimeout:
		failed.Status = http.StatusRequestTimeout
	case errors.Is(failure, io.ErrUnexpectedEOF) || errors.As(failure, &network): // it has left
		failed.Status = statusGone
		rw.x.client.fail(failure)
	}
	return failed
}
