package sidecar

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Status returns a field of /proc/<pid>/status.
func (s *Process) Status(field string) string {
	s.t.Helper()
	for line := range strings.Lines(harness.ReadFile(s.t, filepath.Join("/proc", strconv.Itoa(s.Cmd.Process.Pid), "status"))) {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	s.t.Fatalf("no field %s", field)
	return ""
}

// NeedsMemory skips a test of the memory of a process if that cannot be measured.
func NeedsMemory(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the memory of a process is not in /proc here")
	}
	if harness.RaceEnabled {
		t.Skip("the race detector takes memory of its own")
	}
}

// ServeFrugally is Serve for a sidecar whose peak of memory is close to what it holds: it
// collects garbage soon and stops while it does. Otherwise the peak depends on how long a
// busy machine takes to collect.
func ServeFrugally(t testing.TB, up *upstream.Server, o Options) (base string, s *Process) {
	t.Helper()
	listen := harness.FreePort(t)
	conf := Config{Sites: []Site{{Listen: listen, Upstream: up.Addr, Options: o}}}
	return "http://" + listen, Run(t, t.TempDir(), conf, "GOGC=20", "GODEBUG=gcstoptheworld=1")
}

// LimitGrowth returns a function that fails the test if the peak of the sidecar's memory has
// grown by more than limit bytes since, and says what took it.
func LimitGrowth(t testing.TB, s *Process, limit int) func(what string) {
	t.Helper()
	before := s.peak(t)
	return func(what string) {
		t.Helper()
		grown := s.peak(t) - before
		if grown > limit {
			t.Errorf("%s took %d bytes of memory, limit %d", what, grown, limit)
		}
		t.Logf("%s took %d MiB of memory", what, grown>>20)
	}
}

// peak returns the most memory that the sidecar has had, in bytes.
func (s *Process) peak(t testing.TB) int {
	t.Helper()
	kb, err := strconv.Atoi(strings.TrimSuffix(s.Status("VmHWM"), " kB"))
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
