// Package rewrite repairs the event stream of a chat completion that the
// Hermes agent wrote: it takes tool markers and reasoning out of the content,
// correlates the starts and ends of tools, and turns a crash into an error
// finish. What it does is written in the wire contract, whose sections the
// comments name.
//
// Below it are packages that know less: internal/contract, the vocabulary; sse, bytes to frames and fields, and what is
// replaced in them; internal/marker, what a tool marker is; internal/redact, what a
// secret is; internal/jsonspan, values of JSON and runes of its strings, by
// position, and whether they are well formed.
//
// The engine is push style: Stream.Feed takes bytes as they come and appends
// what may leave to a buffer of the caller's, Stream.Finish says how upstream
// ended. It knows nothing of HTTP and reads no clock. Same bytes in, same bytes
// out, however they were cut. Beside it stand Heal, which takes the markers of
// earlier streams out of the history that a request carries, and RepairAnswer,
// for answers that are not streamed.
//
//	json.go       strings of JSON
//	chunk.go      members    → a chunk
//	chunkframe.go what becomes of a chunk
//	imitation.go  a line that looks like a marker     (contract section 1)
//	parts.go      a content that is text, tools and reasoning
//	growth.go     how much longer that may leave       (contract section 7)
//	tags.go       text         → content and reasoning (contract section 4)
//	thought.go    reasoning that leaves the content
//	fence.go      open code fences
//	pattern.go    frames that are as the one before, but for their text
//	lines.go      text that is of no consequence but for its lines
//	hold.go       frames that wait for the end of a line
//	lifecycle.go  open tools and their ends           (contract section 2)
//	progress.go   the forms of a tool event
//	toolfront.go  what tool events have in common
//	named.go      named events that are none
//	observe.go    what is told of tools
//	explain.go    what was done, and by which rule
//	envelope.go   the members that every chunk has
//	verdict.go    is this stop a crash?               (contract section 3)
//	finish.go     finish chunks and error finishes
//	fault.go      what a chunk says of an error
//	other.go      streams that are none of chat completions, and their end
//	responses.go  those of /v1/responses
//	runs.go       those of /v1/runs/{id}/events
//	sessions.go   those of /api/sessions/{id}/chat/stream
//	large.go      their frames that are larger than max_frame
//	redactframe.go what says something of a failure
//	history.go    the history that a request carries  (contract section 5)
//	healtext.go   marker lines in a text of it
//	answer.go     an answer that is not streamed
//	separate.go   content and reasoning of a whole text
//	dispatch.go   which of these a frame goes to
//	api.go        what is exported of the packages below
//	stream.go     Stream: bytes in, bytes out
//	work.go       what a Stream needs while it handles a frame, and not between
//	edit.go       members of a frame replaced, added and removed
package rewrite
