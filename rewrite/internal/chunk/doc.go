// Package chunk reads the frames of a chat stream and writes ours: what a chunk, a
// tool event or an error says, the edits that it leaves with, and what the chunks of a
// stream have in common.
//
//	chunk.go     Chunk: the members of a frame's object, by position
//	fault.go     what it says of an error
//	frame.go     Frame: a frame and its members, and what they say
//	object.go    Object: a frame and the edits that it leaves with
//	content.go   what is left of its content
//	redact.go    what it says of a failure, without secrets
//	envelope.go  Envelope: the members that every chunk of a stream has
//	own.go       frames of our own
//
// Chunk and Object hold nothing between two frames. An Envelope is a stream's: about
// 100 bytes once a chunk has come whose values it has.
package chunk
