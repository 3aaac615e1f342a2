package proxy

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// exchange is a request under guard and what has become of it: what all kinds of
// answers share. The lock of its responseWriter is held whenever it is used, but for
// flushed, header and reach. Its responseWriter chooses the answer; from then on the
// answer alone enters the phases of times, and writes to the client.
type exchange struct {
	flushed  atomic.Bool // a stream has been, and is with each write from then on
	chat     bool        // the request is one for chat completions
	noStream bool        // it was read, and does not ask for a stream
	running  bool        // the next handler has it: the agent may be running
	passes   bool        // the answer is passing
	answer   answer      // nil before the final status
	client   client
	p        *Proxy
	since    time.Time      // the request came
	times    deadline.State // what the deadlines count from
	observer AnswerObserver // nil as long as nobody is told of the answer
	header   http.Header    // the handler's own, for its goroutine alone; nil once it is dropped
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

// dropHeader drops the handler's header once that of a chat stream has left, unless
// it says something of trailers: a stream takes less memory without. Whoever asks
// for it again gets a new one, and sets trailers there.
func (x *exchange) dropHeader() {
	if x.chat && x.client.committed && !head.HasTrailers(x.header) {
		x.header = nil
	}
}

// giveBack gives a buffer back, of which used has been written to the client. After a write
// that failed nobody else gets it: a server of HTTP/2 may still be sending it (net/http:
// h2_bundle.go:5149).
func (x *exchange) giveBack(b *buffer, used []byte) {
	if x.client.err == nil {
		x.p.buffers.put(b, used)
	}
}
