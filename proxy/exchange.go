package proxy

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// exchange is a request under guard and what has become of it: what all kinds of
// answers share. The lock of its responseWriter is held whenever it is used.
type exchange struct {
	flushed  atomic.Bool // a stream has been, and is with each write from then on; read without the lock
	chat     bool        // the request is one for chat completions
	noStream bool        // it was read, and does not ask for a stream
	running  bool        // the next handler has it: the agent may be running
	answer   answer      // nil before the final status
	client   client
	p        *Proxy
	since    time.Time      // the request came
	times    deadline.State // what its deadlines count from, as ages
	observer AnswerObserver // nil as long as nobody is told of the answer
	header   http.Header    // the handler's own, and touched by its goroutine alone; nil once it is dropped
	reach    reach
}

// age returns the time since the request came.
func (x *exchange) age() time.Duration { return x.p.o.Clock.Since(x.since) }

// usage returns the memory of reported usage, nil when there is none. Upstream is
// named here, in the handler's goroutine: a timer, which may end the stream, must
// not look at what handlers have set.
func (x *exchange) usage() rewrite.UsageMemory {
	if x.p.o.Usage == nil {
		return nil
	}
	return usageMemory{x.p.o.Usage, x.p.o.Upstream(x.client.r)}
}

// dropHeader drops the handler's header once that of a chat stream has left, unless
// it says something of trailers: a stream takes less memory without. Whoever asks
// for it again gets a new one, and sets trailers there.
func (x *exchange) dropHeader() {
	if x.chat && x.client.committed && !hasTrailers(x.header) {
		x.header = nil
	}
}

// observe begins to tell of the answer.
func (x *exchange) observe(b Begun) {
	if x.observer == nil && x.p.o.Observer != nil {
		b.Since = x.since
		x.observer = x.p.o.Observer.Begin(x.client.r, b)
	}
}

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
		return "the service is shutting down; send the request again"
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
