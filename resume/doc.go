// Package resume lets an answer outlive its connection. It stands in front of any net/http
// handler that answers with event streams, such as package proxy around a reverse proxy. A
// request may ask for a log: then its stream gets an id, each event gets a number, and the log
// keeps the events. When the client leaves, the handler goes on without it for a while. The
// client continues after the last event that it has, or sends its request again, and the
// handler is not called a second time. docs/resume.md describes the requests and answers.
//
//	resume.go, options.go    New and Serve: which log a request gets
//	responses.go, name.go    responses of /v1/responses by their own ids
//	events.go, seen.go       the events of Hermes' runs: read once, for all clients
//	split.go                 a run that goes on in another log
//	run.go                   a call of the handler, for its first client
//	runs.go, stats.go        all runs of the process, and their counters
//	read.go                  how clients read logs
//	sought.go                the place in a log that a client asks for
//	request.go               what a request asks for
//	key.go, entry.go         the log of a request: its owner, its key, its description
//	problem.go               the errors that clients get
//	answer.go, again.go      the http.ResponseWriter of the handler, for its goroutine alone
//	life.go                  how long a run goes on without a client
//	finish.go                the end of a stream that was cancelled
//	number.go                the ids of events
//
// Package log keeps the logs.
//
// The handler runs in a goroutine of its own, with a request that its clients cannot cancel, and is
// the only writer of the log. Each client, the first one included, reads the log in the goroutine
// of its request. An answer that is not an event stream goes directly to the first client, which
// waits for the handler, unless it is kept for an SDK (request.go).
//
// A storage may hold its lock while it calls the functions of a Run, so they call no storage.
package resume
