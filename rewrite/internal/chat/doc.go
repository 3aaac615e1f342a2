// Package chat decides what becomes of each frame of a chat stream: it takes markers and
// reasoning out of the content, correlates the starts and ends of tools, and turns a
// crash into an error finish (wire contract, sections 1 to 4).
//
//	stream.go    Stream: unit by unit
//	template.go  frames that differ from the one before in nothing but their text
//	handler.go   where a frame goes, and chunks
//	upstream.go  upstream's tool events and other named events
//	text.go      the content of a chunk: read, held, applied
//	hold.go      frames that wait for the end of a line
//	tools.go     open tools, their starts and ends
//	toolevent.go the forms of a tool event
//	large.go     frames that are larger than max_frame
//	cards.go     tool events as cards
//	finish.go    finish chunks, errors and error finishes
//	verdict.go   whether a stop is false
//	writer.go    what leaves, and chunks of our own
//	work.go      Work: what a frame needs, and what waits
//
// A Stream consists of parts, each of which owns its state. A part uses only those named
// before it, as arguments:
//
//	writer w    what leaves, and the envelope of our own frames
//	tools l     which tools are open
//	text t      what the message has said, and where in it the stream is
//	ending e    how the stream ends
//	template p  what frames look like
//
// The Work k has the Object x of the current frame, the Reading of its text, and the
// frames that are held back. A stream needs one while it handles a frame and as long as
// something waits in it (Work.Waits). Between frames most streams have none.
//
// A Stream takes 552 bytes, and what it remembers: the values of the envelope, a template
// of at most MaxTemplate bytes, open tools, the ids of at most MaxEndedTools ended ones,
// and upstream's usage and error. A Work takes 1.3 KiB, and the buffers that it keeps. A
// frame that passes because it matches the template needs no Work, and some 50 ns.
package chat
