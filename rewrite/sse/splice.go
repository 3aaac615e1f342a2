package sse

import "slices"

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
// between them are not data. Replacements at the same place leave in the order in which they
// were given.
func (s *Splice) Replace(f *Frame, from, to int, with []byte) {
	for n := f.lineOf(from); ; n++ {
		end := min(to, f.endOf(n))
		at := f.At(from)
		s.replace(f.Raw, edit{at, at + max(end-from, 0), with})
		if end == to || n+1 == len(f.lines) {
			return
		}
		from, with = int(f.lines[n+1].data), nil
	}
}

// replace adds e, an edit of raw. After MaxEdits the last edit grows over all that follow and
// the bytes between them.
func (s *Splice) replace(raw []byte, e edit) {
	if n := len(s.edits); n >= MaxEdits && s.edits[n-1].to <= e.from {
		last := &s.edits[n-1]
		span, size := e.to-last.to, e.from-last.to+len(e.with)
		if cap(last.with)-len(last.with) < size { // as much for the rest, in proportion
			spans := 1 + (len(raw)-last.to)/max(1, span)
			last.with = slices.Grow(last.with, size+spans*min(size, 2*span))
		}
		last.with = append(append(last.with, raw[last.to:e.from]...), e.with...)
		last.to = e.to
		return
	}
	s.ReplaceRaw(e.from, e.to, e.with)
}

// ReplaceRaw replaces Raw[from:to] of the frame, unless an earlier replacement covers that.
func (s *Splice) ReplaceRaw(from, to int, with []byte) {
	i := len(s.edits)
	for i > 0 && s.edits[i-1].from > from {
		i--
	}
	if i > 0 && s.edits[i-1].to > from {
		return
	}
	s.edits = slices.Insert(s.edits, i, edit{from, to, slices.Clip(with)})
}

// MaxEdits is the number of edits that Replace makes one by one. An edit for each of the
// secrets, members or lines of a large frame would take more memory than the frame.
const MaxEdits = 128

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
func (s *Splice) Reset() {
	clear(s.edits)
	s.edits = s.edits[:0]
}
