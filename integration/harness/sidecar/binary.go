package sidecar

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// Binary returns the path of the program under test.
func Binary(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(BinaryVariable); given != "" {
		return given
	}
	return BuildOf(t, "", harness.RaceEnabled)
}

// BinaryVariable names a binary to test instead of building one.
const BinaryVariable = "HERMES_TEST_BINARY"

// RaceBinary returns the path of a program under test with the race detector, which it builds if Binary
// has none. It skips the test where a binary is given.
func RaceBinary(t testing.TB) string {
	t.Helper()
	switch {
	case os.Getenv(BinaryVariable) != "":
		t.Skip("the binary under test is given")
	case harness.RaceEnabled:
		return Binary(t)
	}
	out, err := exec.Command("go", "env", "CGO_ENABLED", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Fields(string(out))
	if len(env) > 1 {
		_, err = exec.LookPath(env[1])
	}
	if len(env) < 2 || env[0] != "1" || err != nil {
		harness.Missing(t, "HERMES_RACE", "the race detector needs cgo and a C compiler")
	}
	return BuildOf(t, "", true)
}

// BuildOf returns the path of ./cmd/caddy of a module in the repository, which is "" or a directory,
// built with the race detector or without. It builds in Go's build cache, so that all test binaries of a
// run share it. "go run" keeps the program, and -exec gets its path.
// Only the run that builds it has it in a temporary directory, which is gone afterwards.
func BuildOf(t testing.TB, module string, race bool) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	defer lock(t)()
	args := []string{"run", "-race=" + strconv.FormatBool(race), "-exec", "echo", "./cmd/caddy"}
	key := module + args[1]
	for range 2 {
		if caddy := built[key]; caddy != "" {
			if _, err := os.Stat(caddy); err == nil {
				return caddy
			}
		}
		cmd := exec.Command("go", args...)
		cmd.Dir = harness.Path(module)
		var bad bytes.Buffer
		cmd.Stderr = &bad
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("building ./cmd/caddy: %v\n%s", err, bad.String())
		}
		built[key] = strings.TrimSpace(string(out))
	}
	return built[key]
}

// lock waits until no other test binary builds, and returns what lets the next one. Two
// builds at once would compile every package twice, for Go's build cache has a package
// only once that has been compiled.
func lock(t testing.TB) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("hermes-sidecar-build-%d.lock", os.Getuid())), os.O_CREATE, 0o666)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatalf("waiting for the builds of other tests: %v", err)
	}
	return func() { _ = f.Close() }
}

var (
	building sync.Mutex
	built    = map[string]string{} // paths by module and kind
)
