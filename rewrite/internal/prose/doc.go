// Package prose tells what the text of a message is: content, reasoning between
// tags, or an imitated marker (contract sections 1 and 4).
//
// A State follows the text rune by rune, chunk by chunk. State.Read answers with a
// Reading: the parts of a text that are content or reasoning, what leaves it, and
// what becomes of texts that have been held back before. It writes nothing, ends no
// tool, and knows nothing of frames: the caller applies the Reading, in order, and
// before the next one. Split does the same to a whole text at once.
//
//	prose.go    State: the walk over a text
//	stretch.go  reasoning between tags, taken out of it
//	reading.go  Reading: what a text is, and what waits for the next
//	suspicion.go what the end of a text may be
//	kept.go     what is left of a text
//	tags.go     which tag is one
//	fence.go    open code fences
//	split.go    Split: a whole text
//
// A stream keeps a State for as long as it lasts, 56 bytes, and a Reading only while
// that waits. Held texts are decided at most once a Read, before anything of the
// text that it is given.
package prose
