package integration

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/freeport"
)

// A sidecar is a running process of the binary under test.
type sidecar struct {
	t      testing.TB
	cmd    *exec.Cmd
	admin  string // host:port of the admin API, "" when it is off
	log    *logBook
	exited chan struct{} // closed once the process is gone
	err    error         // of the process, valid once exited is closed
}

// environment keeps a process away from the user's files: everything that
// Caddy stores goes below home.
func environment(home string, more ...string) []string {
	return append(append(os.Environ(),
		"HOME="+home, "XDG_DATA_HOME="+filepath.Join(home, "data"), "XDG_CONFIG_HOME="+filepath.Join(home, "config")), more...)
}

// run starts the sidecar with a config of Caddy's JSON below home, and returns
// when it serves. The process is killed at the end of the test, if it still
// runs.
func run(t testing.TB, home string, c config, env ...string) *sidecar {
	t.Helper()
	s := runArgs(t, environment(home, env...), "run", "--config", c.write(t, home))
	s.admin = c.admin
	return s
}

// runArgs starts the binary with any arguments that make it serve a
// configuration.
func runArgs(t testing.TB, env []string, args ...string) *sidecar {
	t.Helper()
	return launch(t, env, "serving initial configuration", args...)
}

// runCaddyfile writes a Caddyfile below home and runs it.
func runCaddyfile(t testing.TB, home, text string, env ...string) *sidecar {
	t.Helper()
	return runArgs(t, environment(home, env...), "run", "--config", caddyfile(t, home, text), "--adapter", "caddyfile")
}

// caddyfile writes a Caddyfile below home and returns its path.
func caddyfile(t testing.TB, home, text string) string {
	t.Helper()
	file := filepath.Join(home, "Caddyfile")
	write(t, file, []byte(text))
	return file
}

// commandOn runs a subcommand, such as "validate", on a Caddyfile.
func commandOn(t testing.TB, subcommand, text string, flags ...string) (stdout, stderr string, err error) {
	t.Helper()
	home := t.TempDir()
	return caddy(t, home, append([]string{subcommand, "--config", caddyfile(t, home, text), "--adapter", "caddyfile"}, flags...)...)
}

// caddyWith runs Caddy with a Caddyfile whose site has the directives, and returns
// its base URL.
func caddyWith(t testing.TB, directives string) (base string, s *sidecar) {
	t.Helper()
	listen := freePort(t)
	return "http://" + listen, runCaddyfile(t, t.TempDir(), "{\n\tadmin off\n}\n"+onLoopback(listen)+"\n"+directives+"\n}\n")
}

// launch starts the binary, and returns when its log has the text ready.
func launch(t testing.TB, env []string, ready string, args ...string) *sidecar {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	cmd.Env = env
	return follow(t, cmd, ready)
}

// follow starts a command whose process becomes the binary, and returns when its
// log has the text ready.
func follow(t testing.TB, cmd *exec.Cmd, ready string) *sidecar {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	s := &sidecar{t: t, cmd: cmd, log: newLogBook(), exited: make(chan struct{})}
	go func() {
		s.log.fill(stderr)
		s.err = cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(s.stop)
	if !s.log.wait(ready, s.exited) {
		t.Fatalf("the sidecar did not start:\n%s", s.log)
	}
	return s
}

// stop kills the process and looks at what it has left in its log.
func (s *sidecar) stop() {
	select {
	case <-s.exited:
	default:
		s.cmd.Process.Kill()
		<-s.exited
	}
	t := s.t
	if a, ok := t.(*attempt); ok {
		t = a.TB // no attempt excuses these
	}
	for _, bad := range []string{"DATA RACE", "panic:", "panic serving", "fatal error:"} {
		if strings.Contains(s.log.String(), bad) {
			t.Errorf("the sidecar's log has %q", bad)
		}
	}
	if s.t.Failed() {
		s.t.Logf("log of the sidecar:\n%s", s.log)
	}
}

// terminate sends SIGTERM and returns once the sidecar has begun to stop.
func (s *sidecar) terminate() { s.signal(syscall.SIGTERM) }

// interrupt does the same with SIGINT.
func (s *sidecar) interrupt() { s.signal(syscall.SIGINT) }

// signal sends it once Caddy takes signals itself. It begins to in goroutines that a
// busy machine may run after the sidecar serves, and dies of a signal until then.
// Of SIGUSR2 it does not die, and it says so as soon as it takes it.
func (s *sidecar) signal(sig os.Signal) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for trapped := false; !trapped && time.Now().Before(deadline); {
		if err := s.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
			s.t.Fatal(err)
		}
		trapped = s.log.waitFor(`"signal":"SIGUSR2"`, s.exited, 50*time.Millisecond)
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	s.stopping()
}

