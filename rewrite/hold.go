package rewrite

import "bytes"

// hold keeps frames back whose text may be the beginning of an imitation. They
// leave byte for byte, or without the text that was one.
type hold struct {
	buf    []byte
	frames []heldFrame
}

// heldFrame is a frame, or noise between frames, by position in the hold.
type heldFrame struct {
	end  int  // where it ends; it begins where the one before ends
	text span // the content that is held, empty when it has none
	drop bool // nothing is lost by dropping it without the text
}

// empty tells whether nothing is held.
func (h *hold) empty() bool { return len(h.buf) == 0 }

// size returns how many bytes are held.
func (h *hold) size() int { return len(h.buf) }

// add keeps raw, which has no text.
func (h *hold) add(raw []byte) {
	h.buf = append(h.buf, raw...)
	if n := len(h.frames); n > 0 && !h.frames[n-1].text.ok() {
		h.frames[n-1].end = len(h.buf) // bytes cost their place, not a frame each
		return
	}
	h.frames = append(h.frames, heldFrame{end: len(h.buf)})
}

// addText keeps raw, whose text is at text in raw. Of the text, cuts is left
// out, ascending ranges in raw. It returns by how much raw has moved: a byte
// behind the cuts that was at i is at i plus that in the hold.
func (h *hold) addText(raw []byte, text span, cuts []span, drop bool) int {
	start, at := len(h.buf), 0
	for _, c := range cuts {
		h.buf = append(h.buf, raw[at:c.from]...)
		at = c.to
		text.to -= c.to - c.from
	}
	h.buf = append(h.buf, raw[at:]...)
	h.frames = append(h.frames, heldFrame{
		end:  len(h.buf),
		text: span{start + text.from, start + text.to},
		drop: drop,
	})
	return len(h.buf) - len(raw)
}

// tearsCRLF tells whether what is held ends with a CR whose LF is yet to come.
func (h *hold) tearsCRLF() bool {
	return bytes.HasSuffix(h.buf, []byte("\r")) && bytes.Contains(h.buf, []byte("\r\n"))
}

// release appends all that is held to dst as it is.
func (h *hold) release(dst []byte) []byte {
	dst = append(dst, h.buf...)
	h.clear()
	return dst
}

// strip appends all that is held to dst without the text from the position
// from on.
func (h *hold) strip(dst []byte, from int) []byte {
	at := 0
	for i, f := range h.frames {
		cut := f.text
		if i == 0 {
			cut.from = from
		}
		switch {
		case !cut.ok():
			dst = append(dst, h.buf[at:f.end]...)
		case f.drop && cut == f.text:
		default:
			dst = append(dst, h.buf[at:cut.from]...)
			dst = append(dst, h.buf[cut.to:f.end]...)
		}
		at = f.end
	}
	h.clear()
	return dst
}

func (h *hold) clear() {
	if cap(h.buf) > maxIdleBuffer {
		h.buf = nil
	}
	h.buf, h.frames = h.buf[:0], h.frames[:0]
}
