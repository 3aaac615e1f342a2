package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// hold keeps frames back whose text may begin an imitation or a tag. They leave byte for
// byte, or without the text that was one. It is empty unless the text suspects
// something. Its size is bounded by Stream.boundHold.
type hold struct {
	buf    []byte      // the frames, one after the other, with the edits made so far
	frames []heldFrame // the same by position
	from   int         // where what is suspected begins in buf
}

// heldFrame is a frame, or noise between frames, by position in the hold.
type heldFrame struct {
	end    int           // where it ends; it begins where the one before ends
	text   jsonspan.Span // the content that is held, empty if there is none
	repeat jsonspan.Span // the same text elsewhere in the frame, empty if there is none
	drop   bool          // without the text the frame says nothing
}

// empty reports whether nothing is held.
func (h *hold) empty() bool { return len(h.buf) == 0 }

// add holds raw, which has no text.
func (h *hold) add(raw []byte) {
	h.buf = append(h.buf, raw...)
	if n := len(h.frames); n > 0 && !h.frames[n-1].text.Ok() {
		h.frames[n-1].end = len(h.buf) // joined, so that short noise needs no more than its bytes
		return
	}
	h.frames = append(h.frames, heldFrame{end: len(h.buf)})
}

// addText holds the frame f, whose bytes are already in buf.
func (h *hold) addText(f heldFrame) {
	f.end = len(h.buf)
	h.frames = append(h.frames, f)
}

// addLF holds the LF that the last frame lacked.
func (h *hold) addLF(lf []byte) {
	h.buf = append(h.buf, lf...)
	h.frames[len(h.frames)-1].end = len(h.buf)
}

// release appends all that is held to dst, and empties the hold.
func (h *hold) release(dst []byte) []byte {
	dst = append(dst, h.buf...)
	h.clear()
	return dst
}

// strip appends all that is held to dst, without the text from h.from on, and empties the
// hold.
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

// clear empties the hold.
func (h *hold) clear() {
	if cap(h.buf) > contract.MaxIdleBuffer {
		h.buf = nil
	}
	h.buf, h.frames = h.buf[:0], h.frames[:0]
}

// trim gives large room back.
func (h *hold) trim() {
	if h.empty() && cap(h.frames) > contract.MaxIdleItems {
		h.frames = nil
	}
}
