// Package prose decides which text of a message is content, reasoning between tags, or an
// imitated marker (contract sections 1 and 4).
//
// A State follows the message rune by rune, text by text: a text is the content of one
// chunk, the inside of a JSON string. State.Read fills the State's Reading with the parts
// of the text that are content or reasoning, and the fate of the texts that are held back.
// It writes nothing, ends no tool, and knows nothing of frames: the caller applies the
// Reading, in order, before the next Read. Split does the same to a complete text.
//
//	prose.go     State: the walk over a text; Split: a complete text
//	reading.go   Reading: the parts of a text, and Kept, the rest of one
//	tags.go      where reasoning begins and ends
//	fence.go     Fence: code blocks that are open
//
// Held texts are decided at most once a Read, before anything of the new text. At most
// marker.MaxHeldLine bytes are suspected at once; the caller bounds the frames around
// them. A Read takes time linear in the text, and uses the room of the last Reading again
// until Trim.
package prose
