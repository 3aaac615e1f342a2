package prose

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"

// suspicion is what the end of a text may be, so that it has to be held back. The zero
// value suspects nothing.
type suspicion struct {
	kind    suspect
	here    bool        // it begins in the text under way, not in one that is held
	from    int         // where, in the data
	tagSize int         // how many bytes of what may be a tag have come
	line    marker.Line // what may be an imitated marker
}

type suspect uint8

const (
	nothing suspect = iota
	aMarker
	aTag
)

// begin begins to suspect what at i begins.
func (s *suspicion) begin(of suspect, i int) {
	s.kind, s.here, s.from, s.tagSize = of, true, i, 1
	if of == aMarker {
		s.line.Start()
	}
}

// clear ends the suspicion.
func (s *suspicion) clear() { s.kind, s.here = nothing, false }

// held reports whether what is suspected begins in a text that is held.
func (s *suspicion) beganBefore() bool { return s.kind != nothing && !s.here }

// size returns how many bytes of what is suspected have come.
func (s *suspicion) size() int {
	if s.kind == aTag {
		return s.tagSize
	}
	return s.line.Size()
}

// complete reports whether the line under suspicion, if it ended here, would be a
// marker.
func (s *suspicion) complete() bool { return s.kind == aMarker && s.line.Complete() }
