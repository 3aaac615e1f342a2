// Package proxy puts the engine of package rewrite between a net/http handler
// that proxies an event stream and its client, and heals the histories that
// requests carry. It knows nothing of Caddy: what it guards may be Caddy's
// reverse_proxy, httputil.ReverseProxy, or anything else that writes to an
// http.ResponseWriter.
//
//	proxy.go       Proxy.Serve, the guard: who recovers what
//	request.go     what the request says, and what upstream gets of it
//	requestbody.go its body, healed, and given back when nobody has taken it
//	readbody.go    how it is read
//	heldbody.go    what has been read, for as long as somebody may ask for it
//	upload.go      what is still being sent, and whose failure that is
//	writer.go      the http.ResponseWriter that upstream's answer is written to
//	guard.go       its lock, and panics, and deadlines of writes
//	header.go      which answers are streams, and what becomes of their header
//	stream.go      the stream in it: feed, finish, keepalive
//	buffers.go     what it is repaired into
//	whole.go       an answer that is not streamed
//	object.go      where its object ends
//	watch.go       the deadlines of a stream, on one timer
//	answer.go      the JSON error in the answer's stead
//	reach.go       whether the agent may have got the request
//	drain.go       the open streams of a process, and its end
//	options.go     Options, and the clock
//	usage.go       the memory of who reports usage
//	observe.go     what is told while a stream runs
//	record.go      a stream as upstream sent it, for a file
//	result.go      what is told when an answer has ended
package proxy
