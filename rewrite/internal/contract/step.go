package contract

import "slices"

// Step is what became of a piece of upstream's stream: of a frame, of comments,
// of a part of a frame that is too large, or of upstream's end.
type Step struct {
	// In is the piece as upstream sent it, nil at upstream's end.
	In []byte
	// Out is what left for it. Frames that were held back are in the Out of
	// the step with which they leave. Both are only valid during the call.
	Out []byte
	// Held says that the piece is held back, as a whole or what is left of it.
	Held bool
	// Notes say what was done, and by which rule. Without any the piece left
	// as it came.
	Notes []Note
}

// Note is something that was done.
type Note struct {
	// Section is that of the wire contract which says so, such as "1".
	Section string
	// Text says what, in a few words. It may quote names of tools and codes,
	// nothing of what was said.
	Text string
}

// The sections of the contract that a Note may name.
const (
	SectionHarm      = "0"
	SectionMarkers   = "1"
	SectionTools     = "2"
	SectionEnd       = "3"
	SectionReasoning = "4"
	SectionOther     = "6"
)

// Notes are what is done to the piece under way. A nil *Notes belongs to a stream of which
// nobody asks for an explanation: then to add one does nothing.
type Notes struct{ list []Note }

// Add adds a note, once.
func (n *Notes) Add(section, text string) {
	if n == nil {
		return
	}
	if note := (Note{section, text}); !slices.Contains(n.list, note) {
		n.list = append(n.list, note)
	}
}

// List returns the notes, which are valid until Reset.
func (n *Notes) List() []Note { return n.list }

// Reset begins with another piece.
func (n *Notes) Reset() { n.list = n.list[:0] }
