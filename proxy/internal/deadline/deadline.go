// Package deadline says when an exchange is to be looked at again, and what is due
// then: the timeouts of contract section 3, and keepalives.
//
// It has values alone: no clock, no timer, no lock. The owner of a State tells it
// what happens, asks for Next, and sets a timer; when that fires, it asks what is
// Due. Bytes and frames move deadlines later and leave the timer alone: if it fires
// early it is set again, so that a chunk costs no timer.
//
// All times of a State are ages: the time since the request came. It takes 40 bytes.
package deadline

import (
	"math"
	"time"
)

// Limits are what a State is held against. None applies that is zero or less.
type Limits struct {
	FirstByte time.Duration // from when the request was read to the answer's first byte
	Idle      time.Duration // without a byte of upstream's
	Stall     time.Duration // without a frame of upstream's
	DoneGrace time.Duration // without a byte behind the finish chunk
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
	// Finished is a stream of chat completions behind its finish chunk.
	Finished
)

// Stream reports whether the phase is that of a stream whose end is seen to.
func (p Phase) Stream() bool { return p >= Other }

// EndsWithDrain reports whether an exchange in the phase ends as soon as it may go on
// no longer in a drain.
func (p Phase) EndsWithDrain() bool { return p >= Awaiting }

// Due is what is due.
type Due uint8

const (
	// Nothing is due.
	Nothing Due = iota
	// Keepalive is due: the client has heard nothing for too long.
	Keepalive
	// Silence of upstream has lasted too long: the exchange ends in an error.
	Silence
	// Grace has passed behind the finish chunk: the stream ends.
	Grace
)

// never is the age of a deadline that is not set.
const never time.Duration = math.MaxInt64

// State is what has happened in an exchange. The zero value is that of one whose
// request has just come. Before the first byte of the answer received and frame are
// what the silence is counted from.
type State struct {
	asked    time.Duration // the request went on to upstream
	received time.Duration // upstream's last byte
	frame    time.Duration // upstream's last frame
	sent     time.Duration // the last byte to the client
	began    bool          // a byte of the answer has come

	// Phase is how far the exchange has come.
	Phase Phase
}

// RequestRead records that the request has been read, as far as it is, and goes on
// to upstream.
func (s *State) RequestRead(at time.Duration) { s.asked, s.received, s.frame = at, at, at }

// RequestWaited records that the client was waited for to send the rest of its
// request: until then upstream was not silent, it waited as well. That does not
// matter once a byte of the answer has come.
func (s *State) RequestWaited(until time.Duration) {
	if s.began {
		return
	}
	s.asked, s.received, s.frame = max(s.asked, until), max(s.received, until), max(s.frame, until)
}

// HeaderReceived records that the header of a stream has come. awaited says that a
// stream was waited for before: a silence counts from then on where it was not.
func (s *State) HeaderReceived(at time.Duration, awaited bool) {
	s.received, s.sent = at, at
	if !awaited {
		s.asked, s.frame = at, at
	}
}

// Received records that bytes of the answer have come.
func (s *State) Received(at time.Duration) { s.began, s.received = true, at }

// Ended records that upstream has ended.
func (s *State) Ended(at time.Duration) { s.received = at }

// Heard returns when upstream was heard of last: its last byte, or its end.
func (s *State) Heard() time.Duration { return s.received }

// FrameReceived records that a frame is complete.
func (s *State) FrameReceived(at time.Duration) { s.frame = at }

// ClientWaited records that upstream was kept waiting while the client took what it
// was sent: that was not upstream's silence.
func (s *State) ClientWaited(d time.Duration) {
	s.received += d
	s.frame += d
}

// Sent records that bytes have left for the client.
func (s *State) Sent(at time.Duration) { s.sent = at }

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
		at := min(after(s.received, l.Idle), after(s.frame, l.Stall))
		if !s.began {
			at = min(at, after(s.asked, l.FirstByte))
		}
		return at
	case Finished:
		return after(s.received, l.DoneGrace)
	}
	return never
}

// keepalive returns the age at which a keepalive is due. It neither resets nor hides
// the timeouts.
func (s *State) keepalive(l *Limits) time.Duration {
	if s.Phase < Streaming {
		return never
	}
	return after(s.sent, l.Keepalive)
}

// after returns the age d behind from, never where there is no limit d.
func after(from, d time.Duration) time.Duration {
	if d <= 0 {
		return never
	}
	return from + d
}