// stopByAdmin asks the admin API for the same. It answers when all is over.
func (s *sidecar) stopByAdmin() {
	s.t.Helper()
	go func() {
		res, err := http.Post("http://"+s.admin+"/stop", "", nil)
		if err == nil {
			res.Body.Close()
		}
	}()
	s.stopping()
}

// stopping waits until the sidecar has begun to stop.
func (s *sidecar) stopping() {
	s.t.Helper()
	if !s.log.wait("exiting; byeee", s.exited) {
		s.t.Fatalf("no word of the shutdown in the log:\n%s", s.log)
	}
}

// exit waits for the end of the process and wants status 0.
func (s *sidecar) exit() {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatal("the sidecar does not exit")
	}
	if s.err != nil {
		s.t.Fatalf("the sidecar's exit: %v", s.err)
	}
}

// load replaces the running configuration through the admin API, and returns
// when the new one is in force. The admin server of a reload just before may
// still take the connection and close it: then it is tried again.
func (s *sidecar) load(c config) {
	s.t.Helper()
	c.admin = s.admin
	body := string(c.json(s.t))
	post := func() (*http.Response, error) {
		return http.Post("http://"+s.admin+"/load", "application/json", strings.NewReader(body))
	}
	res, err := post()
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); {
		res, err = post()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		s.t.Fatalf("reload: %s: %s", res.Status, body)
	}
}

// A logBook keeps what a process writes to stderr.
type logBook struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced at every line
}

func newLogBook() *logBook { return &logBook{more: make(chan struct{})} }

func (l *logBook) fill(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		l.mu.Lock()
		if line != "" {
			l.lines = append(l.lines, line)
		}
		close(l.more)
		l.more = make(chan struct{})
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

// wait returns true once a line contains text, false when the process ends or
// patience does.
func (l *logBook) wait(text string, exited <-chan struct{}) bool {
	return l.waitFor(text, exited, patience)
}

// waitFor is wait for as long as the caller wants.
func (l *logBook) waitFor(text string, exited <-chan struct{}, d time.Duration) bool {
	deadline := time.After(d)
	for {
		l.mu.Lock()
		more := l.more
		l.mu.Unlock()
		if strings.Contains(l.String(), text) {
			return true
		}
		select {
		case <-more:
		case <-exited:
			return strings.Contains(l.String(), text)
		case <-deadline:
			return false
		}
	}
}

// entries are the lines of the handler's own logger, decoded.
func (l *logBook) entries() []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var own []map[string]any
	for _, line := range l.lines {
		var e map[string]any
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		if name, _ := e["logger"].(string); strings.HasPrefix(name, "http.handlers.hermes") {
			own = append(own, e)
		}
	}
	return own
}

// needsModule skips a test that configures a module of Caddy's which the binary
// under test leaves out, as hermes-sidecar does with some. The full Caddy has
// them all.
func needsModule(t testing.TB, id string) {
	t.Helper()
	out, err := exec.Command(binary(t), "list-modules").Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(out)), id) {
		return
	}
	if os.Getenv(binaryVariable) == "" {
		t.Fatalf("cmd/caddy has no module %s", id)
	}
	t.Skipf("needs full Caddy: %s has no module %s", filepath.Base(binary(t)), id)
}

// freePort is an address of the loopback interface that nobody listens on, and that
// no other test is given until this one ends.
func freePort(t testing.TB) string {
	t.Helper()
	addr, release, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}

// onLoopback opens a site of a Caddyfile that listens nowhere else.
func onLoopback(listen string) string {
	return "http://" + listen + " {\n\tbind 127.0.0.1\n"
}

func write(t testing.TB, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// path is the path of a file of the repository.
func path(name string) string { return filepath.Join(repository(), name) }

// repository is the root of the repository: the first directory from the working
// directory upwards that has this module below it.
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

// read is what a file has.
func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
