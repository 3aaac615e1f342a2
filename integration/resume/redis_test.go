package resume

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// password, secret and credential must not be where others could read them.
const (
	password   = "the-password-of-redis"
	secret     = "the-secret-of-all-replicas"
	credential = "Bearer the-credential-of-a-client"
)

// withRedis builds Caddy with the storage redis. Go's build cache keeps it.
var withRedis = sync.OnceValues(func() (string, error) {
	flags := []string{"run"}
	if harness.RaceEnabled {
		flags = append(flags, "-race")
	}
	var caddy string
	for range 2 { // the run that builds it has it in a directory that is gone afterwards
		cmd := exec.Command("go", append(flags, "-exec", "echo", "./cmd/caddy")...)
		cmd.Dir = harness.Path("resume/redis")
		var bad bytes.Buffer
		cmd.Stderr = &bad
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("building resume/redis/cmd/caddy: %w\n%s", err, bad.String())
		}
		caddy = strings.TrimSpace(string(out))
		if _, err := os.Stat(caddy); err == nil {
			return caddy, nil
		}
	}
	return "", errors.New("go run does not keep resume/redis/cmd/caddy in its cache")
})

// redis is a server of Redis or Valkey that writes down each command.
type redis struct {
	path, addr, dir string
	args            []string // more of them
	tls             bool
	options         string // of the storage, more of them
	process         *harness.Process
}

// startRedis starts one with more arguments. With a certificate it speaks only TLS.
func startRedis(t *testing.T, args ...string) *redis {
	t.Helper()
	r := &redis{
		path: harness.Program(t, "HERMES_REDIS", "valkey-server", "redis-server"),
		addr: harness.FreePort(t), dir: t.TempDir(), args: args,
		tls: slices.Contains(args, "--tls-cert-file"),
	}
	r.start(t)
	return r
}

func (r *redis) start(t *testing.T) {
	t.Helper()
	ports := []string{"--port", harness.Port(r.addr)}
	if r.tls {
		ports = []string{"--port", "0", "--tls-port", harness.Port(r.addr)}
	}
	r.process = harness.Start(t, exec.Command(r.path, slices.Concat(ports, []string{
		"--bind", "127.0.0.1", "--requirepass", password, "--save", "", "--appendonly", "yes", "--dir", r.dir}, r.args)...))
	if !r.process.Says("Ready to accept connections") {
		t.Fatalf("redis does not start:\n%s", r.process.Log)
	}
}

// replicas starts sidecars with the storage, in front of up.
func (r *redis) replicas(t *testing.T, up *upstream.Server, n int) (all []*client.Client, processes []*sidecar.Process) {
	t.Helper()
	caddy, err := withRedis()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		listen, home := harness.FreePort(t), t.TempDir()
		file := filepath.Join(home, "Caddyfile")
		harness.WriteFile(t, file, []byte(site("http://:"+harness.Port(listen), "admin off", fmt.Sprintf(`hermes_resume {
		storage redis {
			address %s
			password {env.REDIS_PASSWORD}
			secret {env.HERMES_RESUME_SECRET}
			lease 10s
			%s
		}
	}
	hermes
	reverse_proxy %s`, r.addr, cmp.Or(r.options, "timeout 30s"), up.Addr))))
		cmd := exec.Command(caddy, "run", "--config", file, "--adapter", "caddyfile")
		cmd.Env = sidecar.Environment(home, "REDIS_PASSWORD="+password, "HERMES_RESUME_SECRET="+secret)
		processes = append(processes, sidecar.Follow(t, cmd, "serving initial configuration"))
		all = append(all, client.New(t, "http://"+listen))
	}
	return all, processes
}
