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
// between them are not data. If there are many, lines that follow each other go as a whole.
// Replacements at the same place leave in the order in which they were given.
func (s *Splice) Replace(f *Frame, from, to int, with []byte) {
	first := f.lineOf(from)
	for n, last := first, 0; ; n++ {
		end := min(to, f.endOf(n))
		at := f.At(from)
		e := edit{at, at + max(end-from, 0), with}
		if n-first > MaxEdits/2 && s.edits[last].to+len("\r\ndata: ") >= at {
			s.edits[last].to = e.to
		} else {
			last = s.replace(f.Raw, e)
		}
		if end == to || n+1 == len(f.lines) {
			return
		}
		from, with = int(f.lines[n+1].data), nil
	}
}

// replace adds e, an edit of raw, and returns the index of the edit that covers it. After
// MaxEdits that is the one before e, which grows over e and the bytes between them.
func (s *Splice) replace(raw []byte, e edit) int {
	i := s.before(e.from)
	if i < 0 || len(s.edits) < MaxEdits || s.edits[i].to > e.from {
		s.ReplaceRaw(e.from, e.to, e.with)
		return s.before(e.from)
	}
	last := &s.edits[i]
	span, size := e.to-last.to, e.from-last.to+len(e.with)
	if cap(last.with)-len(last.with) < size { // as much for the rest, in proportion
		spans := 1 + (len(raw)-last.to)/max(1, span)
		last.with = slices.Grow(last.with, size+spans*min(size, 2*span))
	}
	last.with = append(append(last.with, raw[last.to:e.from]...), e.with...)
	last.to = e.to
	return i
}

// before returns the index of the last edit that begins at or before from, or -1.
func (s *Splice) before(from int) int {
	i := len(s.edits) - 1
	for i >= 0 && s.edits[i].from > from {
		i--
	}
	return i
}

// ReplaceRaw replaces Raw[from:to] of the frame, unless an earlier replacement covers that.
func (s *Splice) ReplaceRaw(from, to int, with []byte) {
	if i := s.before(from); i < 0 || s.edits[i].to <= from {
		s.edits = slices.Insert(s.edits, i+1, edit{from, to, slices.Clip(with)})
	}
}

// MaxEdits is the number of edits that Replace makes one by one. An edit for each of the secrets,
// members or lines of a large frame would take more memory than the frame. Beyond it, an edit is
// merged with the one before it and the bytes between them, where a later edit has no effect.
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
