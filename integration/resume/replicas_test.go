package resume

import (
	"cmp"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// ask sends a chat with a key.
func ask(c *client.Client, k string, more ...string) *client.Reply {
	return c.Chat(append([]string{key, k, "Authorization", credential}, more...)...)
}

// remove ends a stream, and returns the status.
func remove(c *client.Client, id, authorization string) int {
	return leave(c.Send(http.MethodDelete, "/v1/chat/completions/"+id, nil, "Authorization", authorization))
}

// sameHost has a client name the same host at every replica, as behind a load balancer.
type sameHost struct{ http.RoundTripper }

func (s sameHost) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = "replicas.example"
	return s.RoundTripper.RoundTrip(r)
}

// TestReplicas has clients continue, repeat and end at one replica what another one runs.
// Then that is killed: its stream ends with an error at the other, and the agent does not
// run again.
func TestReplicas(t *testing.T) {
	r := startRedis(t)
	rest := make(chan struct{})
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("hi", "there")
		if x.Wait(rest) {
			x.Finish()
		}
	})
	all, processes := r.replicas(t, up, 2)
	a, b := all[0], all[1]

	first := ask(a, "one")
	id := first.Header.Get(stream)
	var begun []string
	for range 3 {
		begun = append(begun, frame(t, first))
	}
	replayed := ask(b, "one")
	if replayed.Header.Get("Idempotency-Replayed") != "true" || replayed.Header.Get(stream) != id {
		t.Fatalf("replayed with %v", replayed.Header)
	}
	for i, want := range begun {
		if got := frame(t, replayed); got != want {
			t.Fatalf("replayed %d is %q, want %q", i, got, want)
		}
	}
	continued := b.Chat(lastEvent, id+"/2", "Authorization", credential)
	if got := frame(t, continued); got != begun[2] {
		t.Fatalf("continued it is %q, want %q", got, begun[2])
	}
	if stranger := b.Chat(lastEvent, id+"/2", "Authorization", "Bearer other"); stranger.StatusCode != http.StatusNotFound {
		t.Errorf("a stranger gets %s", stranger.Status)
	}
	if status := remove(b, id, "Bearer other"); status != http.StatusNotFound {
		t.Errorf("a stranger ends it with %d", status)
	}
	first.Leave() // it goes on: there are readers elsewhere
	close(rest)
	tail := replayed.All()
	if !strings.Contains(tail, "[DONE]") || continued.All() != tail {
		t.Errorf("the rest is %q", tail)
	}
	whole := strings.Join(begun, "") + tail
	for i, c := range all {
		if got := ask(c, "one").All(); got != whole {
			t.Errorf("at %d it is %q then, want %q", i, got, whole)
		}
	}

	rest = make(chan struct{})
	second := ask(a, "two")
	id = second.Header.Get(stream)
	frame(t, second)
	if status := remove(b, id, credential); status != http.StatusNoContent {
		t.Fatalf("ended with %d", status)
	}
	if got := second.All(); !strings.Contains(got, `"finish_reason":"error"`) {
		t.Errorf("after its end it has %q", got)
	}
	if gone := a.Chat(lastEvent, id+"/1", "Authorization", credential); gone.StatusCode != http.StatusNotFound {
		t.Errorf("what is ended is %s", gone.Status)
	}

	third := ask(a, "three")
	id = third.Header.Get(stream)
	reader := ask(b, "three")
	for range 3 {
		frame(t, third)
		frame(t, reader)
	}
	processes[0].Kill()
	finish := reader.All()
	if !strings.Contains(finish, `"finish_reason":"error"`) || !strings.Contains(finish, "[DONE]") {
		t.Errorf("after the death of a replica it has %q", finish)
	}
	if got := b.Chat(lastEvent, id+"/3", "Authorization", credential).All(); got != finish {
		t.Errorf("who comes back has %q, want %q", got, finish)
	}
	if again := ask(b, "three"); again.Header.Get("Idempotency-Replayed") != "true" || !strings.HasSuffix(again.All(), finish) {
		t.Error("it is not the same stream")
	}
	if n := len(up.Requests()); n != 3 {
		t.Errorf("upstream was asked %d times, want 3", n)
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "appendonlydir", "*.aof"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	written := ""
	for _, file := range files {
		written += harness.ReadFile(t, file)
	}
	if !strings.Contains(written, "there") {
		t.Error("what was written to redis is not found")
	}
	for i, p := range processes {
		written += fmt.Sprintf("log of %d: %s", i, p.Log)
	}
	for _, word := range []string{password, secret, strings.TrimPrefix(credential, "Bearer ")} {
		if strings.Contains(written, word) {
			t.Errorf("%q is in redis, or in a log", word)
		}
	}
}

