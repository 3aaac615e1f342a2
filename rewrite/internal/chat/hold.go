package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// hold has the frames that are held back because their text may begin an imitation or a tag. They
// leave byte for byte, or without the text that was one. It is empty unless text is suspected. Its
// size is bounded by Stream.holdBytes.
type hold struct {
	whole    []byte // the frames, one after the other, with the edits made so far
	stripped []byte // the frames without the suspected text
	dropped  bool   // the last frame is not in stripped: without the suspected text it says nothing
}

// frame adds the chunk x with nothing of its content but kept, whose end r suspects.
func (h *hold) frame(x *chunk.Object, kept prose.Kept, r *prose.State) {
	var before prose.Kept // what is before the suspected text
	if n, here, newline := r.Suspected(); here {
		before = prose.Kept{Front: kept.Front, Text: kept.Text[:len(kept.Text)-n]}
		if newline {
			before.Front, kept.Front = nil, prose.NewlineInJSON // it is part of the suspected line
		}
	}
	h.dropped = before.Len() == 0 && x.Droppable() && x.C.Content.Inner().Ok()
	if !h.dropped {
		x.KeepContent(&before, false)
		h.stripped = x.Edits.Append(h.stripped, &x.F)
		x.Edits.Reset()
	}
	x.KeepContent(&kept, false)
	h.whole = x.Edits.Append(h.whole, &x.F)
}

// bytes adds b, which has no text, after the last frame.
func (h *hold) bytes(b []byte) {
	h.whole = append(h.whole, b...)
	if !h.dropped {
		h.stripped = append(h.stripped, b...)
	}
}
