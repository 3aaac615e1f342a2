package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// Work is the frame that a stream handles, and what waits for the frames to come.
type Work struct {
	// Object is the current frame.
	Object chunk.Object

	reading prose.Reading // of the content
	hold    hold
	large   largeFrame
	sizes   sizes
}

// Trim gives back large room, so that one large frame does not cost memory for as long as
// its stream lasts.
func (w *Work) Trim() {
	w.Object = chunk.Object{Notes: w.Object.Notes}
	w.reading.Trim()
	w.hold.trim()
}
