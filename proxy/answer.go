package proxy

import (
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// answer sends an error as JSON instead of a stream that has not begun: what
// clients handle best, and SDKs try again (contract section 3).
func (rw *responseWriter) answer(status int, code, message string) {
	rw.answerWith(status, code, append(rewrite.AppendError(nil, code, message), '\n'))
}

// answerWith sends body, the JSON of an error with the code, as the answer.
func (rw *responseWriter) answerWith(status int, code string, body []byte) {
	h := rw.inner.Header()
	dropOfBody(h)
	for _, name := range []string{"Content-Encoding", "X-Accel-Buffering", "Trailer", "Transfer-Encoding"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	rw.decided, rw.status, rw.answered = true, status, code
	rw.sent.decide()
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
// begun.
func (rw *responseWriter) answerCause(cause rewrite.Cause) {
	status := http.StatusBadGateway
	if cause == rewrite.CauseTimeout {
		status = http.StatusGatewayTimeout
	}
	rw.answer(status, cause.Code(), rewrite.Message(cause.Code()))
}

// unreachable is the message when there is no answer to be lost.
const unreachable = "the agent could not be reached"

// answerFor answers a request for chat completions that the next handler could
// not proxy. It is false when err is none or not of that kind: then the next
// error handler sees it.
func (rw *responseWriter) answerFor(err error) bool {
	if !rw.chat || err == nil {
		return false
	}
	switch status := rw.p.o.ErrorStatus(err); status {
	case http.StatusGatewayTimeout:
		rw.answerCause(rewrite.CauseTimeout)
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		rw.answer(status, rewrite.CodeAborted, unreachable)
	default:
		return false
	}
	return true
}
