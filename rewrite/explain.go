package rewrite

import (
	"fmt"
	"slices"
)

// note notes what is done to the piece under way, once. What costs something to
// say is said with notef, behind explains.
func (s *Stream) note(section, text string) {
	if n := (Note{Section: section, Text: text}); s.p.explain != nil && !slices.Contains(s.notes, n) {
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
