// Package rewrite repairs the event stream of a chat completion that the
// Hermes agent wrote: it takes tool markers and reasoning out of the content,
// correlates the starts and ends of tools, and turns a crash into an error
// finish. The wire contract says what it does. Comments name its sections.
//
// The caller pushes: Stream.Feed takes bytes as they come and appends
// what may leave to a buffer of the caller's, and Stream.Finish says how upstream
// ended. The package knows nothing of HTTP and reads no clock. The same bytes in give the
// same bytes out, however they are cut. Heal takes the markers of earlier streams out of
// the history that a request carries, and RepairAnswer repairs answers that are not
// streamed.
//
// This package is the front: api.go is the vocabulary, stream.go hands each unit of
// a stream to the package that it belongs to. Each of these imports only those below it:
//
//	internal/chat       what becomes of a frame of a chat stream
//	internal/agentapi   the end that the other streams of Hermes lack
//	internal/whole      histories, and answers that are not streamed
//	internal/chunk      what a frame says, and the edits that it leaves with
//	internal/prose      which text is content, reasoning, a marker or code
//	internal/contract   options, codes, messages: what every package may know
//	internal/redact     what a secret is
//	internal/marker     what a tool marker is, and which tool it stands for
//	internal/jsonspan   values of JSON by position, and the runes of its strings
//	sse                 bytes to frames and fields, and back; useful elsewhere, too
package rewrite
