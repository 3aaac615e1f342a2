package harness

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/freeport"
)

// Missing skips a test because something is not there, or fails it if the environment
// variable is "required". t is the test that calls, never its parent: skipping that
// would end all tests of the package.
func Missing(t testing.TB, variable, what string) {
	t.Helper()
	if os.Getenv(variable) == "required" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Program returns the path of the first of the programs that the PATH has. If it has none,
// the test is skipped as by Missing.
func Program(t testing.TB, variable string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, variable, "the PATH has no "+strings.Join(names, ", nor "))
	return ""
}

// Helm returns the path of helm 3, which renders the chart.
func Helm(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("helm")
	if err != nil {
		Missing(t, "HERMES_HELM", "no helm in the PATH: go install helm.sh/helm/v3/cmd/helm@v3.22.0")
	}
	return path
}

// Port returns the port of an address.
func Port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// FreePort returns an address of the loopback interface that nobody listens on. No other
// test gets it until this one ends.
func FreePort(t testing.TB) string {
	t.Helper()
	addr, release, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}

// WriteFile writes a file that only its owner may read.
func WriteFile(t testing.TB, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Path returns the path of a file of the repository.
func Path(name string) string { return filepath.Join(repository(), name) }

// repository returns the root of the repository: the first directory from the working
// directory upwards that has this module in it.
var repository = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "integration", "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			panic("the tests run in the repository, and " + dir + " is not in it")
		}
	}
})

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Clip shortens a text that a failure prints.
func Clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}
