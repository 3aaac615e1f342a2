// Package proxy puts the engine of package rewrite between a net/http handler
// that proxies an event stream and its client, and heals the histories that
// requests carry. It knows nothing of Caddy: the handler may be Caddy's
// reverse_proxy, httputil.ReverseProxy, or any other that writes to an
// http.ResponseWriter.
//
// A request and its answer are one exchange, with one lock. Its files, each of
// which uses only those below it:
//
//	proxy.go       its life: New, Serve, its end
//	writer.go      its HTTP surface, which the next handler writes to
//	timer.go       its timer: deadlines, keepalives, the drain
//	stream.go      its answers: an event stream, which the engine repairs
//	answer.go      one that is not streamed, or passes
//	failure.go     an error instead of one
//	exchange.go    its state, its lock, and its client
//	deadline.go    its deadlines, as ages
//	request.go     its request: the one that upstream gets, and whether it has got it
//	options.go     the options, and the Observer in observer.go
//	streams.go     the set of the requests under way, and their drain
//
//	internal/reqbody    the body of a request: read, healed, given back
//	internal/head       headers, and how they are copied
package proxy
