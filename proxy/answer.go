package proxy

import (
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// retryHeader is the header that tells SDKs whether to send the request again, in
// place of what they would make of the status.
const retryHeader = "X-Should-Retry"

// answer sends an error as JSON instead of a stream that has not begun: what
// clients handle best, and SDKs try again (contract section 3), unless running says
// that the agent may be at work.
func (rw *responseWriter) answer(status int, code, message string, running bool) {
	rw.answerWith(status, code, append(rewrite.AppendError(nil, code, message), '\n'), running)
}

// answerWith sends body, the JSON of an error with the code, as the answer.
func (rw *responseWriter) answerWith(status int, code string, body []byte, running bool) {
	h := rw.inner.Header()
	dropOfBody(h)
	for _, name := range []string{"Content-Encoding", "X-Accel-Buffering", "Trailer", "Transfer-Encoding"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if running {
		h.Set(retryHeader, "false")
	}
	rw.decided, rw.status, rw.answered = true, status, code
	rw.body.Decided()
	rw.liftDeadline()
	rw.commit()
	if rw.r.Method == http.MethodHead {
		return
	}
	if _, err := rw.inner.Write(body); err != nil {
		rw.lost(err)
		return
	}
	_ = rw.flush() // an error shows in rw.writeErr
}

// answerCause answers a request whose stream ended for the cause before it had
// begun. The next handler may still be at it: what it has is on its way.
func (rw *responseWriter) answerCause(cause rewrite.Cause) {
	status := http.StatusBadGateway
	if cause == rewrite.CauseTimeout {
		status = http.StatusGatewayTimeout
	}
	rw.answer(status, cause.Code(), message(cause, rw.handed), rw.handed)
}

// unreachable is the message when there is no answer to be lost.
const unreachable = "the agent could not be reached"

// message returns what an error in a stream's stead tells the client. It names no
// address.
func message(cause rewrite.Cause, running bool) string {
	switch {
	case !running && cause == rewrite.CauseShutdown:
		return "the service is shutting down; send the request again"
	case !running:
		return unreachable
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

// answerFor answers a request for chat completions that the next handler could
// not proxy. It is false when err is none or not of that kind: then the next
// error handler sees it, with a header that says the same where the agent has the
// request.
func (rw *responseWriter) answerFor(err error) bool {
	if !rw.chat || err == nil {
		return false
	}
	status, cause := rw.p.o.ErrorStatus(err), rewrite.CauseAborted
	switch status {
	case http.StatusGatewayTimeout:
		cause = rewrite.CauseTimeout
	case http.StatusBadGateway, http.StatusServiceUnavailable:
	default:
		if (status == 0 || status >= 500) && rw.reach.connected.Load() {
			rw.inner.Header().Set(retryHeader, "false")
		}
		return false
	}
	running := rw.reach.failed(status)
	rw.answer(status, cause.Code(), message(cause, running), running)
	return true
}
