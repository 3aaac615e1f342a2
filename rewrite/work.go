package rewrite

import (
	"sync"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// work is what a Stream needs to handle a frame. Between two reads it is given
// back, unless something waits in it: most of the time most streams wait for
// their next frame, and keep nothing but what they know.
type work struct {
	f sse.Frame
	c chunk

	known   bool // the frame s.f is like the pattern
	edits   sse.Splice
	scratch []byte
	room    []byte    // for what is written of the frame s.f, see added
	buf     []byte    // room for the scanner's
	shapes  [2]*shape // the last of text and of reasoning that have been learnt, by whatever stream

	// The text of the message.
	line     marker.Line // the line that may be an imitation
	lineHere bool        // it begins in the frame s.f, not in the hold
	stays    bool        // the content of the frame s.f is sure to be text that stays
	cuts     []jsonspan.Span
	hold     hold
	parts    []part // those of the content of the frame s.f
	rest     kept   // what is left of that content in its chunk

	growth    int // by how many bytes more that content may grow
	stretches int // of reasoning that have been taken out of it

	// Reasoning between tags.
	pending []byte        // what may be a closing tag, from frames before, as in the JSON
	closing jsonspan.Span // the same in the data of the frame s.f
	lead    []byte        // what was none, and goes in front of what the frame s.f says

	m members // of the frame s.f, in a stream of another kind

	notes []Note // what is done to the piece under way, for Params.Explain
}

// works are those that no stream needs. One is as good as another: what a stream
// leaves in them is room, and is not read again.
var works = sync.Pool{New: func() any { return new(work) }}

// borrow gets the stream what it needs to handle a frame.
func (s *Stream) borrow() {
	if s.work != nil {
		return
	}
	s.work = works.Get().(*work)
	s.scan.TakeBuffer(&s.work.buf)
}

// giveBack gives that back when nothing waits in it for the bytes to come. So many
// bytes have been fed; no item of a list stands for less than four of them.
func (s *Stream) giveBack(fed int) {
	w := s.work
	if w == nil {
		return
	}
	if fed > 4*maxIdleItems {
		w.trim()
	}
	// What waits is bounded by what may be held back.
	if len(w.pending) > 0 || len(w.lead) > 0 || w.line.Active() || !w.hold.empty() {
		return
	}
	s.scan.GiveBuffer(&w.buf)
	s.work = nil
	w.forget()
	works.Put(w)
}

// forget lets go of the bytes that a stream has been fed, and of what says how far
// it is with a frame. The rest is set before it is read.
func (w *work) forget() {
	w.f.Forget()
	w.parts, w.room = w.parts[:0], w.room[:0]
	if cap(w.pending)+cap(w.lead) > maxIdleBuffer {
		w.pending, w.lead = nil, nil
	}
	w.known, w.lineHere, w.closing, w.rest = false, false, jsonspan.Span{}, kept{}
}

// trim gives back what the frames of a feed took and the next need not: one large
// frame must not cost memory for as long as its stream lasts.
func (w *work) trim() {
	w.edits.Trim()
	trim(&w.cuts)
	trim(&w.parts)
	w.f.Trim()
	if cap(w.scratch)+cap(w.room) > maxIdleBuffer {
		w.scratch, w.room = nil, nil
	}
	if w.hold.empty() {
		trim(&w.hold.frames)
	}
}

// trim gives the room of s back where that is large.
func trim[T any](s *[]T) {
	if cap(*s) > maxIdleItems {
		*s = nil
	}
}

// Bounds on what is kept for the next frame.
const (
	// maxIdleBuffer is the size in bytes up to which a buffer is kept.
	maxIdleBuffer = 16 << 10
	// maxIdleItems is the number of items up to which a list keeps its room.
	maxIdleItems = 256
)

// shared returns a shape like v that other streams may have as well. It must not
// be changed.
func (w *work) shared(v *shape) *shape {
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
