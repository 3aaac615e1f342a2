package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// Work is what a stream needs to handle a frame. Between two reads the stream gives it
// back unless something waits in it. What a stream leaves in it otherwise is only room,
// so that any stream may use it next. The zero value is ready for use.
type Work struct {
	// Object is the current frame.
	Object chunk.Object

	reading prose.Reading // of the content
	hold    hold
	large   largeFrame
	sizes   sizes
	shapes  [2]*shape // the last shapes that any stream has learnt, of content and of reasoning
}

// Begin begins the use of w by a stream that adds its notes to n, which may be nil.
func (w *Work) Begin(n *contract.Notes) { w.Object.Notes, w.reading.Notes = n, n }

// Waits reports whether something waits in w for the bytes to come.
func (w *Work) Waits() bool { return w.reading.Waits() || !w.hold.empty() || w.large.open }

// Forget drops every reference to the bytes of a stream. Nothing may wait.
func (w *Work) Forget() {
	w.Object.Forget()
	w.reading.Forget()
	w.sizes = sizes{}
}

// Trim gives back large room, so that one large frame does not cost memory for as long as
// its stream lasts.
func (w *Work) Trim() {
	w.Object.Trim()
	w.reading.Trim()
	w.hold.trim()
}

// shared returns a shape equal to v that streams may share. Nobody may change it.
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
