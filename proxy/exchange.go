package proxy

import (
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// exchange is a request under guard and what has become of it: what all kinds of
// answers share. The lock of its responseWriter is held whenever it is used, but for
// header and reach. Its responseWriter chooses the answer; from then on the
// answer alone enters the phases of times, and writes to the client.
type exchange struct {
	flushed  bool   // a stream has been, and is with each write from then on
	chat     bool   // the request is one for chat completions
	noStream bool   // it was read, and does not ask for a stream
	running  bool   // the next handler has it: the agent may be running
	passes   bool   // the answer is passing
	answer   answer // nil before the final status
	client   client
	p        *Proxy
	since    time.Time      // the request came
	times    deadline.State // what the deadlines count from
	observer AnswerObserver // nil as long as nobody is told of the answer
	header   http.Header    // the handler's own, for its goroutine alone
	reach    reach
}

// age returns the time since the request came.
func (x *exchange) age() time.Duration { return x.p.o.Clock.Since(x.since) }

// upstream names the upstream that answers. It is asked for in the handler's goroutine: a
// timer, which may end the stream, must not look at what handlers have set.
func (x *exchange) upstream() string { return x.p.o.Upstream(x.client.r) }

// usage returns the memory of the usage that the upstream has reported, nil when there is
// none.
func (x *exchange) usage(upstream string) rewrite.UsageMemory {
	if x.p.o.Usage == nil {
		return nil
	}
	return x.p.o.Usage(upstream)
}

// completedHeader is the header in which an upstream says whether its agent has
// ended well. One that has it reports its failures itself (contract section 3,
// third rule of "false stop").
const completedHeader = "X-Hermes-Completed"

// recordCompletedHeader records what the header of the answer says of its upstream.
func (x *exchange) recordCompletedHeader() {
	if _, says := x.client.w.Header()[completedHeader]; says && x.chat && x.p.o.Usage != nil {
		x.usage(x.upstream()).ReportsFailures(true)
	}
}
