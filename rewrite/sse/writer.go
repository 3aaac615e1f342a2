package sse

import "bytes"

// Writer collects the bytes that leave, and keeps their framing when units are forwarded, held
// back or dropped, and when the caller writes frames of its own between them. The caller sets
// Bytes to the buffer that the Writer appends to, may append frames of its own, and gets the
// buffer back with Take. The invariants:
//
//   - The byte order mark leaves with the first unit after it, or not at all. After other bytes it
//     would be part of a field's name.
//   - An LF belongs to a CR only if it is the very next unit. It leaves if the
//     unit that ended with the CR has left. If the caller writes a frame of its own between
//     the two, BeginOwn completes the CRLF first, and the LF is dropped when it follows.
type Writer struct {
	Bytes  []byte
	HasIDs bool // there was an event with an id

	mark    bool // a byte order mark waits for the first unit
	started bool // something has left
	torn    bool // the last unit has left and ends with a CR whose LF may follow
	held    bool // the last unit is held back
	dropped bool // the last unit is dropped, or BeginOwn has written its LF
}

// Take returns the bytes, which are the caller's again.
func (w *Writer) Take() []byte {
	b := w.Bytes
	w.Bytes = nil
	return b
}

// Mark records that the stream begins with a byte order mark. It waits for the next unit, so
// that nothing leaves before a frame is complete.
func (w *Writer) Mark() { w.mark = !w.started }

// Next records that the unit u, which is not UnitMark, is next.
func (w *Writer) Next(u Unit) {
	if w.mark {
		w.Bytes = append(w.Bytes, byteOrderMark...)
	}
	w.mark, w.started, w.torn = false, true, w.torn && u == UnitLF
}

// BeginOwn must be called before a frame of the caller's own is appended to Bytes: it
// writes the LF that a CR still lacks, if there is one.
func (w *Writer) BeginOwn() {
	w.mark, w.started = false, true
	if w.torn {
		w.Bytes = append(w.Bytes, '\n')
		w.Drop()
	}
}

// EndComment ends a comment of the caller's own. In a stream with ids it writes no blank line,
// which many clients read as an event without data as soon as they know an id (openai-python
// #2722, httpx-sse #35): the comment is part of the next event.
func (w *Writer) EndComment() {
	w.Bytes = append(w.Bytes, '\n')
	if !w.HasIDs {
		w.Bytes = append(w.Bytes, '\n')
	}
}

// Unit forwards the unit b as it is.
func (w *Writer) Unit(b []byte) {
	w.Bytes = append(w.Bytes, b...)
	w.Forward(b)
}

// Frame forwards the frame f with the replacements in edits, and resets edits.
func (w *Writer) Frame(f *Frame, edits *Splice) {
	w.Bytes = edits.Append(w.Bytes, f)
	w.Forward(f.Raw)
	edits.Reset()
}

// Forward records that the unit b has left, with or without replacements. b is nil if the unit was
// too large, so that its LF may leave wherever it is.
func (w *Writer) Forward(b []byte) { w.held, w.dropped, w.torn = false, false, endsTorn(b) }

// Hold records that the unit is held back.
func (w *Writer) Hold() { w.held, w.dropped = true, false }

// Drop records that the unit is dropped.
func (w *Writer) Drop() { w.held, w.dropped, w.torn = false, true, false }

// IsHeld reports whether the last unit is held back.
func (w *Writer) IsHeld() bool { return w.held }

// LF forwards a UnitLF, unless the unit before it is held or dropped. It reports whether to hold
// the LF as well.
func (w *Writer) LF() (held bool) {
	w.torn = false
	if !w.held && !w.dropped {
		w.Bytes = append(w.Bytes, '\n')
	}
	return w.held
}

// Release records that bytes have left that were held back until the input ended. held are all of
// them as they came; Bytes ends with those that have left.
func (w *Writer) Release(held []byte) {
	w.torn = w.torn || endsTorn(held) && bytes.HasSuffix(w.Bytes, []byte("\r"))
}

// endsTorn reports whether the lines of b end with CRLF, but the last one with a CR
// whose LF is not there.
func endsTorn(b []byte) bool {
	return len(b) > 0 && b[len(b)-1] == '\r' && bytes.Contains(b, []byte("\r\n"))
}
