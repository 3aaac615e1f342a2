package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds every wait of the suite: what has not happened by then will
// not happen, however busy the machine is. It is the sign of a hang, and never a
// measure of what is tested.
const patience = 4 * time.Minute

// binary is the path of the caddy under test, built by TestMain.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

// buildAndRun builds ./cmd/caddy of the repository and runs the tests on it.
// HERMES_TEST_BINARY names a binary to test instead.
func buildAndRun(m *testing.M) int {
	if binary = os.Getenv("HERMES_TEST_BINARY"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "hermes-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)

	binary = filepath.Join(dir, "caddy")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/caddy")...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building ./cmd/caddy: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
