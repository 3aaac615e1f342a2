// Package resume lets an answer outlive its connection. It stands in front of any
// net/http handler that answers with event streams, such as package proxy around a
// reverse proxy. If a request asks for it, its stream gets an id, and each of its events
// a number; the events are kept in a log. When the client leaves, the handler goes on
// without it for a while. The client continues behind the last event that it has, or
// sends its request again, and the handler is not asked a second time. docs/resume.md
// has what goes over the wire.
//
//	resume.go, options.go     New and Serve: which requests are ours
//	request.go                what a request asks for, and who asks
//	run.go, writer.go         the handler's goroutine, and the http.ResponseWriter in it
//	panic.go                  panics that go on in another goroutine
//	runs.go                   those under way in the process: their number, their end
//	number.go, finish.go      the ids of events; an error finish
//	direct.go                 what the handler's goroutine sends itself
//	follow.go, problem.go     what a client gets of a log, or instead of one
//	store.go                  the interface of what keeps logs: Store, Log, Reader, Run
//	memory.go, log.go         the one in this process
//	waits.go                  what its runs wait for before it lets go of events
//	segments.go               the bytes of a log there
//
// The handler runs in a goroutine of its own, with a request that its clients cannot
// cancel, and alone writes to the log. Clients read the log, each in the goroutine of its
// request: a slow one holds up nobody else. As long as the first client is the only one,
// the handler's goroutine writes to it directly. An answer that turns out to be no event
// stream is written to the first client directly, and that waits for the handler.
package resume
