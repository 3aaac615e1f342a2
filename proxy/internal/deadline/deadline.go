// Package deadline says when an exchange is to be looked at again, and what is due
// then: the timeouts of contract section 3, and keepalives.
//
// It has only values: no clock, no timer, no lock. The owner of a State records what
// happens, asks for Next, and sets a timer; when that fires, it asks for what is
// Due. Bytes and frames move deadlines later and do not touch the timer: if it fires
// early it is set again, so that a chunk costs no timer.
//
// All times of a State are ages: the time since the request came.
package deadline

import (
	"math"
	"time"
)

// Limits are the limits of an exchange. One that is zero or less does not apply.
type Limits struct {
	FirstByte time.Duration // from when the request was read to the answer's first byte
	Idle      time.Duration // without a byte of upstream's
	Stall     time.Duration // without a frame of upstream's
	DoneGrace time.Duration // without a byte after the finish chunk
	Keepalive time.Duration // without a byte to the client
}

// Phase is how far an exchange has come.
type Phase uint8

const (
	// Free is an exchange that has no deadline: its request is still being read, or
	// its answer passes. A drain ends it once it turns out to be a stream whose end
	// is seen to. The zero value.
	Free Phase = iota
	// Whole is one whose answer is not streamed: it is awaited, or kept until it
	// has come. It may take until the limit of a drain, where it would be cut.
	Whole
	// Awaiting is one whose request may be for a stream, and has no answer yet.
	Awaiting
	// Other is a stream of another kind than of chat completions. It may be silent
	// for as long as it likes, and only a drain ends it.
	Other
	// Streaming is a stream of chat completions.
	Streaming
	// Finished is a stream of chat completions after its finish chunk.
	Finished
)

// Stream reports whether the phase is that of a stream whose end is seen to.
func (p Phase) Stream() bool { return p >= Other }

// EndsWithDrain reports whether an exchange in the phase ends as soon as it may go on
// no longer in a drain.
func (p Phase) EndsWithDrain() bool { return p >= Awaiting }

// Due is an action that is due.
type Due uint8

const (
	// Nothing is due.
	Nothing Due = iota
	// Keepalive is due: the client has heard nothing for too long.
	Keepalive
	// Silence of upstream has lasted too long: the exchange ends in an error.
	Silence
	// Grace has passed after the finish chunk: the stream ends.
	Grace
)

// never is the age of a deadline that is not set.
const never time.Duration = math.MaxInt64

// State holds the ages that the deadlines of an exchange count from. The zero value is
// that of one whose request has just come. Before the first byte of the answer, the
// silence counts from Received and Frame all the same.
type State struct {
	Phase    Phase
	Asked    time.Duration // the request went on to upstream
	Received time.Duration // upstream's last byte, or its end
	Frame    time.Duration // upstream's last frame
	Sent     time.Duration // the last byte to the client
	Began    bool          // a byte of the answer has come
}

// RequestRead records that the request has been read, as far as it is, and goes on
// to upstream.
func (s *State) RequestRead(at time.Duration) { s.Asked, s.Received, s.Frame = at, at, at }

// RequestWaited records that the client was waited for to send the rest of its
// request: until then upstream was not silent, it waited as well. That does not
// matter once a byte of the answer has come.
func (s *State) RequestWaited(until time.Duration) {
	if s.Began {
		return
	}
	s.Asked, s.Received, s.Frame = max(s.Asked, until), max(s.Received, until), max(s.Frame, until)
}

// HeaderReceived records that the header of a stream has come. awaited says that a
// stream was waited for before: a silence counts from then on where it was not.
func (s *State) HeaderReceived(at time.Duration, awaited bool) {
	s.Received, s.Sent = at, at
	if !awaited {
		s.Asked, s.Frame = at, at
	}
}

// ClientWaited records that upstream was kept waiting while the client took what it
// was sent: that was not upstream's silence.
func (s *State) ClientWaited(d time.Duration) {
	s.Received += d
	s.Frame += d
}

// Next returns the age at which something is due, unless something happens before.
// It returns false if nothing will be.
func (s *State) Next(l *Limits) (at time.Duration, ok bool) {
	at = min(s.end(l), s.keepalive(l))
	return at, at != never
}

// Due returns what is due at an age.
func (s *State) Due(l *Limits, age time.Duration) Due {
	switch {
	case s.end(l) <= age && s.Phase == Finished:
		return Grace
	case s.end(l) <= age:
		return Silence
	case s.keepalive(l) <= age:
		return Keepalive
	}
	return Nothing
}

// end returns the age at which the exchange ends.
func (s *State) end(l *Limits) time.Duration {
	switch s.Phase {
	case Awaiting, Streaming:
		at := min(after(s.Received, l.Idle), after(s.Frame, l.Stall))
		if !s.Began {
			at = min(at, after(s.Asked, l.FirstByte))
		}
		return at
	case Finished:
		return after(s.Received, l.DoneGrace)
	}
	return never
}

// keepalive returns the age at which a keepalive is due. It neither resets nor hides
// the timeouts.
func (s *State) keepalive(l *Limits) time.Duration {
	if s.Phase < Streaming {
		return never
	}
	return after(s.Sent, l.Keepalive)
}

// after returns the age d after from, never where there is no limit d.
func after(from, d time.Duration) time.Duration {
	if d <= 0 {
		return never
	}
	return from + d
}