// password, secret and credential must not be where others could read them.
const (
	password   = "the-password-of-redis"
	secret     = "the-secret-of-all-replicas"
	credential = "Bearer the-credential-of-a-client"
)

// redis is a server of Redis or Valkey that writes down each command.
type redis struct {
	addr, dir string
	options   string // of the storage, more of them
}

// startRedis starts one with more arguments. With a certificate it speaks only TLS.
func startRedis(t *testing.T, args ...string) *redis {
	t.Helper()
	r := &redis{addr: harness.FreePort(t), dir: t.TempDir()}
	ports := []string{"--port", harness.Port(r.addr)}
	if slices.Contains(args, "--tls-cert-file") {
		ports = []string{"--port", "0", "--tls-port", harness.Port(r.addr)}
	}
	process := harness.Start(t, exec.Command(harness.Program(t, "HERMES_REDIS", "valkey-server", "redis-server"), slices.Concat(ports, []string{
		"--bind", "127.0.0.1", "--requirepass", password, "--save", "", "--appendonly", "yes", "--dir", r.dir}, args)...))
	if !process.Await("Ready to accept connections") {
		t.Fatalf("redis does not start:\n%s", process.Log)
	}
	return r
}

// replicas starts sidecars with the storage, in front of up.
func (r *redis) replicas(t *testing.T, up *upstream.Server, n int) (all []*client.Client, processes []*sidecar.Process) {
	t.Helper()
	caddy := sidecar.BuildOf(t, "resume/redis", harness.RaceEnabled)
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
		c := client.New(t, "http://"+listen)
		c.HTTP.Transport = sameHost{c.HTTP.Transport}
		all = append(all, c)
	}
	return all, processes
}

// TestRedisOverTLS has replicas share streams over TLS, with the certificates of a CA that the
// system does not know. A replica that is not told of it does not trust the server.
func TestRedisOverTLS(t *testing.T) {
	up := upstream.New(t, upstream.Chat(hermes.Says("hi")))
	dir, _ := client.Certificate(t)
	r := startRedis(t, "--tls-cert-file", dir+"/cert.pem", "--tls-key-file", dir+"/key.pem",
		"--tls-ca-cert-file", dir+"/cert.pem", "--tls-auth-clients", "no")
	r.options = "tls " + dir + "/cert.pem"
	all, _ := r.replicas(t, up, 2)
	first := ask(all[0], "one")
	whole := first.All()
	again := ask(all[1], "one")
	if got := again.All(); got != whole || again.Header.Get("Idempotency-Replayed") != "true" || !strings.Contains(whole, "[DONE]") {
		t.Errorf("at the other replica it is %q, %v, want %q", got, again.Header, whole)
	}

	r.options = "tls"
	all, processes := r.replicas(t, up, 1)
	if passed := ask(all[0], "one"); passed.Header.Get(stream) != "" || !strings.Contains(passed.All(), "[DONE]") {
		t.Errorf("a server that is not trusted has %v", passed.Header)
	}
	if !processes[0].Await("redis is failing") || !processes[0].Await("certificate") {
		t.Error("the log does not say why")
	}
}
