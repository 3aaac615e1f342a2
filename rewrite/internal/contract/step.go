package contract

import "slices"

// Step is rewrite.Step.
type Step struct {
	In    []byte
	Out   []byte
	Held  bool
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

// Notes explains a stream. A nil *Notes is that of a stream without an explanation:
// Add does nothing.
type Notes struct {
	Explain func(Step)
	List    []Note // the changes to the current piece
}

// Add adds a note unless there is an equal one.
func (n *Notes) Add(section, text string) {
	if n == nil {
		return
	}
	if note := (Note{section, text}); !slices.Contains(n.List, note) {
		n.List = append(n.List, note)
	}
}
