// Package chat decides what becomes of each frame of a chat stream: it takes markers and
// reasoning out of the content, correlates the starts and ends of tools, and turns a
// crash into an error finish (wire contract, sections 1 to 4). Package encode writes the
// frames.
//
//	frame.go     every unit of a stream: where it goes
//	chunks.go    chunks
//	events.go    upstream's tool events, other named events and errors
//	large.go     frames that are larger than max_frame
//	ending.go    finish chunks and error finishes
//	template.go  frames that differ from the one before in nothing but their text
//	text.go      the content of a chunk: read, held, applied
//	stream.go    Stream: its state, and what all of these do with it
//	hold.go      frames that wait for the end of a line
//	tools.go     tools: which are open, and the transitions that follow
//	verdict.go   evidence and verdict: whether a stop is false
//	kind.go      what a frame is
//
// Each file knows those below it.
//
// A frame takes one of two ways. If it differs from the one before in nothing but its
// text, Pass forwards it. Otherwise Frame parses it, and asks the parts of the stream:
// tools, the prose of the message and the evidence of its end return values, which know
// nothing of frames. Stream hands these values to its encode.Writer, in order.
//
// A Stream takes about 2 KiB, and what it remembers: the values of the envelope, a
// template of at most MaxTemplate bytes, open tools, the ids of at most MaxEndedTools
// ended ones, upstream's usage and error, and the held frames.
package chat
