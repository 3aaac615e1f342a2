package operations

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// proxyOf starts caddy hermes-proxy in front of up, on a port of its own, and
// returns its URL.
func proxyOf(t testing.TB, up *upstream.Server, args ...string) (string, *sidecar.Process) {
	t.Helper()
	_, port, _ := net.SplitHostPort(harness.FreePort(t))
	args = append([]string{"hermes-proxy", "--from", ":" + port, "--to", up.Addr}, args...)
	return "http://127.0.0.1:" + port, sidecar.Launch(t, sidecar.Environment(t.TempDir()), "hermes proxying", args...)
}

// The command repairs streams without a configuration, and an option is a flag.
func TestProxyCommand(t *testing.T) {
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	url, _ := proxyOf(t, up)
	a := client.New(t, url).Play("g0-v0.8.0/one_tool").Answer()
	a.CheckGood(t)
	if len(a.Starts) != 1 || strings.Contains(a.Content, "`") {
		t.Errorf("starts %v, content %q", a.Starts, a.Content)
	}
	client.New(t, url).Play("g0-v0.8.0/crash_in_tool").Answer().CheckError(t, "agent_crashed")

	url, _ = proxyOf(t, up, "--progress", "off", "--header-up", "X-Team: blue", "--header-down", "X-Via: hermes", "--change-host-header")
	r := client.New(t, url).Play("g0-v0.8.0/one_tool")
	if got := r.Header.Get("X-Via"); got != "hermes" {
		t.Errorf("X-Via %q", got)
	}
	if a = r.Answer(); len(a.Starts) != 0 || strings.Contains(a.Content, "`") {
		t.Errorf("starts %v, content %q", a.Starts, a.Content)
	}
	seen := up.Requests()
	last := seen[len(seen)-1]
	if last.Header.Get("X-Team") != "blue" || last.Host != up.Addr {
		t.Errorf("upstream saw X-Team %q, Host %q", last.Header.Get("X-Team"), last.Host)
	}
}

// Without a host in --from only this machine may connect.
func TestProxyCommandListensOnLoopback(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/plain"), upstream.ByFrame))
	url, s := proxyOf(t, up)
	port, _ := strconv.Atoi(url[strings.LastIndex(url, ":")+1:])
	listening := 0
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(file)
		if err != nil {
			t.Skipf("no table of sockets: %v", err)
		}
		for l := range strings.SplitSeq(string(table), "\n") {
			f := strings.Fields(l)
			if len(f) < 4 || f[3] != "0A" || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				continue
			}
			listening++
			if !strings.HasPrefix(f[1], "0100007F:") {
				t.Errorf("listens on %s of %s", f[1], file)
			}
		}
	}
	if listening != 1 {
		t.Errorf("%d sockets listen on port %d, want 1", listening, port)
	}
	if strings.Contains(s.Log.String(), "other machines may connect") {
		t.Error("the log warns of other machines")
	}
}

// Certificates of the internal CA, in every protocol.
func TestProxyCommandServesTLS(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	home, listen := t.TempDir(), harness.FreePort(t)
	// Without a PATH Caddy has no program to make the machine trust its CA.
	s := sidecar.Launch(t, sidecar.Environment(home, "PATH="+home), "certificate obtained successfully",
		"hermes-proxy", "--from", listen, "--to", up.Addr, "--internal-certs")
	if !s.Says("hermes proxying") {
		t.Fatalf("it does not serve:\n%s", s.Log)
	}
	root := harness.ReadFile(t, filepath.Join(home, "data", "caddy", "pki", "authorities", "local", "root.crt"))
	// It asks neither for port 80 nor for the trust of this system.
	for _, line := range []string{"remaining_auto_https_redirects", "installing root certificate"} {
		if strings.Contains(s.Log.String(), line) {
			t.Errorf("%q is in the log:\n%s", line, s.Log)
		}
	}
	if !strings.Contains(s.Log.String(), "root.crt") {
		t.Errorf("the log does not say where the root certificate is:\n%s", s.Log)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(root))
	handshake(t, listen, pool)
	for protocol, transport := range client.Protocols(t, pool) {
		t.Run(protocol, func(t *testing.T) {
			c := client.Over(t, transport, "https://"+listen)
			r := c.Chat()
			if r.Proto != protocol {
				t.Errorf("spoken is %s", r.Proto)
			}
			a := r.Answer()
			a.CheckGood(t)
			if len(a.Starts) != 1 {
				t.Errorf("starts %v", a.Starts)
			}
		})
	}
}

// handshake waits until the server has taken its certificate into use, which no
// line of the log tells.
func handshake(t *testing.T, addr string, pool *x509.CertPool) {
	t.Helper()
	conn, err := harness.Persist(func() (*tls.Conn, error) { return tls.Dial("tcp", addr, &tls.Config{RootCAs: pool}) })
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// --insecure and https:// reach an upstream with a self-signed
// certificate; without --insecure it is refused.
func TestProxyCommandToTLS(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	dir, _ := client.Certificate(t)
	secure := harness.FreePort(t)
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: secure, Upstream: up.Addr, Plain: true, TLS: dir}}})
	secured := &upstream.Server{Addr: "https://" + secure}

	url, _ := proxyOf(t, secured, "--insecure")
	client.New(t, url).Chat().Answer().CheckGood(t)
	url, _ = proxyOf(t, secured)
	client.CheckJSON(t, client.New(t, url).Chat(), http.StatusBadGateway, secure)
}

// After SIGTERM streams may end in good order; the others get their error. The
// process exits with 0 and leaves no configuration.
func TestProxyCommandDrains(t *testing.T) {
	for name, test := range map[string]struct {
		drain, finish string
		release       bool
		stop          func(*sidecar.Process)
	}{
		"SIGTERM, the stream ends": {"1h", "stop", true, (*sidecar.Process).Terminate},
		"SIGTERM, it does not":     {"300ms", "error", false, (*sidecar.Process).Terminate},
		"SIGINT":                   {"300ms", "error", false, (*sidecar.Process).Interrupt},
	} {
		t.Run(name, func(t *testing.T) {
			up, rest := upstream.Held(t)
			home, listen := t.TempDir(), harness.FreePort(t)
			s := sidecar.Launch(t, sidecar.Environment(home), "hermes proxying",
				"hermes-proxy", "--from", "http://"+listen, "--to", up.Addr, "--drain-timeout", test.drain)
			live := client.New(t, "http://"+listen).Chat()
			for range 3 {
				live.Frame()
			}
			test.stop(s)
			if test.release {
				close(rest)
			}
			a := strict.Decode(t, live.All())
			if a.Finish != test.finish || !a.Done {
				t.Errorf("frames %v, error %+v", a.Names(), a.Err)
			}
			if test.finish == "error" && (a.Err == nil || a.Err.Code != "shutting_down") {
				t.Errorf("error %+v", a.Err)
			}
			s.Exit()
			if _, err := os.Stat(filepath.Join(home, "config", "caddy", "autosave.json")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the configuration was saved: %v", err)
			}
		})
	}
}
