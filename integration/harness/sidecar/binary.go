package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// Binary returns the path of the program under test.
func Binary(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(BinaryVariable); given != "" {
		return given
	}
	return Build(t, harness.RaceEnabled)
}

// BinaryVariable names a binary to test instead of building one.
const BinaryVariable = "HERMES_TEST_BINARY"

// Build returns the path of ./cmd/caddy of the repository, built with the race detector or
// without.
func Build(t testing.TB, race bool) string {
	t.Helper()
	caddy, err := builds[race]()
	if err != nil {
		t.Fatal(err)
	}
	return caddy
}

// builds has a build of each kind, which happens at its first use.
var builds = map[bool]func() (string, error){
	false: sync.OnceValues(func() (string, error) { return cached() }),
	true:  sync.OnceValues(func() (string, error) { return cached("-race") }),
}

// cached builds ./cmd/caddy in Go's build cache and returns its path there, so that all test
// binaries of a run share it. "go run" keeps the program, and -exec gets its path. Only the
// run that builds it has it in a temporary directory, which is gone afterwards.
func cached(flags ...string) (string, error) {
	for range 2 {
		cmd := exec.Command("go", append(append([]string{"run"}, flags...), "-exec", "echo", "./cmd/caddy")...)
		cmd.Dir = harness.Path("")
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
