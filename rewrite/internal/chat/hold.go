package chat

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// hold keeps frames back whose text may begin an imitation or a tag. They leave byte for
// byte, or without the text that was one. It is empty unless the text suspects
// something. Its size is bounded by Stream.boundHold.
type hold struct {
	buf    []byte      // the frames, one after the other, with the edits made so far
	frames []heldFrame // the same by position
	clear  int         // how much of the first text is before the suspected text
}

// heldFrame is a frame, or noise between frames, by position in the hold.
type heldFrame struct {
	end   int              // where it ends; it begins where the one before ends
	texts [2]jsonspan.Span // the content that is held, and its repeat, in order; each may be empty
	drop  bool             // without the text the frame says nothing
}

// empty reports whether nothing is held.
func (h *hold) empty() bool { return len(h.buf) == 0 }

// add holds raw, which has no text. It is joined with what has none before it, so that short
// noise needs no more than its bytes.
func (h *hold) add(raw []byte) {
	h.buf = append(h.buf, raw...)
	if n := len(h.frames); n > 0 && h.frames[n-1].texts == [2]jsonspan.Span{} {
		h.frames = h.frames[:n-1]
	}
	h.frames = append(h.frames, heldFrame{end: len(h.buf)})
}

// addLF holds the LF that the last frame lacked.
func (h *hold) addLF(lf []byte) {
	h.buf = append(h.buf, lf...)
	h.frames[len(h.frames)-1].end = len(h.buf)
}

// release appends all that is held to dst, and empties the hold.
func (h *hold) release(dst []byte) []byte {
	dst = append(dst, h.buf...)
	*h = hold{}
	return dst
}

// strip appends all that is held to dst, without the suspected text, and empties the hold.
func (h *hold) strip(dst []byte) []byte {
	at := 0
	for _, f := range h.frames {
		if f.drop && h.clear == 0 && f.texts[1].Ok() {
			at = f.end
			continue
		}
		for _, text := range f.texts {
			if text.Ok() {
				dst = append(dst, h.buf[at:text.From+h.clear]...)
				at = text.To
			}
		}
		dst = append(dst, h.buf[at:f.end]...)
		at, h.clear = f.end, 0
	}
	*h = hold{}
	return dst
}
