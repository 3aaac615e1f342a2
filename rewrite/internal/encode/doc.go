// Package encode writes what leaves a chat stream: upstream's frames with their edits, and
// the sidecar's own, in the form that the client asked for. It decides nothing about a
// stream: its callers hand it values that say what has happened.
//
//	writer.go    Writer: frames, and chunks of the sidecar's own
//	envelope.go  Envelope: the members that every chunk of a stream has
//	tool.go      Transition: a tool starts or ends, in every form
//	card.go      tool events as cards
//	named.go     upstream's other named events
//	finish.go    Failure: error frames and error finishes
package encode
