// Package rewrite repairs the event stream of a chat completion that the
// Hermes agent wrote: it takes tool markers and reasoning out of the content,
// correlates the starts and ends of tools, and turns a crash into an error
// finish. What it does is written in the wire contract, whose sections the
// comments name.
//
// The engine is push style: Stream.Feed takes bytes as they come and appends
// what may leave to a buffer of the caller's, Stream.Finish says how upstream
// ended. It knows nothing of HTTP and reads no clock. Same bytes in, same bytes
// out, however they were cut. Beside it stand Heal, which takes the markers of
// earlier streams out of the history that a request carries, and RepairAnswer,
// for answers that are not streamed.
//
// This package is the front: api.go is the vocabulary, stream.go hands each unit of
// a stream to where it belongs. Packages below import only those that stand below
// them:
//
//	internal/chat       what becomes of a frame of a chat stream
//	internal/agentapi   the end that other streams of Hermes' lack
//	internal/whole      histories, and answers that are not streamed
//	internal/chunk      what a frame says, and the edits that it leaves with
//	internal/prose      which text is content, reasoning, a marker or code
//	internal/contract   options, codes, messages: what every package may know
//	internal/redact     what a secret is
//	internal/marker     what a tool marker is, and of which tool
//	internal/jsonspan   values of JSON by position, and runes of its strings
//	sse                 bytes to frames and fields, and back; of use to others
package rewrite
