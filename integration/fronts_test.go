package integration

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
)

// proxiesVariable says, as "required", that the tests behind other proxies must not
// be skipped for want of one.
const proxiesVariable = "HERMES_PROXIES"

// missing skips a test for want of something, or fails it where the environment
// variable says "required". t is the test that calls, never its parent: to skip that
// would end all tests of the package.
func missing(t testing.TB, variable, what string) {
	t.Helper()
	if os.Getenv(variable) == "required" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// program is the path of the first of the programs that the PATH has. Without one the
// test is skipped, as by missing.
func program(t testing.TB, variable string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, variable, "the PATH has no "+strings.Join(names, ", nor "))
	return ""
}

// A front is a proxy of another make that has the certificate of agent.example.com
// and stands in front of the sidecar.
type front struct {
	certs string // directory of cert.pem, key.pem and both.pem
	pool  *x509.CertPool
	addr  string // where it listens
}

func newFront(t testing.TB) *front {
	t.Helper()
	f := &front{addr: freePort(t)}
	f.certs, f.pool = certificate(t, "agent.example.com")
	var both string
	for _, name := range []string{"cert.pem", "key.pem"} {
		both += read(t, filepath.Join(f.certs, name))
	}
	write(t, filepath.Join(f.certs, "both.pem"), []byte(both))
	return f
}

// start starts it and returns a client of it once it listens.
func (f *front) start(t testing.TB, path string, args ...string) *client {
	t.Helper()
	cmd := exec.Command(path, args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(path), log.String())
		}
	})
	for deadline := time.Now().Add(patience); ; {
		if conn, err := net.Dial("tcp", f.addr); err == nil {
			conn.Close()
			break
		}
		select {
		case <-exited:
			t.Fatalf("%s does not start:\n%s", filepath.Base(path), log.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen on %s", filepath.Base(path), f.addr)
		}
	}
	return newTLSClient(t, "agent.example.com", f.addr, f.pool)
}

// nginx starts nginx with the servers of a recipe.
func (f *front) nginx(t testing.TB, servers recipe) *client {
	t.Helper()
	path, dir := program(t, proxiesVariable, "nginx"), t.TempDir()
	conf := "daemon off;\nmaster_process off;\nerror_log stderr;\npid nginx.pid;\nevents {}\nhttp {\n\taccess_log off;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += "\t" + temp + "_temp_path " + temp + ";\n"
	}
	conf += servers.with("listen 443 ", "listen "+f.addr+" ").with("/etc/nginx/agent.pem", f.certs+"/cert.pem").with("/etc/nginx/agent.key", f.certs+"/key.pem").text + "}\n"
	write(t, filepath.Join(dir, "nginx.conf"), []byte(conf))
	return f.start(t, path, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
}

// haproxy starts HAProxy with a recipe.
func (f *front) haproxy(t testing.TB, conf recipe) *client {
	t.Helper()
	path, dir := program(t, proxiesVariable, "haproxy"), t.TempDir()
	conf = conf.with("bind :443 ", "bind "+f.addr+" ").with("/etc/haproxy/agent.pem", f.certs+"/both.pem")
	write(t, filepath.Join(dir, "haproxy.cfg"), []byte(conf.text))
	return f.start(t, path, "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
}

// traefik starts Traefik with its two files, of which the first names the second.
func (f *front) traefik(t testing.TB, static, dynamic recipe) *client {
	t.Helper()
	path, dir := program(t, "HERMES_TRAEFIK", "traefik"), t.TempDir()
	dynamic = dynamic.with("/etc/traefik/agent.pem", f.certs+"/cert.pem").with("/etc/traefik/agent.key", f.certs+"/key.pem")
	write(t, filepath.Join(dir, "agent.yaml"), []byte(dynamic.text))
	static = static.with(`":443"`, `"`+f.addr+`"`).with("/etc/traefik/agent.yaml", dir+"/agent.yaml")
	write(t, filepath.Join(dir, "traefik.yaml"), []byte(static.text))
	return f.start(t, path, "--configFile="+filepath.Join(dir, "traefik.yaml"))
}

// A behind is a sidecar of the recipe behind-a-proxy.
type behind struct {
	*runningRecipe
	listen, health string
}

// newBehind starts it in front of up.
func newBehind(t testing.TB, up *upstream, keepalive string) *behind {
	t.Helper()
	b := &behind{listen: freePort(t), health: freePort(t)}
	b.runningRecipe = recipeOf(t, "behind-a-proxy").with(":8643", ":"+port(b.listen)).with(":8644", ":"+port(b.health)).
		with("127.0.0.1:8642", up.addr).with("keepalive 10s", "keepalive "+keepalive).caddy()
	return b
}

// checkKeepalive wants of a proxy in front, whose timeout start is told, that a
// keepalive below it holds a silent stream, and that without one it is cut.
func checkKeepalive(t *testing.T, start func(t testing.TB, f *front, b *behind, timeout time.Duration) *client) {
	scripts, _ := frontScripts(t)
	up := newUpstream(t, scripts.play)
	for name, want := range map[string]bool{"keepalive": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atAnyPace(t, 600*time.Millisecond, func(t testing.TB, d time.Duration) {
				keepalive := "off"
				if want {
					keepalive = (d / 3).String()
				}
				b := newBehind(t, up, keepalive)
				if got := survives(t, start(t, newFront(t), b, d), 2*d); got != want {
					t.Errorf("the stream survives: %v", got)
				}
			})
		})
	}
}

