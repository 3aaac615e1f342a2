// Package resume lets an answer outlive its connection. It stands in front of any net/http
// handler that answers with event streams, such as package proxy around a reverse proxy. A
// request may ask for a log: then its stream gets an id, each event gets a number, and the log
// keeps the events. When the client leaves, the handler goes on without it for a while. The
// client continues after the last event that it has, or sends its request again, and the
// handler is not called a second time. docs/resume.md describes the requests and answers.
//
//	resume.go, options.go    New and Serve: which log a request gets
//	sdk.go                   repeats of SDKs, and answers that are not event streams
//	request.go, problem.go   what a request asks for, and its owner; problems
//	responses.go             responses of /v1/responses by their own ids
//	configured.go            keys and times from the site's configuration
//	read.go                  how clients read logs
//	run.go                   a call of the handler, and its http.ResponseWriter
//	split.go                 a call that goes on in another log
//	presence.go              how long a call goes on without a client
//	finish.go                the end of a stream that was cancelled
//	runs.go                  all runs of the process
//	number.go                the ids of events
//	events.go, seen.go       the events of Hermes' runs: read once, for all clients
//	entry.go                 what is known about a log
//	sought.go                the place in a log that a client asks for
//
// Package log keeps the logs.
//
// The handler runs in a goroutine of its own, with a request that its clients cannot cancel, and is
// the only writer of the log. Each client, the first one included, reads the log in the goroutine
// of its request. An answer that is not an event stream goes directly to the first client, which
// waits for the handler, unless it is kept for an SDK (sdk.go).
//
// A storage may hold its lock while it calls the functions of a Run, so they call no storage.
package resume
