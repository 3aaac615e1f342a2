package rewrite

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// largeFrame is a frame of another stream that passes unexamined. Its beginning
// usually says what it is: the last event repeats the whole answer, and must
// not be missed for that.
type largeFrame struct {
	open    bool // it has begun and not ended
	comment bool // it is a comment line
	kind    kind
	name    []byte // of its event; nil when its beginning does not say
	named   bool

	tool, message []byte // of a session's event, JSON strings
}

// maxLook is how many bytes of a large frame are looked at, at most.
const maxLook = 512

// otherRaw learns from bytes of a frame that passes unexamined. It is true when
// they are to be dropped: they come behind a failed event of ours.
func (s *Stream) otherRaw(b []byte) (drop bool) {
	o := s.other
	if s.active || o.ended {
		return !s.active && o.failed
	}
	if !o.large.open {
		o.large = s.lookAt(b)
	}
	if o.large.open = s.scan.Raw(); !o.large.open && !o.large.comment {
		s.largeEnds()
	}
	return false
}

// largeEnds learns from a frame that has passed unexamined.
func (s *Stream) largeEnds() {
	o := s.other
	if o.kind == kindUnknown {
		o.kind = o.large.kind
	}
	switch {
	case o.kind == kindUnknown:
	case o.kind == kindSession:
		if o.large.name != nil {
			o.session.noteLarge(&o.large)
			s.sessionEnds(o.large.name)
		}
	case o.large.name == nil:
		o.responses.next++
		o.doubt = true
	case o.large.kind == o.kind:
		o.responses.next++
		o.doubt = false
		if o.kind == kindResponses {
			o.responses.named = o.large.named
		}
		s.otherEnds(o.large.name)
	}
}

// lookAt reads the beginning of a frame that is larger than max_frame. How much
// of it is looked at does not depend on how much of it has come.
func (s *Stream) lookAt(b []byte) largeFrame {
	l := largeFrame{comment: b[0] == ':'}
	if l.comment {
		return l
	}
	var f sse.Frame
	var m members
	f.Parse(b[:min(len(b), s.scan.MaxFrame, maxLook)])
	if _, end := f.EventLine(); end == len(f.Raw) && !bytes.HasSuffix(f.Raw, []byte("\n")) && !bytes.HasSuffix(f.Raw, []byte("\r")) {
		f.Event = nil // it may go on
	}
	m.parse(f.Data)
	name := f.Event
	if !isNamed(&f) {
		name = nil
		if m.typ.IsString(f.Data) {
			name = m.typ.Inner().Of(f.Data)
		}
	}
	switch {
	case s.other.kind == kindSession:
		if l.kind, name = sessionEvent(&f); name != nil {
			l.tool, l.message = bytes.Clone(jsonspan.StringAt(f.Data, m.toolName)), bytes.Clone(jsonspan.StringAt(f.Data, m.messageID))
		}
	case bytes.HasPrefix(name, []byte(responsePrefix)):
		l.kind, l.named = kindResponses, isNamed(&f)
	case name == nil && s.other.run:
		if name = m.runEvent(&f); name != nil {
			l.kind = kindRuns
		}
	}
	l.name = bytes.Clone(name)
	return l
}