// checkFront wants of a proxy in front that everything arrives as it leaves.
func checkFront(t *testing.T, up *upstream, gates *gated, b *behind, c *client) {
	t.Helper()
	r := c.play("g0-v0.8.0/one_tool", "Authorization", "Bearer key", "X-Hermes-Session-Id", "mine", "X-Forwarded-For", "203.0.113.7")
	if r.Proto != "HTTP/2.0" || r.Header.Get("X-Hermes-Session-Id") != "b58e0870-7c5d-46c3-bc7d-38f81258d5c5" {
		t.Errorf("%s, header %v", r.Proto, r.Header)
	}
	r.checkRepaired(t)
	all := up.requests()
	seen := all[len(all)-1]
	if h := seen.Header; h.Get("Authorization") != "Bearer key" || h.Get("X-Hermes-Session-Id") != "mine" ||
		h.Get("X-Forwarded-Proto") != "https" || strings.Contains(h.Get("X-Forwarded-For"), "203.0.113.7") || seen.Host != "agent.example.com" {
		t.Errorf("the agent saw %s %v", seen.Host, h)
	}

	if res, err := http.Get("http://" + b.health + "/healthz"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the health check: %v %v", res, err)
	}
	gates.frameByFrame(t, c)

	a := c.play("reset").answer()
	a.checkError(t, "upstream_aborted")
	if a.content != "hi" {
		t.Errorf("content %q", a.content)
	}
	c.play("g0-v0.8.0/crash_in_tool").answer().checkError(t, "agent_crashed")
	checkJSON(t, c.play("nothing"), 502, up.addr)

	live := c.play("silent")
	live.frame()
	live.leave()
	select {
	case <-gates.gone:
	case <-time.After(patience):
		t.Error("the client has left, and the agent does not hear of it")
	}
}

// gated are scripts whose frames wait for the client to have the one before.
type gated struct {
	got  chan struct{} // one for each frame that the client has
	gone chan struct{} // the sidecar has left the silent stream
	late chan bool     // whether each frame was waited for in vain
	hold chan struct{} // closed when the stream that is held may go on
}

const gatedFrames = 5

// frontScripts are the scripts that a front is tested with.
func frontScripts(t testing.TB) (router, *gated) {
	g := &gated{got: make(chan struct{}), gone: make(chan struct{}, 1), late: make(chan bool, gatedFrames), hold: make(chan struct{})}
	scripts := library([]recording{recorded(t, "g0-v0.8.0/one_tool"), recorded(t, "g0-v0.8.0/crash_in_tool")}, byFrame)
	scripts["gated"] = func(x *exchange) {
		x.events()
		x.frame(role)
		for i := range gatedFrames - 1 {
			select {
			case <-g.got:
				g.late <- false
			case <-time.After(patience / 2):
				g.late <- true
			case <-x.gone:
				return
			}
			x.frame(delta("content", fmt.Sprintf("word %d ", i)))
		}
		x.finish()
	}
	scripts["reset"] = func(x *exchange) {
		x.events()
		x.frame(role)
		x.frame(delta("content", "hi"))
		x.torn([]byte(role[:9]))
	}
	scripts["nothing"] = (*exchange).fin
	scripts["silent"] = func(x *exchange) {
		x.events()
		x.frame(role)
		x.silence()
		select {
		case g.gone <- struct{}{}:
		default:
		}
	}
	then := func(wait func(x *exchange)) script {
		return func(x *exchange) {
			x.events()
			x.frame(role)
			wait(x)
			x.frame(delta("content", "hi"))
			x.finish()
		}
	}
	scripts["held"] = then(func(x *exchange) { x.wait(g.hold) })
	scripts["slow"] = then(func(x *exchange) {
		d, err := time.ParseDuration(x.req.Header.Get("X-Pause"))
		if err != nil {
			t.Error(err)
		}
		x.pause(d)
	})
	return scripts, g
}

// frameByFrame wants each frame before the next one is sent.
func (g *gated) frameByFrame(t testing.TB, c *client, headers ...string) {
	t.Helper()
	r := c.play("gated", headers...)
	var body strings.Builder
	for i := range gatedFrames - 1 {
		body.WriteString(r.frame().raw)
		select {
		case g.got <- struct{}{}:
		case <-time.After(patience):
			t.Fatalf("nobody waits for frame %d to arrive", i)
		}
		if <-g.late {
			t.Errorf("frame %d did not arrive before the next one was sent", i)
		}
	}
	body.WriteString(r.all())
	decode(t, body.String()).checkGood(t)
}

// survives plays a stream that is silent for so long.
func survives(t testing.TB, c *client, silence time.Duration) bool {
	t.Helper()
	r := c.play("slow", "X-Pause", silence.String())
	var body strings.Builder
	for {
		e, err := r.next()
		body.WriteString(e.raw)
		if err != nil {
			return strings.HasSuffix(body.String(), "data: [DONE]\n\n")
		}
	}
}
