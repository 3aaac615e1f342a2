package sse

// Writer collects what leaves: units that are forwarded, and frames of the caller's own between
// them. The caller sets Bytes to what the Writer shall append to, appends frames of its own to it,
// and gets it back with Take. The byte order mark leaves before the first bytes, or not at all:
// after others it would be part of a field's name.
type Writer struct {
	Bytes  []byte
	HasIDs bool // an event with an id has come

	mark    bool // a byte order mark waits for the first bytes
	started bool // something has left
}

// Take returns the bytes, which are the caller's again.
func (w *Writer) Take() []byte {
	b := w.Bytes
	w.Bytes = nil
	return b
}

// Mark records that the unit is the byte order mark.
func (w *Writer) Mark() { w.mark = !w.started }

// WriteMark writes the byte order mark if it waits. It comes before every other unit, and
// before bytes of the caller's own that may leave before any unit.
func (w *Writer) WriteMark() {
	if w.mark {
		w.Bytes = append(w.Bytes, byteOrderMark...)
	}
	w.mark, w.started = false, true
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
func (w *Writer) Unit(b []byte) { w.Bytes = append(w.Bytes, b...) }

// Frame forwards the frame f with the replacements in edits, which are then done.
func (w *Writer) Frame(f *Frame, edits *Splice) {
	w.Bytes = edits.Append(w.Bytes, f)
	edits.Reset()
}
