package contract

import "slices"

// Step says what became of a piece of upstream's stream. A piece is a frame, comments,
// a part of a frame that is too large, or the end of the stream.
type Step struct {
	// In is the piece as upstream sent it, nil at upstream's end.
	In []byte
	// Out is what left for it. Frames that were held back are in the Out of
	// the step with which they leave. In and Out are only valid during the call.
	Out []byte
	// Held says that the piece, or what is left of it, is held back.
	Held bool
	// Notes say what was done, and by which rule. If there are none, the piece left
	// as it came.
	Notes []Note
}

// Note says one thing that was done to a piece.
type Note struct {
	// Section is the section of the wire contract that the rule is in, such as "1".
	Section string
	// Text says what was done, in a few words. It may quote names of tools and codes,
	// but nothing that the user or the agent said.
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

// Notes collects what is done to the current piece. A nil *Notes is that of a stream
// that nobody wants explained: Add does nothing.
type Notes struct{ list []Note }

// Add adds a note unless there is an equal one.
func (n *Notes) Add(section, text string) {
	if n == nil {
		return
	}
	if note := (Note{section, text}); !slices.Contains(n.list, note) {
		n.list = append(n.list, note)
	}
}

// List returns the notes. They are valid until Reset.
func (n *Notes) List() []Note { return n.list }

// Reset drops the notes, for the next piece.
func (n *Notes) Reset() { n.list = n.list[:0] }
