package chat

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// hold keeps frames back whose text may be the beginning of an imitation. They
// leave byte for byte, or without the text that was one.
type hold struct {
	buf    []byte
	frames []heldFrame
	from   int // where what is suspected begins in buf
}

// heldFrame is a frame, or noise between frames, by position in the hold.
type heldFrame struct {
	end    int           // where it ends; it begins where the one before ends
	text   jsonspan.Span // the content that is held, empty if it has none
	repeat jsonspan.Span // the same text elsewhere in the frame, empty if it is not there
	drop   bool          // nothing is lost by dropping it without the text
}

// empty reports whether nothing is held.
func (h *hold) empty() bool { return len(h.buf) == 0 }

// add keeps raw, which has no text.
func (h *hold) add(raw []byte) {
	h.buf = append(h.buf, raw...)
	if n := len(h.frames); n > 0 && !h.frames[n-1].text.Ok() {
		h.frames[n-1].end = len(h.buf) // bytes cost their place, not a frame each
		return
	}
	h.frames = append(h.frames, heldFrame{end: len(h.buf)})
}

// addText keeps the frame f, whose bytes are in the buffer already.
func (h *hold) addText(f heldFrame) {
	f.end = len(h.buf)
	h.frames = append(h.frames, f)
}

// addLF keeps the LF of the last that was kept.
func (h *hold) addLF(lf []byte) {
	h.buf = append(h.buf, lf...)
	h.frames[len(h.frames)-1].end = len(h.buf)
}

// release appends all that is held to dst as it is.
func (h *hold) release(dst []byte) []byte {
	dst = append(dst, h.buf...)
	h.clear()
	return dst
}

// strip appends all that is held to dst without the text from where the suspicion
// began on.
func (h *hold) strip(dst []byte) []byte {
	at := 0
	for i, f := range h.frames {
		first, second := f.text, f.repeat
		if i == 0 {
			first.From = h.from
			second.From += h.from - f.text.From
		}
		if f.drop && first == f.text && first.Ok() {
			at = f.end
			continue
		}
		if second.Ok() && second.From < first.From {
			first, second = second, first
		}
		for _, cut := range []jsonspan.Span{first, second} {
			if cut.Ok() {
				dst = append(dst, h.buf[at:cut.From]...)
				at = cut.To
			}
		}
		dst = append(dst, h.buf[at:f.end]...)
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

// trim gives large room back.
func (h *hold) trim() {
	if h.empty() && cap(h.frames) > maxIdleItems {
		h.frames = nil
	}
}
