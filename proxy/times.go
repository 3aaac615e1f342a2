package proxy

import (
	"math"
	"time"
)

// phase is how far an exchange has got.
type phase uint8

const (
	// phaseFree is an exchange that has no deadline: its request is still being read, or
	// its answer passes. The zero value.
	phaseFree phase = iota
	// phaseWhole is an exchange whose answer is not streamed: it is awaited, or kept until it is
	// complete. It may take until the limit of a drain, when the server would cut it.
	phaseWhole
	// phaseAwaiting is an exchange whose request may be for a stream, and has no answer yet. A
	// drain ends it, and the phases below, after DrainTimeout.
	phaseAwaiting
	// phaseOther is a stream of another kind than chat completions. It may be silent for any time,
	// and only a drain ends it.
	phaseOther
	// phaseStreaming is a stream of chat completions.
	phaseStreaming
	// phaseFinished is a stream of chat completions after its finish chunk.
	phaseFinished
)

// never is the age of a deadline that is not set.
const never time.Duration = math.MaxInt64

// times has the ages from which the deadlines of an exchange count (contract section 3): an age is
// the time since the request came. Bytes and frames only move deadlines later, which sets no timer.
// Before the first byte of the answer, silence also counts from received and frame.
type times struct {
	phase     phase
	forwarded time.Duration // the request went on to upstream
	received  time.Duration // upstream's last byte, or its end
	frame     time.Duration // upstream's last frame
	began     bool          // a byte of the answer was read
}

// silenceDue returns the age at which the exchange ends, unless upstream sends something before.
func (t *times) silenceDue(o *Options) time.Duration {
	switch t.phase {
	case phaseAwaiting, phaseStreaming:
		at := min(after(t.received, o.IdleTimeout), after(t.frame, o.StallTimeout))
		if !t.began {
			at = min(at, after(t.forwarded, o.FirstByteTimeout))
		}
		return at
	case phaseFinished:
		return after(t.received, o.DoneGrace)
	}
	return never
}

// after returns the age d after from, or never if there is no limit d or the age overflows.
func after(from, d time.Duration) time.Duration {
	if d <= 0 || from > 0 && d > never-from {
		return never
	}
	return from + d
}
