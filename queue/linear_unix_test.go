//go:build unix

package queue_test

import (
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// Sixteen times the requests, of as many clients or of one, cost about sixteen times the time,
// while they are told how the line moves, leave it and get their places.
func TestLinesCostLinearTime(t *testing.T) {
	alone.NotUnderRace(t)
	const small, times = 500, 16
	for name, client := range map[string]func(i int) queue.Client{
		"many clients": func(i int) queue.Client { return queue.Client{byte(i), byte(i >> 8)} },
		"one client":   func(int) queue.Client { return queue.Client{} },
	} {
		took := func(n int) (took time.Duration) {
			synctest.Test(t, func(t *testing.T) {
				var lines queue.Lines
				o := queue.Options{Runs: 1, Wait: time.Hour, Waiting: n}
				var turns []*queue.Turn
				began := cpuTime()
				var all sync.WaitGroup
				for i := range n + 1 {
					turn, err := lines.Join(backend, o, client(i))
					if err != nil {
						t.Fatal(err)
					}
					turns = append(turns, turn)
					time.Sleep(time.Second / time.Duration(n)) // each at a time of its own
					all.Go(func() { _ = turn.Wait(t.Context(), func(int) {}) })
				}
				for i := range n { // three seconds, in which it moves all the time
					time.Sleep(3 * time.Second / time.Duration(n))
					turns[i*11%len(turns)].Done()
				}
				for _, turn := range turns {
					turn.Done()
				}
				all.Wait()
				took = cpuTime() - began
			})
			return took
		}
		took(small)
		least, most := min(took(small), took(small)), took(times*small)
		bound := 5 * times * least
		for try := 0; most > bound && try < 5; try++ {
			most = min(most, took(times*small))
		}
		t.Logf("%s: %v, %v", name, least, most)
		if most > bound {
			t.Errorf("%s: %d times the requests cost %v instead of %v", name, times, most, least)
		}
	}
}

// cpuTime returns the CPU time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
