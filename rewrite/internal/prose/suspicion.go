package prose

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"

// suspicion is what the end of a text may be, so that the text has to be held back. The
// zero value suspects nothing.
type suspicion struct {
	kind suspect
	here bool        // what is suspected begins in the current text, not in a held one
	from int         // where it begins in the data, as far as it is in the current text
	line marker.Line // what may be an imitated marker
}

// suspect is a kind of suspicion.
type suspect uint8

const (
	nothing suspect = iota
	aMarker
	aTag
)

// begin suspects that a marker or a tag begins at i.
func (s *suspicion) begin(kind suspect, i int) {
	s.kind, s.here, s.from = kind, true, i
	if kind == aMarker {
		s.line.Start()
	}
}

// clear ends the suspicion.
func (s *suspicion) clear() { s.kind, s.here = nothing, false }

// beganBefore reports whether what is suspected begins in a held text.
func (s *suspicion) beganBefore() bool { return s.kind != nothing && !s.here }

// complete reports whether the suspected line is a marker if it ends here.
func (s *suspicion) complete() bool { return s.kind == aMarker && s.line.Complete() }
