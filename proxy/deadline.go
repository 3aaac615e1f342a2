package proxy

import (
	"math"
	"time"
)

// phase is how far an exchange has come.
type phase uint8

const (
	// phaseFree is an exchange that has no deadline: its request is still being read, or
	// its answer passes. The zero value.
	phaseFree phase = iota
	// phaseWhole is one whose answer is not streamed: it is awaited, or kept until it
	// has come. It may take until the limit of a drain, where the server would cut it.
	phaseWhole
	// phaseAwaiting is one whose request may be for a stream, and has no answer yet. A drain
	// ends it, and those below.
	phaseAwaiting
	// phaseOther is a stream of another kind than of chat completions. It may be silent
	// for as long as it likes, and only a drain ends it.
	phaseOther
	// phaseStreaming is a stream of chat completions.
	phaseStreaming
	// phaseFinished is a stream of chat completions after its finish chunk.
	phaseFinished
)

// never is the age of a deadline that is not set.
const never time.Duration = math.MaxInt64

// times has the ages that the deadlines of an exchange count from (contract section 3): an age
// is the time since the request came. Bytes and frames only move deadlines later, which sets no
// timer. Before the first byte of the answer, the silence counts from received and frame all
// the same.
type times struct {
	phase    phase
	asked    time.Duration // the request went on to upstream
	received time.Duration // upstream's last byte, or its end
	frame    time.Duration // upstream's last frame
	sent     time.Duration // the last byte to the client
	began    bool          // a byte of the answer has come
}

// requestWaited records that the client was waited for to send the rest of its
// request: until then upstream was not silent, it waited as well. That does not
// matter once a byte of the answer has come.
func (t *times) requestWaited(until time.Duration) {
	if !t.began {
		t.asked, t.received, t.frame = max(t.asked, until), max(t.received, until), max(t.frame, until)
	}
}

// headerReceived records that the header of a stream has come. awaited says that a
// stream was waited for before: a silence counts from then on where it was not.
func (t *times) headerReceived(at time.Duration, awaited bool) {
	t.received, t.sent = at, at
	if !awaited {
		t.asked, t.frame = at, at
	}
}

// silent returns the age at which the exchange ends, unless upstream sends something before.
func (t *times) silent(o *Options) time.Duration {
	switch t.phase {
	case phaseAwaiting, phaseStreaming:
		at := min(after(t.received, o.IdleTimeout), after(t.frame, o.StallTimeout))
		if !t.began {
			at = min(at, after(t.asked, o.FirstByteTimeout))
		}
		return at
	case phaseFinished:
		return after(t.received, o.DoneGrace)
	}
	return never
}

// keepalive returns the age at which a keepalive is due, unless something is sent before. It
// neither resets nor hides the timeouts.
func (t *times) keepalive(o *Options) time.Duration {
	if t.phase < phaseStreaming {
		return never
	}
	return after(t.sent, o.Keepalive)
}

// after returns the age d after from, never where there is no limit d, or one beyond all ages.
func after(from, d time.Duration) time.Duration {
	if d <= 0 || d > never-from {
		return never
	}
	return from + d
}
