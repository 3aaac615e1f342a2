// Package resume keeps answers for clients whose connection breaks. It stands in front of any
// net/http handler that answers with event streams, such as package proxy around a reverse proxy.
//
//	h := resume.New(resume.DefaultOptions()).Handler(next)
//
// A POST asks for its stream to be kept by an Idempotency-Key or X-Hermes-Detach, and OpenAI's SDKs
// ask by the count of their retries; [Options.Always] and [Options.Key] ask on behalf of clients that
// cannot. The stream then has an id, and each event a
// number. When the client disconnects, the handler continues without it, for at most
// [Options.Detach]. The client reads on after the last event that it has received (Last-Event-ID),
// or sends its request again: it gets the same answer, and the handler is not called a second time.
// A request that asks for none of this goes to the handler unchanged.
//
// [DefaultOptions] keeps streams in memory, each for five minutes after its end, 64 MiB in all.
// Package resume/redis keeps them in Redis, where other replicas find them. A request that cannot
// be answered from a log gets a problem (RFC 9457). [Resume.Serve] returns the handler's errors as
// long as the client that the handler was called for is connected; [Options.Ended] gets all others.
// A [Resume] is safe for concurrent use. The handler runs in a goroutine of its own, with a request
// that the client cannot cancel; before the process stops, call [Runs.Shutdown] and [Runs.Wait].
//
// [The documentation] describes each request and answer, and [the contract] the streams of Hermes
// and [their end] (section 3).
//
// # Files
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
// Package resume/log contains the logs.
//
// Only the handler's goroutine writes the log. Each client, the first one included, reads the log in
// the goroutine of its request. An answer that is not an event stream goes directly to the first
// client, which waits for the handler, unless the answer is kept for an SDK (request.go).
//
// A storage may hold its lock while it calls the functions of a Run, so they call no storage.
//
// [The documentation]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/resume.md
// [the contract]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md
// [their end]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#3-the-end-of-a-stream
package resume
