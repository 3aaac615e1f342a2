package redis

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// patience is how long a test waits for what must come, on a machine however busy.
const patience = 4 * time.Minute

// server is a Redis or Valkey.
type server struct {
	t        *testing.T
	addr     string   // host and port, or the path of a socket
	args     []string // those of the program
	password string
	at       Storage // where replicas find it, with others
	stdin    io.Closer
	cmd      *exec.Cmd
	client   *goredis.Client // of the test
}

// program returns the server's program, or skips the test.
func program(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("HERMES_REDIS") == "required" {
		t.Fatal("no valkey-server or redis-server in the PATH: on Debian, install one of these packages")
	}
	t.Skip("no valkey-server or redis-server in the PATH")
	return ""
}

// startServer starts a server, which keeps nothing on disk unless args say so. It ends with
// the test, however that ends: the shell that has started it notices that the test no longer writes to
// it.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	path := program(t)
	dir, err := os.MkdirTemp("", "hermes-redis") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &server{t: t, addr: filepath.Join(dir, "s")}
	s.args = append([]string{"--port", "0", "--save", "", "--unixsocket", s.addr, "--dir", dir}, args...)
	s.at.Address = "unix/" + s.addr
	s.start(path)
	t.Cleanup(s.kill)
	return s
}

func (s *server) start(path string) {
	s.t.Helper()
	command := `"$0" "$@" >/dev/null & cat >/dev/null; kill -9 $!; wait`
	s.cmd = exec.Command("sh", append([]string{"-c", command, path}, s.args...)...)
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.stdin = stdin
	s.client = goredis.NewClient(&goredis.Options{Addr: s.addr, Password: s.password, DisableIdentity: true})
	until(s.t, "the server answers", func() bool { return s.client.Ping(context.Background()).Err() == nil })
}

// do has the server do a command.
func (s *server) do(command ...any) {
	s.t.Helper()
	if err := s.client.Do(context.Background(), command...).Err(); err != nil {
		s.t.Fatalf("%v: %v", command, err)
	}
}

// pid returns the id of its process.
func (s *server) pid() int {
	s.t.Helper()
	info, err := s.client.Info(context.Background(), "server").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	pid, err := strconv.Atoi(rest[:strings.IndexByte(rest, '\r')])
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// keys returns all keys.
func (s *server) keys() []string {
	s.t.Helper()
	var keys []string
	all := s.client.Scan(context.Background(), 0, "*", 1000).Iterator()
	for all.Next(context.Background()) {
		keys = append(keys, all.Val())
	}
	if err := all.Err(); err != nil {
		s.t.Fatal(err)
	}
	return keys
}

// kill kills the server.
func (s *server) kill() {
	if s.stdin == nil {
		return
	}
	s.stdin.Close()
	_ = s.cmd.Wait() // it is killed
	s.client.Close()
	s.stdin = nil
}

// replica returns the store of a replica, with the options of a configuration but for the times, which
// set may change, and what it logs.
func (s *server) replica(set func(*Options)) (*Store, *observer.ObservedLogs) {
	s.t.Helper()
	of := s.at
	of.Prefix, of.Secret = cmp.Or(of.Prefix, "test:"), "the-secret-of-all-replicas"
	err := of.Provision(caddy.Context{})
	if err == nil {
		err = of.Validate()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	o := of.options
	o.Lease, o.Timeout = patience, patience
	o.Local, o.Finish, o.Logger = log.NewMemory(), resume.Finish, zap.New(core)
	if set != nil {
		set(&o)
	}
	r := New(o)
	s.t.Cleanup(func() { r.Destruct() })
	return r, logs
}

// until waits until it is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

// replicas returns the stores of two replicas.
func (s *server) replicas() (here, there *Store) {
	here, _ = s.replica(nil)
	there, _ = s.replica(nil)
	return here, there
}
