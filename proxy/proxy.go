// Package proxy repairs the answers of a Hermes agent that an HTTP handler proxies, and heals the
// histories in the requests. The handler may be httputil.ReverseProxy, Caddy's reverse_proxy, or any
// other that writes to an http.ResponseWriter.
//
//	p := proxy.New(proxy.DefaultOptions())
//	http.ListenAndServe("127.0.0.1:8643", p.Handler(httputil.NewSingleHostReverseProxy(hermes)))
//
// An event stream is repaired as package rewrite does it, gets keepalives while upstream is silent,
// and has an end even if upstream crashes, breaks off or exceeds a timeout. An answer that is not
// streamed is repaired as a whole. All other answers and requests pass byte for byte.
//
// [DefaultOptions] has the timeouts and keepalives of the contract; in the zero [Options] they are
// off. [Proxy.Serve] is for handlers that return errors: it returns those that the client has not
// been told of, such as a [RequestError] if the client's body cannot be read. A [Proxy] is safe for
// concurrent use. [Streams.Shutdown] ends all streams before the process stops.
//
// [The contract] has the rules: [what passes] (section 0), [timeouts and errors] (3), [histories]
// (5). Package queue/queuehttp limits how many requests a Proxy serves at once, and package resume,
// in front of it, keeps answers for clients that come back.
//
// # Files
//
// A request is read, and then its exchange begins: it goes to the next handler, which answers. The
// exchange and its answer share one lock. A caller of [Proxy.Read] may do its own work in between;
// Serve has none. Each file uses only those below it:
//
//	proxy.go       New and Serve
//	exchange.go    the exchange: its beginning, its end, its state
//	writer.go      its HTTP surface, which the next handler writes to
//	runs.go        what its answer says of the end of a run
//	timer.go       the timer for its deadlines, keepalives and drain
//	stream.go      its answer: an event stream, which the engine repairs
//	answer.go      or one that is not streamed, or passes
//	failed.go      or a failure with a status of its own
//	failure.go     or an error instead
//	begun.go       or any of these after the header of a stream has left
//	request.go     the request: read, healed, and the one that upstream gets
//	client.go      what the client has been sent
//	reach.go       whether upstream has got the request
//	times.go       when the deadlines of an exchange are due
//	kept.go        a body that is kept until its object is complete
//	origins.go     what upstream says to pages of other origins
//	options.go     the options, what upstream learns of a user in identity.go, and the
//	               Observer in observer.go
//	streams.go     the set of the requests under way, and their drain
//
//	internal/reqbody    the body of a request: read, healed, given back
//	internal/head       headers, and how they are copied
//
// [The contract]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md
// [what passes]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#0-do-no-harm
// [timeouts and errors]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#3-the-end-of-a-stream
// [histories]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#5-histories
package proxy

import (
	"net/http"
	"sync"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Proxy guards the streams of a handler. It is safe for concurrent use.
type Proxy struct {
	o     Options
	rooms sync.Pool // of *[]byte, for the bytes that leave with one write of a stream
}

// New returns a Proxy with the options.
func New(o Options) *Proxy {
	if o.Streams == nil {
		o.Streams = new(Streams)
	}
	if o.Origins == nil {
		o.Origins = new(Origins)
	}
	if o.Upstream == nil {
		o.Upstream = func(*http.Request) string { return "" }
	}
	if o.Usage == nil {
		o.Usage = func(string) rewrite.UsageMemory { return nil }
	}
	if o.ErrorStatus == nil {
		o.ErrorStatus = func(error) int { return 0 }
	}
	if o.MaxRequest == 0 {
		o.MaxRequest = DefaultMaxRequest
	}
	return &Proxy{o: o, rooms: sync.Pool{New: func() any { return new([]byte) }}}
}

// Handler returns a handler that guards next.
func (p *Proxy) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An http.Handler cannot return an error.
		_ = p.Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
			next.ServeHTTP(w, r)
			return nil
		})
	})
}

// Serve heals the history that r carries (section 5 of the contract), calls next
// with a writer that repairs the stream it is given, and ends that stream as the
// contract says if next does not (section 3). The body of r may be replaced by
// one that gives the same bytes.
//
// A proxy reports an upstream that died after its header by a panic with http.ErrAbortHandler
// (Caddy: reverseproxy.go:1359-1387; httputil does the same). Serve recovers that panic if the
// answer is a guarded stream (of chat completions, or another that the engine knows) and its client
// is still there. It then also drops an error returned after the header, with which Caddy would
// write an error page into the stream. All other panics go on, with their value and their stack,
// and all other errors are returned.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error) error {
	q, err := p.Read(w, r, nil)
	if q == nil {
		return err
	}
	defer q.Close()
	return q.Serve(next)
}
