package proxy

import (
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// sendCause answers a request whose answer ended for the cause before it had begun.
// The next handler may still be at it: what it has is on its way.
func (x *exchange) sendCause(cause rewrite.Cause) {
	status := http.StatusBadGateway
	if cause == rewrite.CauseTimeout {
		status = http.StatusGatewayTimeout
	}
	x.sendFailure(status, cause, x.running)
}

// sendFailure sends an error for the cause instead of the answer. running says that
// the agent may be at work.
func (x *exchange) sendFailure(status int, cause rewrite.Cause, running bool) {
	body := rewrite.AppendError(nil, cause.Code(), message(cause, running))
	x.client.sendError(status, cause.Code(), append(body, '\n'), running)
}

// sendErrorOf answers a request for chat completions that the next handler could
// not proxy. It returns false if err is nil or not of that kind: then the next
// error handler sees it, with a header that says the same where the agent has the
// request.
func (x *exchange) sendErrorOf(err error) bool {
	if !x.chat || err == nil {
		return false
	}
	status, cause := x.p.o.ErrorStatus(err), rewrite.CauseAborted
	switch status {
	case http.StatusGatewayTimeout:
		cause = rewrite.CauseTimeout
	case http.StatusBadGateway, http.StatusServiceUnavailable:
	default:
		if (status == 0 || status >= 500) && x.reach.connected.Load() {
			x.client.w.Header().Set(retryHeader, "false")
		}
		return false
	}
	x.sendFailure(status, cause, x.reach.failed(status))
	return true
}

// message returns what an error instead of an answer tells the client. It names no
// address.
func message(cause rewrite.Cause, running bool) string {
	switch {
	case !running && cause == rewrite.CauseShutdown:
		return rewrite.ShutdownBeforeRun
	case !running:
		return "the agent could not be reached"
	}
	what := "the agent's answer ended before it had begun"
	switch cause {
	case rewrite.CauseAborted:
		what = "the connection to the agent was lost before its answer"
	case rewrite.CauseTimeout:
		what = "the agent was silent for too long"
	case rewrite.CauseShutdown:
		what = "the service is shutting down"
	}
	return what + "; the agent may be running"
}

// retryHeader is the header that tells SDKs whether to send the request again,
// whatever they would make of the status.
const retryHeader = "X-Should-Retry"

// sendError sends body, the JSON of an error with the code, instead of the answer,
// which has not begun: what clients handle best, and SDKs try again (contract
// section 3), unless running says that the agent may be at work.
func (c *client) sendError(status int, code string, body []byte, running bool) {
	h := c.w.Header()
	head.DropOfBody(h)
	for _, name := range []string{"Content-Encoding", "X-Accel-Buffering", "Trailer", "Transfer-Encoding"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if running {
		h.Set(retryHeader, "false")
	}
	c.status, c.code = int32(status), code
	c.liftDeadline()
	if c.r.Method == http.MethodHead {
		body = nil
	}
	if c.write(body) == nil && body != nil {
		_ = c.flush() // an error shows in c.err
	}
}
