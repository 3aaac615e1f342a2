package rewrite

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// maxGrowth is by how many bytes a frame may leave longer than three times what it
// was, with the ends of the tools that are open (contract section 7). What beside
// text and reasoning is written of one frame, such as an error finish, takes the
// rest of the contract's 256 KiB.
const maxGrowth = 236 << 10

// partSize returns how many bytes each part of the content at in takes beside its
// text, when that is taken apart.
func (s *Stream) partSize(in jsonspan.Span) int {
	if s.copies(in) {
		return len(s.f.Raw) - (in.To - in.From) + len("reasoning_content") + len(breakInJSON)
	}
	return len(s.envelope().values) + ownSize
}

// ownSize is how many bytes at most a chunk of our own takes beside the values of
// the envelope, and an event of a tool beside its front and the tool's fields.
const ownSize = 192

// endSize returns how many bytes the event takes which says that a tool has ended,
// beside the tool's own.
func (s *Stream) endSize() int {
	if len(s.tools.open) == 0 || s.form == ProgressOff {
		return 0
	}
	return len(s.toolFront().event) + ownSize
}

// mayStart reports whether one more marker of the content at in, which is trusted,
// may start a tool: its events are longer than it is, and so are the parts of the
// text around it.
func (s *Stream) mayStart(in jsonspan.Span) bool {
	n := 2*s.partSize(in) + 2*(len(s.toolFront().event)+ownSize)
	if s.growth < n {
		return false
	}
	s.growth -= n
	return true
}

// splitMarkers has no part of the content at in that has changed look like a tool's
// marker, whole in a chunk of its own: whoever comes behind us would start a tool
// for it. The newline that it begins with gets a chunk of its own.
func (s *Stream) splitMarkers(in jsonspan.Span) {
	if len(s.parts) == 1 && len(s.cuts) == 0 && !s.parts[0].newline && !s.line.Active() {
		return
	}
	for i := 0; i < len(s.parts); i++ {
		if k := s.kept(in, i); !s.parts[i].reasoning && s.looksLikeMarker(in, i) {
			cuts, at := s.parts[i].cuts, k.From
			if !s.parts[i].newline {
				for at = s.firstOf(k); cuts < len(s.cuts) && s.cuts[cuts].From < at; cuts++ {
				}
				_, at = jsonspan.NextRune(s.f.Data, at)
			}
			i++
			s.parts = slices.Insert(s.parts, i, part{from: at, cuts: cuts})
		}
	}
}

// firstOf returns where the first byte is that is left.
func (s *Stream) firstOf(k kept) int {
	at := k.From
	for _, c := range k.cuts {
		if c.From > at {
			break
		}
		at = c.To
	}
	return at
}

// looksLikeMarker reports whether what leaves of the part i of the content at in, but
// for the line under suspicion, looks like a marker.
func (s *Stream) looksLikeMarker(in jsonspan.Span, i int) bool {
	k := s.kept(in, i)
	if i == len(s.parts)-1 && s.line.Active() && s.lineHere {
		k.To = s.line.From
	}
	if s.parts[i].newline {
		k.front = newlineInJSON
	} else if at := s.firstOf(k); at >= k.To || s.f.Data[at] != '\\' {
		return false
	}
	s.scratch = k.appendTo(s.scratch[:0], s.f.Data)
	_, ok := marker.Whole(s.scratch)
	return ok
}

// endBefore completes tools, the one that is open longest first, that would take too
// much once each event of the stream is longer by so many bytes.
func (s *Stream) endBefore(longer int) {
	for longer > 0 && s.tools.full(s.endSize()+longer) {
		s.complete(0, SourceInferred)
	}
}
