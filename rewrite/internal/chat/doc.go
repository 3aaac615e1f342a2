// Package chat decides what becomes of each frame of a chat stream: it takes markers and
// reasoning out of the content, correlates the starts and ends of tools, and turns a
// crash into an error finish (wire contract, sections 1 to 4).
//
//	stream.go    Stream: unit by unit
//	handler.go   where a frame goes, and chunks
//	work.go      Work: what a frame needs, and what waits
//	text.go      the content of a chunk: read, held, applied
//	hold.go      frames that wait for the end of a line
//	tools.go     open tools, their starts and ends
//	toolevent.go the forms of a tool event
//	upstream.go  tool events of upstream's, and other named events
//	finish.go    finish chunks, errors and error finishes
//	verdict.go   is this stop a crash?
//	template.go  frames that are as the one before but for their text
//	writer.go    what leaves
//
// A Stream has one owner for each thing that it knows: the writer what leaves and the
// envelope, the tools which are open, the text what has been said, the ending how it
// ends, the template what frames look like. Each uses only those named before it. A Work
// belongs to a stream while it handles a frame and while something waits in it; between
// frames most streams have none.
package chat
