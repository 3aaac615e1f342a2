package rewrite

// edit replaces a range of a frame's bytes. All others keep their place, so
// that key order, escapes and framing stay as upstream sent them (contract
// section 0).
type edit struct {
	span
	with []byte
}

// edit replaces data[from:to] of the frame s.f.
func (s *Stream) edit(from, to int, with []byte) {
	raw := span{s.f.at(from), s.f.at(from)}
	if to > from {
		raw.to = s.f.at(to-1) + 1
	}
	s.editRaw(raw, with)
}

// editRaw replaces bytes of the frame s.f. Edits are kept in order; of two at
// the same place the first given comes first.
func (s *Stream) editRaw(at span, with []byte) {
	i := len(s.edits)
	for i > 0 && s.edits[i-1].from > at.from {
		i--
	}
	s.edits = append(s.edits, edit{})
	copy(s.edits[i+1:], s.edits[i:])
	s.edits[i] = edit{at, with}
}

// cutText turns the cuts of the content into edits, and returns how many bytes
// they take.
func (s *Stream) cutText() int {
	n := 0
	for _, c := range s.cuts {
		s.edit(c.from, c.to, nil)
		n += c.to - c.from
	}
	return n
}

// writeEdited writes the frame s.f with its edits.
func (s *Stream) writeEdited() {
	s.fate = fateForward
	at := 0
	for _, e := range s.edits {
		s.out = append(s.out, s.f.raw[at:e.from]...)
		s.out = append(s.out, e.with...)
		at = e.to
	}
	s.out = append(s.out, s.f.raw[at:]...)
	s.edits = s.edits[:0]
}
