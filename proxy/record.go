package proxy

import (
	"io"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Recording takes a stream as upstream sends it, for a file that shows what went
// wrong. Its methods are called one at a time, while the stream waits. What goes
// wrong with it is its own affair: the stream goes on.
type Recording interface {
	io.Writer
	// End is called once, with how upstream ended.
	End(res Result, cause rewrite.Cause)
}

// recorded is the recording of a stream. It begins when the stream is known to
// be one whose end is seen to; what has come by then is kept, if it is little.
type recorded struct {
	recording Recording // nil for none
	asked     bool      // there is a recording, or will be none
	early     []byte    // what has come before
}

// maxEarly is how many bytes are kept of a stream that is not known yet.
const maxEarly = 64 << 10

// recordBytes records bytes of upstream's, which the engine has read.
func (rw *responseWriter) recordBytes(b []byte) {
	if rw.p.o.Record == nil {
		return
	}
	if rw.recorded == nil {
		rw.recorded = new(recorded)
	}
	c := rw.recorded
	switch {
	case !c.asked && !rw.guarded():
		c.early = append(c.early, b...)
		if len(c.early) > maxEarly {
			*c = recorded{asked: true}
		}
		return
	case !c.asked:
		c.recording, c.asked = rw.p.o.Record(rw.r, rw.status, rw.inner.Header()), true
		b, c.early = append(c.early, b...), nil
	}
	if c.recording != nil && len(b) > 0 {
		_, _ = c.recording.Write(b) // its own affair
	}
}

// endRecording ends the recording.
func (rw *responseWriter) endRecording(res Result) {
	if rw.recorded == nil || rw.recorded.recording == nil {
		return
	}
	c := rw.recorded.recording
	*rw.recorded = recorded{asked: true}
	c.End(res, rw.cause)
}
