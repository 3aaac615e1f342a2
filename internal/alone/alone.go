// Package alone runs tests that measure memory in processes of their own, so that the
// goroutines that other tests leave behind do not count.
package alone

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

const variable = "HERMES_TEST_ALONE"

// RaceDetector reports whether the tests run under the race detector. It makes them slow, and allocates
// values that otherwise stay on the stack, because functions are not inlined.
var RaceDetector = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// NotUnderRace skips a test under the race detector, which would find nothing: it measures memory or time, or
// calls what starts no goroutine. That would take ten times as long.
func NotUnderRace(t *testing.T) {
	t.Helper()
	if RaceDetector {
		t.Skip("the race detector allocates, takes time, and would find nothing here")
	}
}

// Elsewhere runs the calling test in another process, makes it fail if it fails there, and returns
// true. In the other process it returns false, and the test goes on.
//
//	if alone.Elsewhere(t) {
//		return
//	}
func Elsewhere(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		return false
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

// Heap returns how many bytes of the heap are in use.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one has found to be finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
