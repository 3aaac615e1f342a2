package deadline

import (
	"testing"
	"time"
)

// Ages and limits of the tables are in seconds.
const s = time.Second

// all are limits that tell themselves apart.
var all = Limits{FirstByte: 5 * s, Idle: 10 * s, Stall: 20 * s, DoneGrace: 3 * s, Keepalive: 4 * s}

// with returns all but for what f changes.
func with(f func(*Limits)) *Limits {
	l := all
	f(&l)
	return &l
}

// told is a State that has been told what f says.
func told(f func(*State)) (st State) {
	f(&st)
	return st
}

// awaiting is a State whose request was read at 1 s.
func awaiting(st *State) {
	st.Phase = Awaiting
	st.RequestRead(1 * s)
}

// streaming is one whose header came at 2 s.
func streaming(st *State) {
	awaiting(st)
	st.Phase = Streaming
	st.HeaderReceived(2*s, true)
}

// begun is one whose first bytes, a frame, came at 3 s and left.
func begun(st *State) {
	streaming(st)
	st.Received, st.Began = 3*s, true
	st.Frame = 3 * s
	st.Sent = 3 * s
}

func TestDeadlines(t *testing.T) {
	for _, c := range []struct {
		name string
		st   State
		l    *Limits
		at   time.Duration // of what is next, 0 for nothing
		due  Due
	}{
		{"the request is read", State{}, &all, 0, Nothing},
		{"no limits", told(begun), &Limits{}, 0, Nothing},
		{"negative limits", told(begun), &Limits{-1, -1, -1, -1, -1}, 0, Nothing},

		{"awaiting: first byte", told(awaiting), &all, 6 * s, Silence},
		{"awaiting: idle", told(awaiting), with(func(l *Limits) { l.FirstByte = 0 }), 11 * s, Silence},
		{"awaiting: stall", told(awaiting), &Limits{Stall: 20 * s}, 21 * s, Silence},
		{"awaiting: the soonest of them", told(awaiting), &Limits{FirstByte: 3 * s, Idle: 2 * s, Stall: 1 * s}, 2 * s, Silence},
		{"awaiting: no keepalive", told(awaiting), &Limits{Keepalive: s}, 0, Nothing},
		{"awaiting: no grace", told(awaiting), &Limits{DoneGrace: s}, 0, Nothing},
		{"awaiting: the client was waited for", told(func(st *State) { awaiting(st); st.RequestWaited(7 * s) }), &all, 12 * s, Silence},
		{"awaiting: likewise, idle", told(func(st *State) { awaiting(st); st.RequestWaited(7 * s) }), &Limits{Idle: s}, 8 * s, Silence},
		{"awaiting: likewise, stall", told(func(st *State) { awaiting(st); st.RequestWaited(7 * s) }), &Limits{Stall: s}, 8 * s, Silence},
		{"awaiting: it was not", told(func(st *State) { awaiting(st); st.RequestWaited(0) }), &all, 6 * s, Silence},

		{"header: first byte", told(streaming), with(func(l *Limits) { l.Keepalive = 0 }), 6 * s, Silence},
		{"header: it is a byte", told(streaming), &Limits{Idle: s}, 3 * s, Silence},
		{"header: it is no frame", told(streaming), &Limits{Stall: s}, 2 * s, Silence},
		{"header: keepalive", told(streaming), &Limits{Keepalive: s}, 3 * s, Keepalive},
		{"header, not awaited: first byte", told(func(st *State) { awaiting(st); streaming(st); st.HeaderReceived(5*s, false) }), &Limits{FirstByte: s}, 6 * s, Silence},
		{"header, not awaited: stall", told(func(st *State) { awaiting(st); streaming(st); st.HeaderReceived(5*s, false) }), &Limits{Stall: s}, 6 * s, Silence},

		{"begun: keepalive", told(begun), &all, 7 * s, Keepalive},
		{"begun: no first byte", told(begun), &Limits{FirstByte: s}, 0, Nothing},
		{"begun: idle", told(begun), with(func(l *Limits) { l.Keepalive = 0 }), 13 * s, Silence},
		{"begun: stall", told(begun), &Limits{Stall: 2 * s}, 5 * s, Silence},
		{"begun: silence before a keepalive", told(begun), &Limits{Idle: s, Keepalive: s}, 4 * s, Silence},
		{"begun: no grace", told(begun), &Limits{DoneGrace: s}, 0, Nothing},
		{"begun: bytes that are no frame, idle", told(func(st *State) { begun(st); st.Received, st.Began = 9*s, true }), &Limits{Idle: s}, 10 * s, Silence},
		{"begun: bytes that are no frame, stall", told(func(st *State) { begun(st); st.Received, st.Began = 9*s, true }), &Limits{Stall: s}, 4 * s, Silence},
		{"begun: the request does not matter", told(func(st *State) { begun(st); st.RequestWaited(9 * s) }), &Limits{Idle: s}, 4 * s, Silence},
		{"begun: a slow client, idle", told(func(st *State) { begun(st); st.ClientWaited(2 * s) }), &Limits{Idle: s}, 6 * s, Silence},
		{"begun: a slow client, stall", told(func(st *State) { begun(st); st.ClientWaited(2 * s) }), &Limits{Stall: s}, 6 * s, Silence},
		{"begun: a keepalive hides nothing", told(func(st *State) { begun(st); st.Sent = 9 * s }), &Limits{Idle: s}, 4 * s, Silence},
		{"begun: and puts off the next one", told(func(st *State) { begun(st); st.Sent = 9 * s }), &Limits{Keepalive: s}, 10 * s, Keepalive},

		{"finished: grace", told(func(st *State) { begun(st); st.Phase = Finished }), &all, 6 * s, Grace},
		{"finished: grace counts bytes", told(func(st *State) { begun(st); st.Phase = Finished; st.Received, st.Began = 4*s, true }), &Limits{DoneGrace: s}, 5 * s, Grace},
		{"finished: keepalive", told(func(st *State) { begun(st); st.Phase = Finished }), &Limits{Keepalive: s}, 4 * s, Keepalive},
		{"finished: no timeout", told(func(st *State) { begun(st); st.Phase = Finished }), &Limits{FirstByte: s, Idle: s, Stall: s}, 0, Nothing},

		{"whole", told(func(st *State) { awaiting(st); st.Phase = Whole }), &all, 0, Nothing},
		{"other", told(func(st *State) { begun(st); st.Phase = Other }), &all, 0, Nothing},
		{"free", told(func(st *State) { begun(st); st.Phase = Free }), &all, 0, Nothing},
	} {
		at, ok := c.st.Next(c.l)
		if !ok {
			at = 0
		}
		if at != c.at || ok != (c.at > 0) {
			t.Errorf("%s: next at %v, %t; want %v", c.name, at, ok, c.at)
		}
		if !ok {
			at = 1e9 * s
		}
		if due := c.st.Due(c.l, at); due != c.due {
			t.Errorf("%s: %v is due at %v, want %v", c.name, due, at, c.due)
		}
		if due := c.st.Due(c.l, at-1); ok && due != Nothing {
			t.Errorf("%s: %v is due before", c.name, due)
		}
	}
}

func TestPhases(t *testing.T) {
	for p, c := range map[Phase]struct{ stream, ends bool }{
		Free: {false, false}, Whole: {false, false}, Awaiting: {false, true},
		Other: {true, true}, Streaming: {true, true}, Finished: {true, true},
	} {
		if p.Stream() != c.stream || p.EndsWithDrain() != c.ends {
			t.Errorf("phase %d: stream %t, ends with a drain %t", p, p.Stream(), p.EndsWithDrain())
		}
	}
}
