package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// causeOf returns the cause for which upstream's answer ended.
func causeOf(panicked any, err error) rewrite.Cause {
	switch {
	case panicked != nil:
		return rewrite.CauseAborted
	case err == nil:
		return rewrite.CauseEOF
	}
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		return rewrite.CauseTimeout
	}
	return rewrite.CauseAborted
}

// sendCause answers a request whose answer ended for the cause before it had begun. The next
// handler may still be running.
func (x *exchange) sendCause(cause rewrite.Cause) {
	status := http.StatusBadGateway
	if cause == rewrite.CauseTimeout {
		status = http.StatusGatewayTimeout
	}
	x.sendFailure(status, cause, x.running)
}

// sendErrorOf answers a request for chat completions that the next handler could not proxy. It
// returns false if err is nil or of another kind, and for other requests. Then err goes to the next
// error handler; if the agent has the request, a header field asks the client not to send it again.
func (x *exchange) sendErrorOf(err error) bool {
	if err == nil {
		return false
	}
	status, cause := x.o.ErrorStatus(err), rewrite.CauseAborted
	switch {
	case x.chat && status == http.StatusGatewayTimeout:
		cause = rewrite.CauseTimeout
	case x.chat && (status == http.StatusBadGateway || status == http.StatusServiceUnavailable):
	default:
		if (status == 0 || status >= 500) && x.reach.connected.Load() {
			x.client.w.Header().Set(head.Retry, "false")
		}
		return false
	}
	x.sendFailure(status, cause, x.reach.mayRun(status))
	return true
}

// sendFailure sends an error for the cause instead of the answer. running says that
// the agent may be running.
func (x *exchange) sendFailure(status int, cause rewrite.Cause, running bool) {
	x.sendError(status, cause.Code(), failureBody(cause, running), running)
}

// failureBody returns the body of an error for the cause. running says that the agent may be running.
func failureBody(cause rewrite.Cause, running bool) []byte {
	return append(rewrite.AppendError(nil, cause.Code(), message(cause, running)), '\n')
}

// saysNoRun reports whether body is an error with which another sidecar says that no agent runs. Its
// client may send the request again.
func saysNoRun(body []byte) bool {
	for cause := range messages {
		if bytes.Equal(body, failureBody(cause, false)) {
			return true
		}
	}
	return false
}

// messages are the messages of errors instead of answers. They name no address.
var messages = map[rewrite.Cause]string{
	rewrite.CauseEOF:      "the agent's answer ended before it had begun",
	rewrite.CauseAborted:  "the connection to the agent was lost before its answer",
	rewrite.CauseTimeout:  "the agent was silent for too long",
	rewrite.CauseShutdown: "the service is shutting down",
}

// message returns the message for the cause. running says that the agent may be running.
func message(cause rewrite.Cause, running bool) string {
	switch {
	case running:
		return messages[cause] + "; the agent may be running"
	case cause == rewrite.CauseShutdown:
		return rewrite.ShutdownBeforeRun
	}
	return "the agent could not be reached"
}

// sendError sends body, the JSON of an error with the code, instead of the answer,
// which has not begun: clients handle that best, and SDKs try again (contract
// section 3), unless running says that the agent may be running.
func (x *exchange) sendError(status int, code string, body []byte, running bool) {
	if x.begun() {
		x.endBegun(code, body)
		return
	}
	h := x.client.w.Header()
	head.DropOfBody(h)
	for _, name := range []string{"Content-Encoding", "X-Accel-Buffering", "Trailer", "Transfer-Encoding"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	x.o.announce(h)
	x.o.Origins.give(x.r, h)
	if running {
		h.Set(head.Retry, "false")
	}
	x.client.status, x.code = status, code
	x.client.moveDeadline(time.Time{})
	if x.r.Method == http.MethodHead {
		x.client.commit()
		return
	}
	_ = x.client.send(body) // an error shows in x.client.err
}

// A RequestError says that the next handler failed because the body of the
// client's request could not be read.
type RequestError struct {
	// Status is the HTTP status of the failure: 400, 408 if the client was too slow, or 499 (Caddy:
	// reverseproxy.go:1774) if it has gone.
	Status int
	// Err is the error of the body.
	Err error
}

// Error implements error.
func (e *RequestError) Error() string { return "reading the body of the request: " + e.Err.Error() }

// Unwrap returns the error of the body.
func (e *RequestError) Unwrap() error { return e.Err }

// requestError returns err, the next handler's error, or a RequestError if err says that upstream
// could not be asked because the client has not sent its request: otherwise an error of the agent's
// would be counted, and would invite the client to try again.
func (x *exchange) requestError(err error) error {
	failure := x.body.Err()
	if err == nil || failure == nil || !x.chat {
		return err
	}
	status := x.o.ErrorStatus(err)
	if status != http.StatusBadGateway && status != http.StatusGatewayTimeout {
		return err
	}
	var tooLarge *http.MaxBytesError
	if x.o.ErrorStatus(failure) != 0 || errors.As(failure, &tooLarge) {
		return err // the handler that limits the body has its own way of saying so
	}
	x.mu.Lock()
	defer x.unlock()
	if x.closed || x.answer != nil {
		return err
	}
	failed := &RequestError{Status: http.StatusBadRequest, Err: failure}
	var network *net.OpError
	switch {
	case x.gone():
		failed.Status = 499
	case causeOf(nil, failure) == rewrite.CauseTimeout:
		failed.Status = http.StatusRequestTimeout
	case errors.Is(failure, io.ErrUnexpectedEOF) || errors.As(failure, &network): // it has left
		failed.Status = 499
		x.client.fail(failure)
	}
	return failed
}
