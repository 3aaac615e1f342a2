package integration

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// mostPace is the longest duration that atAnyPace tries.
const mostPace = time.Minute

// atAnyPace runs a test of what must not take longer than d: of a stream that goes
// on before a timeout of d is over, say. What is right then holds at every d, and
// fails where the machine, not the sidecar, takes longer. So a d that fails is
// followed by one four times as long.
func atAnyPace(t *testing.T, d time.Duration, test func(t testing.TB, d time.Duration)) {
	t.Helper()
	for {
		a := &attempt{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			test(a, d)
		}()
		<-done
		if !a.Failed() || t.Skipped() {
			return
		}
		if 4*d > mostPace {
			for _, f := range a.failures {
				t.Error(f)
			}
			t.FailNow()
		}
		t.Logf("with %v: %q", d, a.failures)
		d *= 4
	}
}

// An attempt is a test that may fail. What it cleans up is cleaned up at the end of
// the test that it belongs to.
type attempt struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	failures []string
}

func (a *attempt) Fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *attempt) FailNow() {
	a.Fail()
	runtime.Goexit()
}

func (a *attempt) Error(args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
	a.failures = append(a.failures, fmt.Sprint(args...))
}

func (a *attempt) Errorf(format string, args ...any) { a.Error(fmt.Sprintf(format, args...)) }

func (a *attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

func (a *attempt) Fatalf(format string, args ...any) { a.Fatal(fmt.Sprintf(format, args...)) }

// What fails is tried again, with more time, until it does not.
func TestAtAnyPace(t *testing.T) {
	var tried []time.Duration
	atAnyPace(t, time.Second, func(t testing.TB, d time.Duration) {
		tried = append(tried, d)
		if d == time.Second {
			t.Errorf("too fast")
		}
		if d < 10*time.Second {
			t.Fatal("still too fast")
		}
	})
	if want := []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}; !slices.Equal(tried, want) {
		t.Errorf("tried were %v, want %v", tried, want)
	}
}
