// Package chunk reads and edits the frames of a chat stream. It knows the members of a
// chunk, a tool event or an error, and how to edit them. It does not decide what becomes
// of a frame.
//
//	chunk.go     Chunk: the members of the object in a frame's data, by position
//	object.go    Object: a frame, its Chunk, and the edits that it leaves with
//	redact.go    edits that take secrets out of the frames of any stream
//	text.go      the texts of an answer, and the secrets in them
//	failure.go   Hermes' own texts about a failed agent
//
// Steps that may make many edits come first, one after the other: each makes its edits and
// parses the frame again, so that none has to know of another's. Positions are those of the
// frame as it then is. An Object holds nothing between two frames but room.
package chunk
