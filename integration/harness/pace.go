package harness

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Patience bounds every wait: what has not happened by then never will, however busy the
// machine is. It finds a hang and measures nothing.
const Patience = 4 * time.Minute

// mostPace is the longest duration that AtAnyPace tries.
const mostPace = time.Minute

// AtAnyPace runs a test of something that must not take longer than d, such as a stream that
// goes on before a timeout of d. The test holds for every d unless the machine is too slow
// for it. So after a failure AtAnyPace tries a d four times as long.
func AtAnyPace(t *testing.T, d time.Duration, test func(t testing.TB, d time.Duration)) {
	t.Helper()
	for {
		a := &Attempt{TB: t}
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

// An Attempt is a test that may fail. Its cleanup runs at the end of the test that it
// belongs to.
type Attempt struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	failures []string
}

func (a *Attempt) Fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
}

func (a *Attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *Attempt) FailNow() {
	a.Fail()
	runtime.Goexit()
}

func (a *Attempt) Error(args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
	a.failures = append(a.failures, fmt.Sprint(args...))
}

func (a *Attempt) Errorf(format string, args ...any) { a.Error(fmt.Sprintf(format, args...)) }

func (a *Attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

func (a *Attempt) Fatalf(format string, args ...any) { a.Fatal(fmt.Sprintf(format, args...)) }

// AtLeast returns a function that fails the test if less than d has passed since. How much
// more it may be is up to the machine.
func AtLeast(t testing.TB, d time.Duration) func() {
	began := time.Now()
	return func() {
		t.Helper()
		if took := time.Since(began); took < d {
			t.Errorf("it took %v, want %v", took, d)
		}
	}
}
