package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

func options(runs int) queue.Options {
	return queue.Options{Runs: runs, Wait: time.Minute, Waiting: 100}
}

// Who is next, and in which order those that wait see themselves.
func TestFairness(t *testing.T) {
	for name, test := range map[string]struct {
		runs int
		come string // in this order
		line string // those of them that wait, in the order in which it is their turn
		ends string // one after another
		want string // who gets the places
	}{
		"one client, in the order in which they came":       {1, "a1 a2 a3 a4", "a2 a3 a4", "a1 a2 a3", "a2 a3 a4"},
		"one request each, in the order in which they came": {1, "a1 b1 c1 d1", "b1 c1 d1", "a1 b1 c1", "b1 c1 d1"},
		"turns go round":                                 {1, "a1 a2 a3 b1 b2 c1", "b1 c1 a2 b2 a3", "a1 b1 c1 a2 b2", "b1 c1 a2 b2 a3"},
		"nothing running before three":                   {3, "a1 a2 a3 a4 b1", "b1 a4", "a1 a2", "b1 a4"},
		"nothing running before one":                     {3, "a1 a2 b1 b2 c1 a3", "c1 b2 a3", "b1 a1", "c1 b2"},
		"fewest first":                                   {4, "a1 a2 b1 c1 a3 b2 d1", "d1 b2 a3", "c1 a1", "d1 b2"},
		"one that holds three, when only it waits":       {3, "a1 a2 a3 a4 a5", "a4 a5", "a1 a2", "a4 a5"},
		"a crowd of one client does not hold up another": {2, "a1 a2 a3 a4 a5 a6 a7 b1 b2", "b1 b2 a3 a4 a5 a6 a7", "a1 a2 b1", "b1 a3 b2"},
		"equals that hold two":                           {4, "a1 b1 a2 b2 a3 b3 a4", "a3 b3 a4", "b1", "b3"},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, options(test.runs), func(s *scene) {
				s.come(test.come)
				first := strings.Fields(test.come)[:test.runs]
				s.wantPlaced(strings.Join(first, " "))
				s.wantLine(test.line)
				s.done(test.ends)
				s.wantPlaced(test.want)
				s.wantNothing()
			})
		})
	}
}

// The line is full, or the wait over.
func TestLimits(t *testing.T) {
	o := options(1)
	o.Waiting = 2
	inScene(t, o, func(s *scene) {
		s.come("a1 b1 c1")
		for _, name := range []string{"a2", "b2", "d1"} {
			if err := s.join(name); err != queue.ErrFull {
				t.Errorf("%s: %v", name, err)
			}
		}
		s.sleep(30 * time.Second)
		s.left("b1", nil)
		s.come("d1")
		s.sleep(30*time.Second - 1)
		s.wantLine("c1 d1")
		s.sleep(1)
		s.wantErr("c1", queue.ErrTimeout)
		s.wantLine("d1")
		s.done("a1")
		s.wantPlaced("a1 d1")
		s.wantNothing()
	})
	for _, o := range []queue.Options{{Runs: 1, Wait: time.Minute}, {Runs: 1, Waiting: 100}} {
		inScene(t, o, func(s *scene) {
			s.come("a1")
			if err := s.join("b1"); err != queue.ErrFull {
				t.Error(err)
			}
			s.done("a1")
			s.come("b1")
			if s.requests["b1"].turn.Rejoin(0) {
				t.Error("it may wait")
			}
			s.wantNothing()
		})
	}
}

// Backends have lines of their own.
func TestBackendsDoNotCount(t *testing.T) {
	var lines queue.Lines
	for _, backend := range []string{"a", "b"} {
		turn, err := lines.Join(backend, options(1), queue.Client{})
		if err != nil || turn.Wait(t.Context(), nil) != nil {
			t.Fatal(err)
		}
	}
	if s := lines.Stats(); s.Running != 2 {
		t.Errorf("%+v", s)
	}
}

// A client cannot fill the line for others: the last of the one with the most has to leave for one
// with fewer, and never for another reason.
func TestAFullLineIsShared(t *testing.T) {
	o := options(1)
	o.Waiting = 4
	inScene(t, o, func(s *scene) {
		s.come("x1 a1 a2 a3 a4")
		if err := s.join("a5"); err != queue.ErrFull {
			t.Error(err)
		}
		s.come("b1")
		s.wantErr("a4", queue.ErrFull)
		s.come("c1")
		s.wantErr("a3", queue.ErrFull)
		s.wantLine("a1 b1 c1 a2")
		for _, name := range []string{"b2", "a3"} {
			if err := s.join(name); err != queue.ErrFull {
				t.Errorf("%s: %v", name, err)
			}
		}
		s.come("d1")
		s.wantErr("a2", queue.ErrFull)
		if err := s.join("e1"); err != queue.ErrFull { // each has one
			t.Error(err)
		}
		s.wantLine("a1 b1 c1 d1")
		if got := s.lines.Stats().Requests[queue.Full]; got != 7 {
			t.Errorf("%d were full", got)
		}
		s.wantNothing()
	})
}

// What a request is told while it waits: its number, and when that is smaller than before.
func TestTells(t *testing.T) {
	inScene(t, options(1), func(s *scene) {
		s.come("x1 a1 b1 c1")
		s.sleep(time.Second - 1)
		s.wantTold("c1")
		s.sleep(1)
		s.wantTold("c1", 2)
		s.sleep(5 * time.Second)
		s.wantTold("c1", 2)
		s.left("b1", nil)
		s.sleep(time.Second)
		s.wantTold("c1", 2, 1)
		s.done("x1")
		s.sleep(time.Second)
		s.wantTold("a1", 0)
		s.wantTold("c1", 2, 1, 0)
		s.done("a1")
		s.come("a2 a3")
		s.refuse("c1", 5*time.Second) // still the first
		s.sleep(time.Second - 1)
		s.wantTold("c1", 2, 1, 0)
		s.sleep(1)
		s.wantTold("c1", 2, 1, 0)
		s.wantTold("a2", 1)
		s.wantTold("a3", 2)
		s.come("d1") // before a3: a number that grows is not told
		s.sleep(time.Second)
		s.wantTold("d1", 2)
		s.wantTold("a3", 2)
		s.wantNothing()
	})
}

// While it waits no longer, its place is the next one's.
func TestPlacesAreNotLost(t *testing.T) {
	t.Run("context ends with a place", func(t *testing.T) {
		inScene(t, options(1), func(s *scene) {
			s.come("a1 b1 c1")
			s.requests["b1"].leave(nil)
			s.requests["a1"].turn.Done()
			s.settle()
			s.wantPlaced("a1 c1")
			s.wantNothing()
		})
	})
	t.Run("a place, and then the context ends before Wait", func(t *testing.T) {
		inScene(t, options(1), func(s *scene) {
			turn, _ := s.lines.Join(backend, s.o, queue.Client{'x'})
			s.come("a1")
			cause := errors.New("gone")
			q := s.requests["a1"]
			q.leave(cause)
			if err := turn.Wait(q.ctx, nil); err != cause {
				t.Error(err)
			}
			s.settle()
			if got := s.lines.Stats(); got.Running != 0 || got.Requests[queue.Left] != 2 {
				t.Errorf("%+v", got)
			}
			s.wantNothing()
		})
	})
}
