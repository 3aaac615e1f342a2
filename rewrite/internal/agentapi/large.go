package agentapi

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// largeFrame is what the beginning of a frame says that passes unexamined. The last event
// repeats the whole answer and may be that large, but must not be missed.
type largeFrame struct {
	open    bool // it has begun and not ended
	comment bool // it is a comment line
	kind    kind
	name    []byte // the name of its event, nil if the beginning does not say
	named   bool   // it has an event line
	tool    openTool
}

// maxLook is the number of bytes that lookAt reads of a large frame at most.
const maxLook = 512

// Raw learns from bytes of a frame that passes unexamined because it is larger than max.
// last says that the frame ends with them. Raw reports whether the bytes are to be
// dropped, because they come after the sidecar's own last event.
func (s *Stream) Raw(b []byte, last bool, max int) (drop bool) {
	if s.ended {
		return s.failedByUs
	}
	if !s.large.open {
		s.large = s.lookAt(b, max)
	}
	if s.large.open = !last; last && !s.large.comment {
		s.largeEnds()
	}
	return false
}

// largeEnds learns from a frame that has passed unexamined to its end.
func (s *Stream) largeEnds() {
	if s.kind == kindUnknown {
		s.kind = s.large.kind
	}
	switch {
	case s.kind == kindUnknown:
	case s.kind == kindSession:
		if s.large.name != nil {
			s.numbers.skip() // the number is at the end of the event: this assumes the next
			s.session.hasError = s.session.hasError || string(s.large.name) == "error"
			s.tool(s.large.name, s.large.tool)
			s.ends(s.large.name)
		}
	case s.large.name == nil:
		s.numbers.skip()
		s.mayHaveEnded = true
	case s.large.kind == s.kind:
		s.numbers.skip()
		s.tool(s.large.name, s.large.tool)
		s.mayHaveEnded = false
		if s.kind == kindResponses {
			s.responses.named = s.large.named
		}
		s.ends(s.large.name)
	}
}

// lookAt reads the beginning of a frame that is larger than max. How much it reads does
// not depend on how much has come, so that any cut of the input has the same result.
func (s *Stream) lookAt(b []byte, max int) largeFrame {
	l := largeFrame{comment: b[0] == ':'}
	if l.comment {
		return l
	}
	var f sse.Frame
	var m members
	chunk.ParseBeginning(&f, b[:min(len(b), max, maxLook)])
	m.parse(f.Data)
	name := f.Event
	if !chunk.IsNamed(&f) {
		name = nil
		if m.typ.IsString(f.Data) {
			name = m.typ.Inner().Of(f.Data)
		}
	}
	switch {
	case s.kind == kindSession:
		l.kind, name = s.kindOf(&m, &f)
	case bytes.HasPrefix(name, []byte(responsePrefix)):
		l.kind, l.named = kindResponses, chunk.IsNamed(&f)
	case name == nil && s.kind == kindRuns:
		if name = m.runEvent(&f); name != nil {
			l.kind = kindRuns
		}
	}
	l.name, l.tool = bytes.Clone(name), m.toolOf(l.kind, f.Data).clone()
	return l
}
