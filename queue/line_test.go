package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// Who is next, and in which order those that wait see themselves. TestRandomSequences has the rest.
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
			inScene(t, queue.Options{Runs: test.runs, Wait: time.Minute, Waiting: 100}, func(s *scene) {
				for name := range strings.FieldsSeq(test.come) {
					if err := s.join(name); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					s.wait(name)
				}
				s.wantLine(test.line)
				want := strings.Fields(test.want)
				for i, name := range strings.Fields(test.ends) {
					if waits, _ := s.state(want[i]); !waits {
						t.Errorf("%s does not wait for %s", want[i], name)
					}
					s.done(name)
					if waits, err := s.state(want[i]); waits || err != nil {
						t.Errorf("%s has no place after %s: %v", want[i], name, err)
					}
				}
				s.wantNothing()
			})
		})
	}
}

// Backends do not count for each other.
func TestBackends(t *testing.T) {
	var lines queue.Lines
	for _, backend := range []string{"a", "b"} {
		turn, err := lines.Join(backend, queue.Options{Runs: 1}, queue.Client{})
		if err != nil || turn.Wait(t.Context(), nil) != nil {
			t.Fatal(err)
		}
	}
	if s := lines.Stats(); s.Running != 2 {
		t.Errorf("%+v", s)
	}
}
