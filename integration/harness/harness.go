package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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

// RaceEnabled reports whether the tests run with the race detector. If so, the binary under test has
// it too.
var RaceEnabled = func() bool {
	info, _ := debug.ReadBuildInfo() // every test has it
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// Port returns the port of an address.
func Port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// FreePort returns an address of the loopback interface that is not in use. No other
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

// A Listener hands each connection to its address over to a function, in a goroutine of its own.
type Listener struct {
	Addr string
	stop func()
	all  sync.WaitGroup
}

// Listen starts a Listener on the loopback interface. It ends with the test. A connection is closed
// when serve returns, and when the Listener is, which ends the context.
func Listen(t testing.TB, serve func(over context.Context, c net.Conn)) *Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(context.Background())
	l := &Listener{Addr: ln.Addr().String(), stop: func() { ln.Close(); end() }}
	l.all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			l.all.Go(func() {
				defer c.Close()
				defer context.AfterFunc(over, func() { c.Close() })()
				serve(over, c)
			})
		}
	})
	t.Cleanup(l.Close)
	return l
}

// Close closes the address and its connections, and waits for the functions that serve them.
func (l *Listener) Close() {
	l.stop()
	l.all.Wait()
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

// Patience bounds every wait: what has not happened by then never will, however busy the
// machine is. It finds a hang and measures nothing.
const Patience = 4 * time.Minute

// Persist repeats what fails, such as a request to a server that has just started, for as
// long as Patience lasts.
func Persist[T any](do func() (T, error)) (v T, err error) {
	v, err = do()
	for deadline := time.Now().Add(Patience); err != nil && time.Now().Before(deadline); {
		v, err = do()
	}
	return v, err
}

// Until waits until something is so, and fails the test if it never is.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never was so that %s", what)
		}
	}
}

// Seed returns the number in an environment variable, which repeats what a test draws at random, or
// another one each time.
func Seed(t testing.TB, variable string) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv(variable), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%s=%d repeats this", variable, seed)
	return seed
}

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
	failures []string
}

// Error records what is wrong.
func (a *Attempt) Error(args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, fmt.Sprint(args...))
}

// Failed reports whether anything is wrong.
func (a *Attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failures != nil
}

// Fatal records what is wrong, and ends the attempt.
func (a *Attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

// Errorf is Error with a format.
func (a *Attempt) Errorf(format string, args ...any) { a.Error(fmt.Sprintf(format, args...)) }

// Fatalf is Fatal with a format.
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
