package rewrite

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// edit replaces a range of a frame's bytes. All others keep their place, so
// that key order, escapes and framing stay as upstream sent them (contract
// section 0).
type edit struct {
	jsonspan.Span
	with []byte
}

// edit replaces data[from:to] of the frame s.f. Where that spans lines of data,
// each loses its part and stays: what stands between them is not data. Of very many
// those go whose data goes, where nothing stands between them: an edit of each takes
// more memory than the frame.
func (s *Stream) edit(from, to int, with []byte) {
	if len(s.f.lines) == 1 { // as of almost all
		at := int(s.f.lines[0].raw)
		s.editRaw(jsonspan.Span{From: at + from, To: at + to}, with)
		return
	}
	first := s.f.lineOf(from)
	many := s.f.lineOf(to)-first > maxIdleItems
	for n, last := first, 0; ; n++ {
		end := min(to, s.f.endOf(n))
		at := s.f.at(from)
		cut := jsonspan.Span{From: at, To: at + max(end-from, 0)}
		if many && n > first && s.edits[last].To+len("\r\ndata: ") >= cut.From {
			s.edits[last].To = cut.To
		} else {
			last = s.editRaw(cut, with)
		}
		if end == to || n+1 == len(s.f.lines) {
			return
		}
		from, with = int(s.f.lines[n+1].data), nil
	}
}

// editRaw replaces bytes of the frame s.f. Edits are kept in order; of two at
// the same place the first given comes first. It returns which it is.
func (s *Stream) editRaw(at jsonspan.Span, with []byte) int {
	i := len(s.edits)
	if i == maxIdleItems { // there will be many: room for all of them, once
		s.edits = slices.Grow(s.edits, (len(s.f.raw)-at.From)/len(`"error":"k"`))
	}
	if i == 0 || s.edits[i-1].From <= at.From {
		s.edits = append(s.edits, edit{at, with})
		return i
	}
	for i > 0 && s.edits[i-1].From > at.From {
		i--
	}
	s.edits = append(s.edits, edit{})
	copy(s.edits[i+1:], s.edits[i:])
	s.edits[i] = edit{at, with}
	return i
}

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
	s.fate = fateForward
	s.out = s.render(s.out)
	s.owesLF()
	s.edits = s.edits[:0]
}

// render appends the frame s.f with its edits to dst.
func (s *Stream) render(dst []byte) []byte {
	at := 0
	for _, e := range s.edits {
		dst = append(dst, s.f.raw[at:e.From]...)
		dst = append(dst, e.with...)
		at = e.To
	}
	return append(dst, s.f.raw[at:]...)
}

// moved returns where the byte i of the data is in the frame with its edits.
func (s *Stream) moved(i int) int {
	at := s.f.at(i)
	to := at
	for _, e := range s.edits {
		if e.To <= at {
			to += len(e.with) - (e.To - e.From)
		}
	}
	return to
}

// movedBefore is moved for the first byte of a range, before what is put in front
// of it.
func (s *Stream) movedBefore(i int) int {
	at := s.f.at(i)
	to := at
	for _, e := range s.edits {
		if e.From < at {
			to += len(e.with) - (e.To - e.From)
		}
	}
	return to
}

// setMember replaces the value at v, or adds a member where there is none.
func (s *Stream) setMember(v jsonspan.Span, name string, value []byte) {
	if v.Ok() {
		s.edit(v.From, v.To, value)
		return
	}
	s.edit(s.c.shut, s.c.shut, s.added(append(append(append(append(s.room, `,"`...), name...), `":`...), value...)))
}

// removeMember takes the member with the value at v, and the comma before or
// behind it, out of the frame. An error, even null, beside a finish reason ends
// some clients' streams before they have read it.
func (s *Stream) removeMember(v jsonspan.Span) {
	if !v.Ok() {
		return
	}
	data := s.f.data
	from, to := v.From, v.To
	for from > s.c.open && data[from] != ':' {
		from--
	}
	for from--; data[from] != '"'; from-- {
	}
	for from--; data[from] != '"'; from-- {
	}
	before := from
	for before > 0 && data[before-1] <= ' ' {
		before--
	}
	if data[before-1] == ',' {
		s.edit(before-1, to, nil)
		return
	}
	if next := skipSpace(data, to, ' '); data[next] == ',' {
		to = skipSpace(data, next+1, ' ')
	}
	s.edit(from, to, nil)
}
