package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// Work is what a stream needs to handle a frame. Between two reads it is given back,
// unless something waits in it: one is as good as another, for what a stream leaves in it
// is room, and is not read again. The zero value is ready for use.
type Work struct {
	// Object is the frame under way.
	Object chunk.Object

	reading prose.Reading // of the content
	hold    hold
	sizes   sizes
	shapes  [2]*shape // the last of text and of reasoning that have been learnt, by whatever stream
}

// Begin begins the use of w for a stream that has its steps noted in n, nil for nobody.
func (w *Work) Begin(n *contract.Notes) { w.Object.Notes, w.reading.Notes = n, n }

// Waits reports whether something waits in w for the bytes to come. What waits is bounded
// by what may be held back.
func (w *Work) Waits() bool { return w.reading.Waits() || !w.hold.empty() }

// Forget lets go of the bytes that a stream has been fed. Nothing waits.
func (w *Work) Forget() {
	w.Object.Forget()
	w.reading.Forget()
	w.sizes = sizes{}
}

// Trim gives back what the frames of a feed took and the next need not: one large frame
// must not cost memory for as long as its stream lasts.
func (w *Work) Trim() {
	w.Object.Trim()
	w.reading.Trim()
	w.hold.trim()
}

// shared returns a shape like v that other streams may have as well. It must not
// be changed.
func (w *Work) shared(v *shape) *shape {
	last := &w.shapes[0]
	if v.reasoning {
		last = &w.shapes[1]
	}
	if *last == nil || **last != *v {
		learnt := *v
		*last = &learnt
	}
	return *last
}

// Bounds on what is kept for the next frame.
const (
	maxIdleBuffer = 16 << 10 // bytes
	maxIdleItems  = 256      // of a list
)
