// Package resume lets an answer outlive its connection. It stands in front of any net/http
// handler that answers with event streams, such as package proxy around a reverse proxy. If
// a request asks for it, its stream gets an id, and each of its events a number; the events
// are kept in a log. When the client leaves, the handler goes on without it for a while. The
// client continues after the last event that it has, or sends its request again, and the
// handler is not asked a second time. docs/resume.md has what goes over the wire.
//
//	resume.go, options.go    New and Serve: which log a request gets
//	sdk.go                   what SDKs repeat, and answers that are no event streams
//	request.go, problem.go   what a request asks for, and who asks; refusals
//	responses.go             responses of /v1/responses by their own ids
//	configured.go            what the site's configuration asks for in its place
//	read.go                  how clients read logs
//	run.go                   a call of the handler, and the http.ResponseWriter in it
//	split.go                 a call that goes on in another log
//	presence.go              how long that goes on without a client
//	finish.go                the end of a stream that was cancelled
//	runs.go                  all runs of the process
//	number.go, place.go      the ids of events and of streams
//	events.go, seen.go       the events of Hermes' runs: read once, for all clients
//	store.go                 the interfaces of storages
//	memory.go, log.go        the storage in this process
//	segments.go              the bytes of a log there
//
// The handler runs in a goroutine of its own, with a request that its clients cannot cancel,
// and alone writes to the log. Clients read the log, each in the goroutine of its request,
// the first one included. Only an answer that turns out to be no event stream, and is none of an
// SDK's request, is written to the first client directly, and that waits for the handler.
//
// A storage may hold its lock while it calls readersChanged or cancel of a run, so neither calls
// a storage.
package resume
