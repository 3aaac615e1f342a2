package rewrite

import (
	"fmt"
	"slices"
)

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

// The sections of the contract that notes name.
const (
	sectionHarm      = "0"
	sectionMarkers   = "1"
	sectionTools     = "2"
	sectionEnd       = "3"
	sectionReasoning = "4"
	sectionOther     = "6"
)

// note notes what is done to the piece under way, once. What costs something to
// say is said with notef, behind explains.
func (s *Stream) note(section, text string) {
	if n := (Note{section, text}); s.p.explain != nil && !slices.Contains(s.notes, n) {
		s.notes = append(s.notes, n)
	}
}

func (s *Stream) explains() bool { return s.p.explain != nil }

func (s *Stream) notef(section, format string, args ...any) {
	s.note(section, fmt.Sprintf(format, args...))
}

// explain does step to the piece in and explains it.
func (s *Stream) explain(in []byte, step func()) {
	if s.p.explain == nil {
		step()
		return
	}
	s.notes = s.notes[:0]
	from := len(s.out)
	step()
	s.p.explain(Step{In: in, Out: s.out[from:], Held: in != nil && s.framing.IsHeld(), Notes: s.notes})
}
