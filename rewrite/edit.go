package rewrite

import (
	"bytes"
	"slices"
)

// edit replaces a range of a frame's bytes. All others keep their place, so
// that key order, escapes and framing stay as upstream sent them (contract
// section 0).
type edit struct {
	span
	with []byte
}

// edit replaces data[from:to] of the frame s.f. Where that spans lines of data,
// each loses its part and stays: what stands between them is not data. Of very many
// those go whose data goes, where nothing stands between them: an edit of each takes
// more memory than the frame.
func (s *Stream) edit(from, to int, with []byte) {
	if len(s.f.lines) == 1 { // as of almost all
		at := int(s.f.lines[0].raw)
		s.editRaw(span{at + from, at + to}, with)
		return
	}
	first := s.f.lineOf(from)
	many := s.f.lineOf(to)-first > maxIdleItems
	for n, last := first, 0; ; n++ {
		end := min(to, s.f.endOf(n))
		at := s.f.at(from)
		cut := span{at, at + max(end-from, 0)}
		if many && n > first && s.edits[last].to+len("\r\ndata: ") >= cut.from {
			s.edits[last].to = cut.to
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
func (s *Stream) editRaw(at span, with []byte) int {
	i := len(s.edits)
	if i == maxIdleItems { // there will be many: room for all of them, once
		s.edits = slices.Grow(s.edits, (len(s.f.raw)-at.from)/len(`"error":"k"`))
	}
	if i == 0 || s.edits[i-1].from <= at.from {
		s.edits = append(s.edits, edit{at, with})
		return i
	}
	for i > 0 && s.edits[i-1].from > at.from {
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
		dst = append(dst, s.f.raw[at:e.from]...)
		dst = append(dst, e.with...)
		at = e.to
	}
	return append(dst, s.f.raw[at:]...)
}

// moved returns where the byte i of the data is in the frame with its edits.
func (s *Stream) moved(i int) int {
	at := s.f.at(i)
	to := at
	for _, e := range s.edits {
		if e.to <= at {
			to += len(e.with) - (e.to - e.from)
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
		if e.from < at {
			to += len(e.with) - (e.to - e.from)
		}
	}
	return to
}

// setMember replaces the value at v, or adds a member where there is none.
func (s *Stream) setMember(v span, name string, value []byte) {
	if v.ok() {
		s.edit(v.from, v.to, value)
		return
	}
	s.edit(s.c.shut, s.c.shut, s.added(append(append(append(append(s.room, `,"`...), name...), `":`...), value...)))
}

// removeMember takes the member with the value at v, and the comma before or
// behind it, out of the frame. An error, even null, beside a finish reason ends
// some clients' streams before they have read it.
func (s *Stream) removeMember(v span) {
	if !v.ok() {
		return
	}
	data, to := s.f.data, v.to
	from := bytes.LastIndexByte(data[:v.from], '"') // of a name without an escape
	from = bytes.LastIndexByte(data[:from], '"')
	if before := bytes.TrimRight(data[:from], blanks); before[len(before)-1] == ',' {
		s.edit(len(before)-1, to, nil)
		return
	}
	if next := blankFrom(data, to); data[next] == ',' {
		to = blankFrom(data, next+1)
	}
	s.edit(from, to, nil)
}

// oneLine returns JSON in which no line ends, for a frame of our own.
func oneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\n"), []byte(" "))
}
