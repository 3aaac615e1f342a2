// Package proxy puts the engine of package rewrite between a net/http handler
// that proxies an event stream and its client, and heals the histories that
// requests carry. It knows nothing of Caddy: what it guards may be Caddy's
// reverse_proxy, httputil.ReverseProxy, or anything else that writes to an
// http.ResponseWriter.
//
//	proxy.go, options.go      New and Serve: a request from its beginning to its end
//	request.go, reach.go      what upstream gets of it, and whether it has got it
//	requesterror.go           whose failure one is while the request is read
//	writer.go, guard.go       the http.ResponseWriter, its lock, and panics under that
//	watch.go, drain.go        timers: the deadlines, and the end of the process
//	exchange.go, failure.go   what all kinds of answers share; an error instead of one
//	client.go, header.go      what has left for the client
//	answer.go                 the kinds of answers, and one that passes
//	stream.go, buffers.go     one that the engine repairs
//	whole.go, object.go       one that is not streamed
//	observer.go, result.go    what is told of all that, and streamobserve.go of a stream
//
//	internal/reqbody          the body of a request: read, healed, given back
//	internal/deadline         what is due when
//	internal/head             headers, and how they are copied
//
// An exchange, which is a request and its answer, has one lock: that of its
// responseWriter. The handler and timers write to the client under it, but for an
// answer that passes.
package proxy
