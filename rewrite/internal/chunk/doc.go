// Package chunk reads and edits the frames of a chat stream. It knows the members of a
// chunk, a tool event or an error, and how to edit them. It does not decide what becomes
// of a frame.
//
//	chunk.go     Chunk: the members of the object in a frame's data, by position
//	frame.go     Frame: a frame and its Chunk, and questions about them
//	object.go    Object: a Frame and the edits that it leaves with
//	redact.go    edits that take secrets out of the frames of any stream
//	text.go      the texts of an answer, and the secrets in them
//	failure.go   Hermes' own texts about a failed agent
//
// Chunk.Parse checks a frame's JSON and locates its members in one pass. Everything else
// works on positions. An Object holds nothing between two frames but room.
package chunk
