package rewrite

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// added keeps room, which is s.room and more, and returns what is more. That stays
// valid until the next frame.
func (s *Stream) added(room []byte) []byte {
	more := room[len(s.room):]
	s.room = room
	return more
}

// writeEdited writes the frame s.f with its edits.
func (s *Stream) writeEdited() {
	s.writeLF()
	s.writeFrame()
}

// writeFrame writes the frame s.f with its edits, which are then done.
func (s *Stream) writeFrame() {
	s.out = s.edits.Append(s.out, &s.f)
	s.framing.Forward(s.f.Raw)
	s.edits.Reset()
}

// setMember replaces the value at v, or adds a member where there is none.
func (s *Stream) setMember(v jsonspan.Span, name string, value []byte) {
	if v.Ok() {
		s.edits.Replace(&s.f, v.From, v.To, value)
		return
	}
	s.edits.Replace(&s.f, s.c.shut, s.c.shut, s.added(append(append(append(append(s.room, `,"`...), name...), `":`...), value...)))
}

// removeMember takes the member with the value at v, and the comma before or
// behind it, out of the frame. An error, even null, beside a finish reason ends
// some clients' streams before they have read it.
func (s *Stream) removeMember(v jsonspan.Span) {
	if !v.Ok() {
		return
	}
	data, to := s.f.Data, v.To
	from := bytes.LastIndexByte(data[:v.From], '"') // of a name without an escape
	from = bytes.LastIndexByte(data[:from], '"')
	if before := bytes.TrimRight(data[:from], blanks); before[len(before)-1] == ',' {
		s.edits.Replace(&s.f, len(before)-1, to, nil)
		return
	}
	if next := jsonspan.SkipSpace(data, to); data[next] == ',' {
		to = jsonspan.SkipSpace(data, next+1)
	}
	s.edits.Replace(&s.f, from, to, nil)
}
