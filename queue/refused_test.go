package queue_test

import (
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// Upstream refuses a request: it waits again where it was, nobody is let through for a time, and then
// one after another until upstream has taken one.
func TestRefused(t *testing.T) {
	inScene(t, options(4), func(s *scene) {
		s.come("a1 b1 c1")
		s.refuse("b1", 3*time.Second)
		s.come("b2 d1 e1 f1")
		s.wantPlaced("a1 b1 c1")
		s.wantLine("b1 d1 e1 f1 b2")
		s.sleep(3*time.Second - 1)
		s.wantPlaced("")
		s.sleep(1)
		s.wantPlaced("b1")
		s.refuse("b1", 5*time.Second) // it is still the first
		s.wantLine("b1 d1 e1 f1 b2")
		s.sleep(5 * time.Second)
		s.wantPlaced("b1")
		s.answered("a1") // says nothing: it was let through before
		s.wantPlaced("")
		s.answered("b1")
		s.wantPlaced("d1")
		s.done("a1 d1")
		s.wantPlaced("e1 f1")
		s.wantNothing()
	})
}

// A refusal costs nobody its turn: a client whose only request is refused comes before the second
// one of another, however often and in which order upstream refuses.
func TestARefusalCostsNoTurn(t *testing.T) {
	inScene(t, options(8), func(s *scene) {
		s.come("a1 b1 b2 c1")
		s.wantPlaced("a1 b1 b2 c1")
		for _, name := range []string{"c1", "b1", "a1", "b2"} {
			s.refuse(name, time.Second)
		}
		s.wantLine("a1 b1 c1 b2")
		for i := range 6 {
			s.sleep(time.Second)
			s.wantPlaced("a1")
			s.refuse("a1", time.Second)
			if scout := map[int]string{2: "b1", 5: "c1"}[i]; scout != "" {
				s.wantPlaced(scout)
				s.refuse(scout, time.Second)
			}
			s.wantLine("a1 b1 c1 b2")
		}
		s.sleep(time.Second)
		s.wantPlaced("a1")
		s.done("a1") // at once: it has had its turn
		s.wantPlaced("b1")
		s.come("a2")
		s.done("b1")
		s.wantPlaced("c1")
		s.wantLine("a2 b2")
		s.wantNothing()
	})
	// The places of a client that are not refused count, whatever becomes of others of its own.
	inScene(t, options(3), func(s *scene) {
		s.come("a1 b1 b2 a2 c1")
		s.wantPlaced("a1 b1 b2")
		s.refuse("b1", time.Minute/2)
		s.refuse("b2", time.Minute/2)
		s.wantLine("b1 c1 a2 b2")
		s.wantNothing()
	})
}

// What those that wait are told after refusals never grows, and no two are told that they are next.
func TestTellsAfterRefused(t *testing.T) {
	inScene(t, options(4), func(s *scene) {
		s.come("x1 a1 b1 c1")
		s.wantPlaced("x1 a1 b1 c1")
		s.answered("x1")
		for _, name := range []string{"a1", "b1", "c1"} {
			s.refuse(name, time.Second)
		}
		s.sleep(500 * time.Millisecond)
		for range 10 {
			s.sleep(500 * time.Millisecond)
			s.wantPlaced("a1")
			s.sleep(300 * time.Millisecond) // upstream takes its time, and the others are told their places
			s.refuse("a1", time.Second)
			if len(s.placed) > 0 { // a scout
				scout := s.placed[0]
				s.wantPlaced(scout)
				s.sleep(300 * time.Millisecond)
				s.refuse(scout, time.Second)
			}
			s.sleep(500 * time.Millisecond)
		}
		s.wantTold("b1", 1)
		s.wantTold("c1", 2)
		s.sleep(500 * time.Millisecond)
		s.wantPlaced("a1")
		s.sleep(10 * time.Second) // and says nothing: the others follow
		s.wantPlaced("b1 c1")
		s.wantNothing()
	})
}

// A request that is always refused for a reason of its own holds up nobody for good.
func TestScout(t *testing.T) {
	inScene(t, options(4), func(s *scene) {
		s.come("a1")
		s.refuse("a1", time.Second)
		s.come("b1 c1")
		s.wantPlaced("a1")
		for range 3 {
			s.sleep(time.Second)
			s.wantPlaced("a1")
			s.refuse("a1", time.Second)
		}
		s.wantPlaced("b1")
		s.wantLine("a1 c1")
		s.refuse("b1", time.Second)
		s.wantLine("a1 b1 c1") // where it was
		for range 3 {
			s.sleep(time.Second)
			s.wantPlaced("a1")
			s.refuse("a1", time.Second)
		}
		s.wantPlaced("c1")
		s.answered("c1")
		s.wantPlaced("a1 b1")
		s.wantNothing()
	})
	// At the end of runs nobody scouts: upstream may count them a moment longer.
	inScene(t, options(9), func(s *scene) {
		s.come("x1 x2 x3 x4 x5 x6 a1")
		s.refuse("a1", time.Second)
		s.come("b1")
		s.wantPlaced("x1 x2 x3 x4 x5 x6 a1")
		for _, run := range []string{"x1", "x2", "x3", "x4", "x5", "x6"} {
			s.done(run)
			s.wantPlaced("a1")
			s.refuse("a1", time.Second)
		}
		s.wantLine("a1 b1")
		s.wantNothing()
	})
	// A client is no scout of its own, and a scout takes no place that is not there.
	for _, other := range []string{"a2", "b1"} {
		inScene(t, options(2), func(s *scene) {
			s.come("x1 a1")
			s.answered("x1")
			s.refuse("a1", time.Second)
			s.come(other)
			s.wantPlaced("x1 a1")
			for range 9 {
				s.sleep(time.Second)
				s.wantPlaced("a1")
				if other == "b1" {
					s.lines.Configure(backend, options(1))
				}
				s.refuse("a1", time.Second)
				s.lines.Configure(backend, options(2))
				s.wantPlaced("")
			}
			s.wantNothing()
		})
	}
}

// Each request is counted once, as what became of it at last.
func TestStats(t *testing.T) {
	o := options(1)
	o.Waiting = 2
	inScene(t, o, func(s *scene) {
		want := func(waiting, running int, requests ...uint64) {
			t.Helper()
			got := s.lines.Stats()
			if got.Waiting != waiting || got.Running != running || [4]uint64(requests) != got.Requests {
				t.Fatalf("%+v", got)
			}
		}
		s.come("a1 b1 c1")
		_ = s.join("d1")
		want(2, 1, 0, 1, 0, 0)
		s.answered("a1")
		want(2, 1, 1, 1, 0, 0)
		s.sleep(100 * time.Millisecond)
		s.done("a1")
		want(1, 1, 1, 1, 0, 0)
		s.refuse("b1", time.Second)
		want(2, 0, 1, 1, 0, 0)
		s.left("c1", nil)
		want(1, 0, 1, 1, 0, 1)
		s.sleep(2 * time.Second)
		s.come("e1")
		s.done("b1")
		want(0, 1, 2, 1, 0, 1)
		s.come("f1")
		s.sleep(time.Minute)
		want(0, 1, 2, 1, 1, 1)
		s.done("e1 e1 f1")
		want(0, 0, 3, 1, 1, 1)
		got := s.lines.Stats()
		if got.Refused != 1 || got.Waits.Count != 4 || got.Waits.Sum != 61200*time.Millisecond {
			t.Errorf("%+v", got)
		}
		for bound, n := range map[float64]uint64{0.1: 2, 1: 2, 5: 3, 15: 3, 30: 3, 60: 4, 120: 4, 300: 4} {
			if got.Waits.Buckets[bound] != n {
				t.Errorf("%v: %d", bound, got.Waits.Buckets[bound])
			}
		}
		s.wantNothing()
	})
	for o, name := range []string{"admitted", "full", "timeout", "left"} {
		if got := queue.Outcome(o).String(); got != name {
			t.Errorf("%d: %s", o, got)
		}
	}
}
