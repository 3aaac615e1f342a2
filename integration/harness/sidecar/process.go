// Package sidecar runs the program under test: ./cmd/caddy of the repository, or the binary
// that HERMES_TEST_BINARY names.
//
// The program is built once, in Go's build cache, for all test binaries of a run; under -race
// it also has the race detector. A Process is a running one. Its log is searched at its end:
// a panic or a data race in it fails the test.
//
// A configuration is a Config (Caddy's JSON: Serve, Run), a Caddyfile (ServeCaddyfile,
// RunCaddyfile), or a Recipe, which is one of the documentation.
package sidecar

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Command runs a subcommand that ends by itself, with its files below home.
func Command(t testing.TB, home string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Env = Environment(home)
	var out, bad strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &bad
	err = child.Run(cmd)
	return out.String(), bad.String(), err
}

// A Process is a running program under test.
type Process struct {
	*harness.Process
	t     testing.TB
	Admin string // host:port of the admin API, "" when it is off
}

// Environment keeps a process away from the user's files: Caddy stores everything below
// home.
func Environment(home string, more ...string) []string {
	return append(append(os.Environ(),
		"HOME="+home, "XDG_DATA_HOME="+filepath.Join(home, "data"), "XDG_CONFIG_HOME="+filepath.Join(home, "config")), more...)
}

// Run starts the sidecar with a configuration, which it writes below home, and returns when
// it serves.
func Run(t testing.TB, home string, c Config, env ...string) *Process {
	t.Helper()
	s := RunArgs(t, Environment(home, env...), "run", "--config", c.Write(t, home))
	s.Admin = c.Admin
	return s
}

// RunArgs starts the program with arguments that make it serve a configuration.
func RunArgs(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	return Launch(t, env, "serving initial configuration", args...)
}

// Launch starts the program and returns when its log has the text ready.
func Launch(t testing.TB, env []string, ready string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Env = env
	return Follow(t, cmd, ready)
}

// Follow starts a command whose process becomes the program, and returns when its log has
// the text ready.
func Follow(t testing.TB, cmd *exec.Cmd, ready string) *Process {
	t.Helper()
	s := &Process{Process: harness.Start(t, cmd), t: t}
	t.Cleanup(s.Stop)
	if !s.Await(ready) {
		t.Fatalf("the sidecar did not start:\n%s", s.Log)
	}
	return s
}

// Stop kills the process and searches its log for panics and data races.
func (s *Process) Stop() {
	s.Kill()
	t := s.t
	if a, ok := t.(*harness.Attempt); ok {
		t = a.TB // another attempt does not excuse these
	}
	for _, bad := range []string{"DATA RACE", "panic:", "panic serving", "fatal error:"} {
		if strings.Contains(s.Log.String(), bad) {
			t.Errorf("the sidecar's log has %q", bad)
		}
	}
}

// Terminate sends SIGTERM and returns once the sidecar has begun to stop.
func (s *Process) Terminate() { s.signal(syscall.SIGTERM) }

// Interrupt does the same with SIGINT.
func (s *Process) Interrupt() { s.signal(syscall.SIGINT) }

// signal sends a signal once Caddy handles signals. Until then a signal kills it, and on a
// busy machine it may serve before it handles them. SIGUSR2 does not kill it; Caddy logs
// that as soon as it handles it.
func (s *Process) signal(sig os.Signal) {
	s.t.Helper()
	for !s.AwaitWithin(50*time.Millisecond, `"signal":"SIGUSR2"`) {
		if err := s.Cmd.Process.Signal(syscall.SIGUSR2); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.Cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	s.stopping()
}

// StopByAdmin does the same by the admin API, which answers when all is over.
func (s *Process) StopByAdmin() {
	s.t.Helper()
	go func() {
		res, err := http.Post("http://"+s.Admin+"/stop", "", nil)
		if err == nil {
			res.Body.Close()
		}
	}()
	s.stopping()
}

// stopping waits until the sidecar has begun to stop.
func (s *Process) stopping() {
	s.t.Helper()
	if !s.Await("exiting; byeee") {
		s.t.Fatalf("the log says nothing of the shutdown:\n%s", s.Log)
	}
}

// Exit waits for the end of the process, whose status must be 0.
func (s *Process) Exit() {
	s.t.Helper()
	select {
	case <-s.Exited:
	case <-time.After(harness.Patience):
		s.t.Fatal("the sidecar does not exit")
	}
	if s.Err != nil {
		s.t.Fatalf("the sidecar's exit: %v", s.Err)
	}
}

// Load replaces the running configuration by the admin API and returns when the new one is
// in force.
func (s *Process) Load(c Config) {
	s.t.Helper()
	c.Admin = s.Admin
	s.mustLoad("application/json", string(c.JSON(s.t)))
}

// LoadCaddyfile does the same with a Caddyfile.
func (s *Process) LoadCaddyfile(text string) {
	s.t.Helper()
	s.mustLoad("text/caddyfile", text)
}

func (s *Process) mustLoad(contentType, config string) {
	s.t.Helper()
	if failed := s.TryLoad(contentType, config); failed != "" {
		s.t.Fatalf("reload: %s", failed)
	}
}

// TryLoad loads a configuration, also one that is in force, and returns what the admin API says
// against it, "" for nothing. It tries again while the admin server of the configuration before
// closes connections.
func (s *Process) TryLoad(contentType, config string) (failed string) {
	s.t.Helper()
	res, err := harness.Persist(func() (*http.Response, error) {
		req, err := http.NewRequest(http.MethodPost, "http://"+s.Admin+"/load", strings.NewReader(config))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Cache-Control", "must-revalidate")
		return http.DefaultClient.Do(req)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return ""
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.Status + " " + string(body)
}

// NeedsModule skips a test of a Caddy module that the program under test leaves out, as
// hermes-sidecar does with some. Full Caddy has them all.
func NeedsModule(t testing.TB, id string) {
	t.Helper()
	out, err := exec.Command(Binary(t), "list-modules").Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(out)), id) {
		return
	}
	if os.Getenv(BinaryVariable) == "" {
		t.Fatalf("cmd/caddy has no module %s", id)
	}
	t.Skipf("needs full Caddy: %s has no module %s", filepath.Base(Binary(t)), id)
}

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
	return Serve(t, up, o, "GOGC=20", "GODEBUG=gcstoptheworld=1")
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

// peak returns the peak of the memory of the sidecar, in bytes.
func (s *Process) peak(t testing.TB) int {
	t.Helper()
	kb, err := strconv.Atoi(strings.TrimSuffix(s.Status("VmHWM"), " kB"))
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
