package queue_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// TestCrowd has thousands of goroutines come, wait, leave, time out, be refused and be done all at
// once, while the line is read and configured: never more than the runs are let through, each
// that waits gets its place, each is counted, and nothing is left.
func TestCrowd(t *testing.T) {
	const clients, runs, perGoroutine = 50, 8, 4
	goroutines := 3000
	if testing.Short() {
		goroutines = 500
	}
	var lines queue.Lines
	var inside, most, placed, joins atomic.Int64
	var all sync.WaitGroup
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range goroutines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range perGoroutine {
				joins.Add(1)
				o := queue.Options{Runs: runs, Wait: time.Hour, Waiting: 1 << 20}
				ctx, cancel := context.WithCancel(t.Context())
				patient := false
				switch r.IntN(6) {
				case 0:
					o.Wait = time.Duration(r.IntN(int(20 * time.Millisecond)))
				case 1:
					go func() { runtime.Gosched(); cancel() }()
				case 2:
					o.Waiting = r.IntN(goroutines)
				default:
					patient = true
				}
				turn, err := lines.Join(backend, o, queue.Client{byte(r.IntN(clients))})
				if err != nil {
					if patient {
						t.Error(err)
					}
					cancel()
					continue
				}
				tell := func(int) {}
				err = turn.Wait(ctx, tell)
				if err == nil && r.IntN(200) == 0 && turn.Rejoin(0) {
					err = turn.Wait(ctx, tell)
				}
				if err != nil && patient && err != queue.ErrFull { // for which it made room
					t.Error(err)
				}
				if err == nil {
					placed.Add(1)
					n := inside.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					runtime.Gosched()
					turn.Answered()
					inside.Add(-1)
				}
				if r.IntN(2) == 0 {
					go turn.Done()
				}
				turn.Done()
				cancel()
			}
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			lines.Configure(backend, queue.Options{Runs: runs})
			if s := lines.Stats(); s.Running > runs || s.Running < 0 || s.Waiting < 0 {
				t.Errorf("%+v", s)
				return
			}
			lines.List(time.Now())
			runtime.Gosched()
		}
	})
	all.Wait()
	close(stop)
	reader.Wait()
	if most.Load() > runs {
		t.Errorf("%d at once", most.Load())
	}
	s := lines.Stats()
	var counted uint64
	for _, n := range s.Requests {
		counted += n
	}
	if counted != uint64(joins.Load()) || s.Running != 0 || s.Waiting != 0 || s.Requests[queue.Admitted] != uint64(placed.Load()) {
		t.Errorf("%d joined, %d got a place: %+v", joins.Load(), placed.Load(), s)
	}
	t.Logf("%+v", s)
	for lines.Size() != 0 { // a pause, of a second
		runtime.Gosched()
	}
}

// Ten thousand that wait take less than 80 MB with their goroutines, and nothing once they are
// gone.
func TestWaitingTakesLittleMemory(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	const n = 10_000
	var lines queue.Lines
	o := queue.Options{Runs: 1, Wait: time.Hour, Waiting: n}
	crowd := func(name byte) (took, left int64) {
		before, stacksBefore := memory()
		first, err := lines.Join(backend, o, queue.Client{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all, told sync.WaitGroup
		told.Add(n)
		for i := range n {
			turn, err := lines.Join(backend, o, queue.Client{byte(i), byte(i >> 8), name})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				tell := told.Done
				_ = turn.Wait(ctx, func(int) { // each has been told once
					tell()
					tell = func() {}
				})
				turn.Done()
			})
		}
		told.Wait()
		objects, stacks := memory()
		took = objects + stacks - before - stacksBefore
		cancel()
		all.Wait()
		first.Done()
		after, _ := memory()
		return took, after - before
	}
	took, _ := crowd(1)
	t.Logf("%d waiting take %d bytes each", n, took/n)
	if took > 80e6 {
		t.Errorf("they take %d bytes", took)
	}
	// The runtime keeps its records of goroutines, which a second crowd uses again. It also keeps some stacks of
	// goroutines that have ended, and with each the span that it is in: how much that is depends on chance.
	if _, left := crowd(2); left > 1e6 {
		t.Errorf("%d bytes are left", left)
	}
	if size := lines.Size(); size != 0 {
		t.Errorf("%d lines and clients are left", size)
	}
}

// memory returns how many bytes objects and stacks take.
func memory() (objects, stacks int64) {
	runtime.GC()
	runtime.GC()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64())
}

// BenchmarkFree is what a request costs while there are free places.
func BenchmarkFree(b *testing.B) {
	for name, others := range map[string]int{"idle": 0, "busy": 4} {
		b.Run(name, func(b *testing.B) {
			var lines queue.Lines
			o := queue.Options{Runs: 8, Wait: time.Minute, Waiting: 100}
			for i := range others {
				_, _ = lines.Join(backend, o, queue.Client{1, byte(i)})
			}
			b.ReportAllocs()
			for b.Loop() {
				turn, _ := lines.Join(backend, o, queue.Client{})
				_ = turn.Wait(b.Context(), nil)
				turn.Answered()
				turn.Done()
			}
		})
	}
}

// BenchmarkFull is what a request costs that has to wait after ten thousand others, or is refused.
func BenchmarkFull(b *testing.B) {
	for name, room := range map[string]int{"waits": 20_000, "refused": 10_000} {
		b.Run(name, func(b *testing.B) {
			var lines queue.Lines
			o := queue.Options{Runs: 1, Wait: time.Hour, Waiting: room}
			for i := range 10_001 {
				_, _ = lines.Join(backend, o, queue.Client{byte(i), byte(i >> 8)})
			}
			b.ReportAllocs()
			for b.Loop() {
				if turn, err := lines.Join(backend, o, queue.Client{0, 0, 1}); err == nil {
					turn.Done()
				}
			}
		})
	}
}
