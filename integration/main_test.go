package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of the suite: what has not happened by then will
// not happen, however busy the machine is. It is the sign of a hang, and never a
// measure of what is tested.
const patience = 4 * time.Minute

// binary is the path of the Caddy under test. HERMES_TEST_BINARY names one; otherwise
// it is ./cmd/caddy of the repository, under -race with the race detector.
func binary(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(binaryVariable); given != "" {
		return given
	}
	return build(t, raceEnabled)
}

// binaryVariable names a binary to test instead of a fresh one.
const binaryVariable = "HERMES_TEST_BINARY"

// build returns the path of ./cmd/caddy of the repository, with the race detector if
// race says so.
func build(t testing.TB, race bool) string {
	t.Helper()
	caddy, err := builds[race]()
	if err != nil {
		t.Fatal(err)
	}
	return caddy
}

// builds has one build of each kind, done at its first use.
var builds = map[bool]func() (string, error){
	false: sync.OnceValues(func() (string, error) { return cached() }),
	true:  sync.OnceValues(func() (string, error) { return cached("-race") }),
}

// cached builds ./cmd/caddy in Go's build cache, and returns its path there. All test
// binaries of a run share it: one builds while the others wait for the lock.
func cached(flags ...string) (string, error) {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("hermes-integration-%d.lock", os.Getuid())), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("%s: %w", lock.Name(), err)
	}
	// "go run" keeps what it builds in the cache, and tells -exec where. It has just
	// built the program only in a directory of its own, which is gone afterwards.
	for range 2 {
		cmd := exec.Command("go", append(append([]string{"run"}, flags...), "-exec", "echo", "./cmd/caddy")...)
		cmd.Dir = path("")
		var bad bytes.Buffer
		cmd.Stderr = &bad
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("building ./cmd/caddy: %w\n%s", err, bad.String())
		}
		caddy := strings.TrimSpace(string(out))
		if _, err := os.Stat(caddy); err == nil {
			return caddy, nil
		}
	}
	return "", errors.New("go run does not keep ./cmd/caddy in its cache")
}
