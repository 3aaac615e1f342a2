package sse

// Splice is a list of replacements in a frame. All other bytes keep their place, so
// that framing, the order of fields and their white space stay as they came. The
// zero Splice is empty. It refers to the replacing bytes until Reset.
type Splice struct {
	edits []edit // in order, and none overlaps another
}

// edit replaces a range of a frame's bytes.
type edit struct {
	from, to int
	with     []byte
}

// Replace replaces data[from:to] of the frame f. with has no line end. If that
// range spans several data lines, each loses its part of it but stays, because the bytes
// between them are not data. If there are very many, adjacent lines go as a whole,
// because an edit of each would take more memory than the frame.
//
// Replacements at the same place leave in the order in which they were given.
func (s *Splice) Replace(f *Frame, from, to int, with []byte) {
	first := f.lineOf(from)
	many := f.lineOf(to)-first > manyItems
	for n, last := first, 0; ; n++ {
		end := min(to, f.endOf(n))
		at := f.At(from)
		cut := at + max(end-from, 0)
		if many && n > first && s.edits[last].to+len("\r\ndata: ") >= at {
			s.edits[last].to = cut
		} else {
			last = s.ReplaceRaw(at, cut, with)
		}
		if end == to || n+1 == len(f.lines) {
			return
		}
		from, with = int(f.lines[n+1].data), nil
	}
}

// ReplaceRaw replaces Raw[from:to] of the frame. It returns the index of the
// replacement in the list.
func (s *Splice) ReplaceRaw(from, to int, with []byte) int {
	i := len(s.edits)
	s.edits = append(s.edits, edit{from, to, with})
	for ; i > 0 && s.edits[i-1].from > from; i-- {
		s.edits[i-1], s.edits[i] = s.edits[i], s.edits[i-1]
	}
	return i
}

// manyItems is the number of lines from which a replacement merges those that are adjacent.
const manyItems = 256

// Append appends the bytes of the frame f with the replacements to dst.
func (s *Splice) Append(dst []byte, f *Frame) []byte {
	at := 0
	for i := range s.edits {
		e := &s.edits[i]
		dst = append(dst, f.Raw[at:e.from]...)
		dst = append(dst, e.with...)
		at = e.to
	}
	return append(dst, f.Raw[at:]...)
}

// Size returns how many bytes Append appends.
func (s *Splice) Size(f *Frame) int {
	n := len(f.Raw)
	for _, e := range s.edits {
		n += len(e.with) - (e.to - e.from)
	}
	return n
}

// Empty reports whether there are no replacements.
func (s *Splice) Empty() bool { return len(s.edits) == 0 }

// Reset drops the replacements, and keeps their room.
func (s *Splice) Reset() { s.edits = s.edits[:0] }
