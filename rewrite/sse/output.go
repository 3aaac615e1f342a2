package sse

import "bytes"

// Output remembers what became of the last unit, so that what leaves keeps its
// framing when units are forwarded, held back or dropped, and when the caller writes
// frames of its own between them. It holds no bytes. Its invariants:
//
//   - The byte order mark leaves before the first bytes, or not at all. Behind others it
//     would be part of a field's name.
//   - An LF belongs to a CR only if it is the very next unit. It shares the fate of
//     the unit that ended with the CR. If the caller writes a frame of its own between
//     the two, AppendLF completes the CRLF first, and the LF is dropped when it comes.
type Output struct {
	mark    bool // a byte order mark waits for the first bytes
	started bool // something has left
	torn    bool // the last unit has left and ends with a CR whose LF may come
	fate    Fate
}

// Fate is what became of a unit.
type Fate uint8

// What may become of a unit. The zero value means Forwarded.
const (
	Forwarded Fate = iota
	Held
	Dropped
)

// Mark records that the unit is the byte order mark.
func (o *Output) Mark() { o.mark = !o.started }

// MarkWaits reports whether a byte order mark waits for the first bytes.
func (o *Output) MarkWaits() bool { return o.mark }

// Next records that the unit u, which is not UnitMark, comes next, appends the byte
// order mark to dst if it waits, and returns dst.
func (o *Output) Next(dst []byte, u Unit) []byte {
	o.torn = o.torn && u == UnitLF
	return o.AppendMark(dst)
}

// AppendMark appends the byte order mark to dst if it waits. It is for bytes of the
// caller's own that may leave before any unit.
func (o *Output) AppendMark(dst []byte) []byte {
	if o.mark {
		dst = append(dst, byteOrderMark...)
	}
	o.mark, o.started = false, true
	return dst
}

// Forward records that the unit b has left, with or without replacements.
func (o *Output) Forward(b []byte) {
	o.fate, o.torn = Forwarded, endsTorn(b)
}

// ForwardWhole is Forward for a unit that cannot end with a torn CRLF, because it ends
// with LF, or whose LF may leave wherever it comes, because the unit was too large.
func (o *Output) ForwardWhole() { o.fate, o.torn = Forwarded, false }

// Hold records that the unit is held back.
func (o *Output) Hold() { o.fate = Held }

// Drop records that the unit is dropped.
func (o *Output) Drop() { o.fate = Dropped }

// IsHeld reports whether the last unit is held back.
func (o *Output) IsHeld() bool { return o.fate == Held }

// LF returns what is to become of a UnitLF: the same as became of the unit before it.
func (o *Output) LF() Fate {
	o.torn = false
	return o.fate
}

// AppendLF appends the LF that a CR still lacks to dst, if there is one. A frame of the
// caller's own must not come between the two.
func (o *Output) AppendLF(dst []byte) []byte {
	if o.torn {
		dst = append(dst, '\n')
		o.torn, o.fate = false, Dropped
	}
	return dst
}

// Release records that bytes have left that were held back until the input ended. held
// is all of them as they came, out is what has left.
func (o *Output) Release(held, out []byte) {
	o.torn = o.torn || endsTorn(held) && bytes.HasSuffix(out, []byte("\r"))
}

// endsTorn reports whether the lines of b end with CRLF, but the last one with a CR
// whose LF has not come.
func endsTorn(b []byte) bool {
	return len(b) > 0 && b[len(b)-1] == '\r' && bytes.Contains(b, []byte("\r\n"))
}

// Writer is an Output with the bytes that leave. The caller sets Bytes to what the writer
// shall append to, and gets them back with Take.
type Writer struct {
	Output
	Bytes []byte
}

// Take returns the bytes, which are the caller's again.
func (w *Writer) Take() []byte {
	b := w.Bytes
	w.Bytes = nil
	return b
}

// Next is Output.Next.
func (w *Writer) Next(u Unit) { w.Bytes = w.Output.Next(w.Bytes, u) }

// BeginOwn must be called before a frame of the caller's own is appended to Bytes. It
// completes a torn CRLF.
func (w *Writer) BeginOwn() { w.Bytes = w.AppendLF(w.Bytes) }

// BeginOwnFirst is BeginOwn for a frame that may come before any unit.
func (w *Writer) BeginOwnFirst() {
	w.Bytes = w.AppendMark(w.Bytes)
	w.BeginOwn()
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

// Release is Output.Release for bytes that are among those that leave.
func (w *Writer) Release(held []byte) { w.Output.Release(held, w.Bytes) }
