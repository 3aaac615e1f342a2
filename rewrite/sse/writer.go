package sse

import "bytes"

// Writer collects what leaves, and keeps its framing when units are forwarded, held back
// or dropped, and when the caller writes frames of its own between them. The caller sets
// Bytes to what the Writer shall append to, appends frames of its own to it, and gets it
// back with Take. Its invariants:
//
//   - The byte order mark leaves before the first bytes, or not at all. After others it
//     would be part of a field's name.
//   - An LF belongs to a CR only if it is the very next unit. It shares the fate of
//     the unit that ended with the CR. If the caller writes a frame of its own between
//     the two, BeginOwn completes the CRLF first, and the LF is dropped when it comes.
type Writer struct {
	Bytes  []byte
	HasIDs bool // an event with an id has come

	mark    bool // a byte order mark waits for the first bytes
	started bool // something has left
	torn    bool // the last unit has left and ends with a CR whose LF may come
	fate    Fate // of the last unit
}

// Fate is what became of a unit. The zero value means Forwarded.
type Fate uint8

const (
	Forwarded Fate = iota
	Held
	Dropped
)

// Take returns the bytes, which are the caller's again.
func (w *Writer) Take() []byte {
	b := w.Bytes
	w.Bytes = nil
	return b
}

// Mark records that the unit is the byte order mark.
func (w *Writer) Mark() { w.mark = !w.started }

// Next records that the unit u, which is not UnitMark, comes next, and writes the byte
// order mark if it waits.
func (w *Writer) Next(u Unit) {
	w.torn = w.torn && u == UnitLF
	w.WriteMark()
}

// WriteMark writes the byte order mark if it waits. It is for bytes of the caller's own
// that may leave before any unit.
func (w *Writer) WriteMark() {
	if w.mark {
		w.Bytes = append(w.Bytes, byteOrderMark...)
	}
	w.mark, w.started = false, true
}

// BeginOwn must be called before a frame of the caller's own is appended to Bytes: it
// writes the LF that a CR still lacks, if there is one.
func (w *Writer) BeginOwn() {
	if w.torn {
		w.Bytes = append(w.Bytes, '\n')
		w.torn, w.fate = false, Dropped
	}
}

// EndComment ends a comment of the caller's own. In a stream with ids it leaves without a
// blank line, which many clients take for an event without data as soon as they know an id
// (openai-python #2722, httpx-sse #35): it is part of the next event.
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

// Frame forwards the frame f with the replacements in edits, which are then done.
func (w *Writer) Frame(f *Frame, edits *Splice) {
	w.Bytes = edits.Append(w.Bytes, f)
	w.Forward(f.Raw)
	edits.Reset()
}

// Forward records that the unit b has left, with or without replacements.
func (w *Writer) Forward(b []byte) {
	w.fate, w.torn = Forwarded, endsTorn(b)
}

// ForwardWhole is Forward for a unit that cannot end with a torn CRLF, because it ends
// with LF, or whose LF may leave wherever it comes, because the unit was too large.
func (w *Writer) ForwardWhole() { w.fate, w.torn = Forwarded, false }

// Hold records that the unit is held back.
func (w *Writer) Hold() { w.fate = Held }

// Drop records that the unit is dropped.
func (w *Writer) Drop() { w.fate = Dropped }

// IsHeld reports whether the last unit is held back.
func (w *Writer) IsHeld() bool { return w.fate == Held }

// LF returns the fate of a UnitLF, which is that of the unit before it.
func (w *Writer) LF() Fate {
	w.torn = false
	return w.fate
}

// Release records that bytes have left that were held back until the input ended. held
// is all of them as they came; what has left of them ends Bytes.
func (w *Writer) Release(held []byte) {
	w.torn = w.torn || endsTorn(held) && bytes.HasSuffix(w.Bytes, []byte("\r"))
}

// endsTorn reports whether the lines of b end with CRLF, but the last one with a CR
// whose LF has not come.
func endsTorn(b []byte) bool {
	return len(b) > 0 && b[len(b)-1] == '\r' && bytes.Contains(b, []byte("\r\n"))
}
