package agentapi

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// largeFrame is what the beginning of a frame says that passes unexamined. The last event
// repeats the whole answer and may be that large, but must not be missed.
type largeFrame struct {
	comment bool // it is a comment line

	kind  kind
	name  []byte // the name of its event, nil if the beginning does not say
	named bool   // it has an event line
	tool  openTool
}

// maxLook is the number of bytes that lookAt reads of a large frame at most.
const maxLook = 512

// Raw learns from bytes of a frame that passes unexamined because it is larger than the limit.
// last says that the frame ends with them. Raw reports whether the bytes are to be
// dropped, because they come after the sidecar's own last event.
func (s *Stream) Raw(b []byte, last bool, limit int) (drop bool) {
	if s.ended {
		return s.failedByUs
	}
	if s.large == nil {
		s.large = s.lookAt(b[:min(len(b), limit, maxLook)])
	}
	if last && !s.large.comment {
		s.largeEnds(s.large)
	}
	if last {
		s.large = nil
	}
	return false
}

// largeEnds learns from a frame that has passed unexamined to its end.
func (s *Stream) largeEnds(l *largeFrame) {
	if s.kind == kindUnknown {
		s.kind = l.kind
	}
	if s.kind == kindUnknown || s.kind == kindSession && l.name == nil {
		return
	}
	if l.name != nil && l.kind != s.kind {
		return
	}
	s.id.next++ // the number is not known: this assumes the next
	s.seq.next++
	if s.mayHaveEnded = l.name == nil; s.mayHaveEnded {
		return
	}
	s.named = l.named
	s.hasError = s.hasError || s.kind == kindSession && string(l.name) == "error"
	s.tool(l.name, l.tool)
	s.ends(l.name)
}

// lookAt reads the beginning of a large frame. How much that is does not depend on how much has
// come, so that any cut of the input has the same result.
func (s *Stream) lookAt(b []byte) *largeFrame {
	l := &largeFrame{comment: b[0] == ':'}
	var f sse.Frame
	chunk.ParseBeginning(&f, b)
	e := event{Frame: &f}
	if closed, came := jsonspan.Close(f.Data); closed != nil { // otherwise its first members count
		f.Data, e.came = closed, came
	}
	name := f.Event
	if l.named = chunk.IsNamed(&f); !l.named {
		name = nil
		if typ := e.at("type"); typ.IsString(f.Data) {
			name = typ.Inner().Of(f.Data)
		}
	}
	switch {
	case s.kind == kindSession:
		l.kind, name = s.kindOf(e)
	case bytes.HasPrefix(name, []byte(responsePrefix)):
		l.kind = kindResponses
	case name == nil && s.kind == kindRuns:
		if name = e.runName(); name != nil {
			l.kind = kindRuns
		}
	}
	l.name, l.tool = bytes.Clone(name), e.toolOf(l.kind).clone()
	return l
}
