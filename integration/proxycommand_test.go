package integration

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// proxyOf starts caddy hermes-proxy in front of up, on a port of its own, and
// returns its URL.
func proxyOf(t testing.TB, up *upstream, args ...string) (string, *sidecar) {
	t.Helper()
	_, port, _ := net.SplitHostPort(freePort(t))
	args = append([]string{"hermes-proxy", "--from", ":" + port, "--to", up.addr}, args...)
	return "http://127.0.0.1:" + port, launch(t, environment(t.TempDir()), "hermes proxying", args...)
}

// The command repairs streams without a configuration, and an option is a flag.
func TestProxyCommand(t *testing.T) {
	up := newUpstream(t, library(recordings(t, chats), byFrame).play)
	url, _ := proxyOf(t, up)
	a := newClient(t, url).play("g0-v0.8.0/one_tool").answer()
	a.checkGood(t)
	if len(a.starts) != 1 || strings.Contains(a.content, "`") {
		t.Errorf("starts %v, content %q", a.starts, a.content)
	}
	newClient(t, url).play("g0-v0.8.0/crash_in_tool").answer().checkError(t, "agent_crashed")

	url, _ = proxyOf(t, up, "--progress", "off", "--header-up", "X-Team: blue", "--header-down", "X-Via: hermes", "--change-host-header")
	r := newClient(t, url).play("g0-v0.8.0/one_tool")
	if got := r.Header.Get("X-Via"); got != "hermes" {
		t.Errorf("X-Via %q", got)
	}
	if a = r.answer(); len(a.starts) != 0 || strings.Contains(a.content, "`") {
		t.Errorf("starts %v, content %q", a.starts, a.content)
	}
	seen := up.requests()
	last := seen[len(seen)-1]
	if last.Header.Get("X-Team") != "blue" || last.Host != up.addr {
		t.Errorf("upstream saw X-Team %q, Host %q", last.Header.Get("X-Team"), last.Host)
	}
}

// Without a host in --from only this machine may connect.
func TestProxyCommandListensOnLoopback(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/plain"), byFrame))
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
	if strings.Contains(s.log.String(), "other machines may connect") {
		t.Error("the log warns of other machines")
	}
}

// Certificates of the internal CA, in every protocol.
func TestProxyCommandServesTLS(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	home, listen := t.TempDir(), freePort(t)
	// Without a PATH Caddy has no program to make the machine trust its CA.
	s := launch(t, environment(home, "PATH="+home), "certificate obtained successfully",
		"hermes-proxy", "--from", listen, "--to", up.addr, "--internal-certs")
	if !s.log.wait("hermes proxying", s.exited) {
		t.Fatalf("it does not serve:\n%s", s.log)
	}
	root := read(t, filepath.Join(home, "data", "caddy", "pki", "authorities", "local", "root.crt"))
	// It asks neither for port 80 nor for the trust of this system.
	for _, line := range []string{"remaining_auto_https_redirects", "installing root certificate"} {
		if strings.Contains(s.log.String(), line) {
			t.Errorf("%q is in the log:\n%s", line, s.log)
		}
	}
	if !strings.Contains(s.log.String(), "root.crt") {
		t.Errorf("the log does not say where the root certificate is:\n%s", s.log)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(root))
	handshake(t, listen, pool)
	for protocol, transport := range protocols(t, pool) {
		t.Run(protocol, func(t *testing.T) {
			c := clientOver(t, transport, "https://"+listen)
			r := c.chat()
			if r.Proto != protocol {
				t.Errorf("spoken is %s", r.Proto)
			}
			a := r.answer()
			a.checkGood(t)
			if len(a.starts) != 1 {
				t.Errorf("starts %v", a.starts)
			}
		})
	}
}

// handshake waits until the server has taken its certificate into use, which no
// line of the log tells.
func handshake(t *testing.T, addr string, pool *x509.CertPool) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var conn *tls.Conn
		if conn, err = tls.Dial("tcp", addr, &tls.Config{RootCAs: pool}); err == nil {
			conn.Close()
			return
		}
	}
	t.Fatal(err)
}

// --insecure and https:// reach an upstream whose certificate nobody has
// signed; without --insecure it is refused.
func TestProxyCommandToTLS(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	dir, _ := certificate(t)
	secure := freePort(t)
	run(t, t.TempDir(), config{sites: []site{{listen: secure, upstream: up.addr, plain: true, tls: dir}}})
	behind := &upstream{addr: "https://" + secure}

	url, _ := proxyOf(t, behind, "--insecure")
	newClient(t, url).chat().answer().checkGood(t)
	url, _ = proxyOf(t, behind)
	checkJSON(t, newClient(t, url).chat(), http.StatusBadGateway, secure)
}

func TestProxyCommandAccessLog(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	url, s := proxyOf(t, up, "--access-log", "--debug")
	newClient(t, url).chat().answer().checkGood(t)
	for _, want := range []string{`"msg":"handled request"`, `"hermes_outcome":"ok"`, `"level":"debug"`} {
		if !s.log.wait(want, s.exited) {
			t.Errorf("no %s in the log", want)
		}
	}

	url, quiet := proxyOf(t, up)
	newClient(t, url).chat().answer().checkGood(t)
	quiet.terminate()
	quiet.exit()
	for _, bad := range []string{`"msg":"handled request"`, `"level":"debug"`} {
		if strings.Contains(quiet.log.String(), bad) {
			t.Errorf("%s in the log", bad)
		}
	}
}

// What cannot start says why, and exits with status 1.
func TestProxyCommandDoesNotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"value of an option": {[]string{"--progress", "loud"}, "--progress: invalid progress \"loud\": must be envelope, bare, unnamed, comment or off"},
		"duration":           {[]string{"--keepalive", "soon"}, "--keepalive: invalid keepalive \"soon\": must be a duration such as 30s, not negative, or off (0 in JSON)"},
		"unknown flag":       {[]string{"--heartbeat", "10s"}, "unknown flag: --heartbeat"},
		"argument":           {[]string{"127.0.0.1:8642"}, `unknown command "127.0.0.1:8642"`},
		"upstream":           {[]string{"--to", "ftp://127.0.0.1"}, "unsupported URL scheme ftp://"},
		"no upstream":        {[]string{"--to", ""}, "--to is required"},
		"header":             {[]string{"--header-up", "X-Team"}, "header-up 0: invalid format"},
		"TLS without a host": {[]string{"--internal-certs"}, "is served without TLS"},
		"taken port":         {[]string{"--from", ":" + port}, "127.0.0.1:" + port + " is in use by another program"},
		"refused by Caddy":   {[]string{"--from", freePort(t), "--keepalive", "1us"}, "invalid keepalive"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			_, stderr, err := caddy(t, home, append([]string{"hermes-proxy"}, test.args...)...)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("exit: %v, want status 1", err)
			}
			if !logged(stderr, test.want) {
				t.Errorf("no %s in\n%s", test.want, stderr)
			}
		})
	}
}

// logged reports whether a text is in a message of the log or in a plain line.
func logged(stderr, text string) bool {
	for l := range strings.SplitSeq(stderr, "\n") {
		var e struct {
			Msg string `json:"msg"`
		}
		if json.Unmarshal([]byte(l), &e) == nil {
			l = e.Msg
		}
		if strings.Contains(l, text) {
			return true
		}
	}
	return false
}

// After SIGTERM streams may end in good order; the others get their error. The
// process exits with 0 and leaves no configuration behind.
func TestProxyCommandDrains(t *testing.T) {
	for name, test := range map[string]struct {
		drain, finish string
		release       bool
		stop          func(*sidecar)
	}{
		"SIGTERM, the stream ends": {"1h", "stop", true, (*sidecar).terminate},
		"SIGTERM, it does not":     {"300ms", "error", false, (*sidecar).terminate},
		"SIGINT":                   {"300ms", "error", false, (*sidecar).interrupt},
	} {
		t.Run(name, func(t *testing.T) {
			up, rest := held(t)
			home, listen := t.TempDir(), freePort(t)
			s := launch(t, environment(home), "hermes proxying",
				"hermes-proxy", "--from", "http://"+listen, "--to", up.addr, "--drain-timeout", test.drain)
			live := newClient(t, "http://"+listen).chat()
			for range 3 {
				live.frame()
			}
			test.stop(s)
			if test.release {
				close(rest)
			}
			a := decode(t, live.all())
			if a.finish != test.finish || !a.done {
				t.Errorf("frames %v, error %+v", a.names(), a.err)
			}
			if test.finish == "error" && (a.err == nil || a.err.Code != "shutting_down") {
				t.Errorf("error %+v", a.err)
			}
			s.exit()
			if _, err := os.Stat(filepath.Join(home, "config", "caddy", "autosave.json")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the configuration was saved: %v", err)
			}
		})
	}
}

// A second Ctrl-C does not wait, as with caddy run.
func TestProxyCommandForced(t *testing.T) {
	up, _ := held(t)
	url, s := proxyOf(t, up)
	live := newClient(t, url).chat()
	live.frame()
	s.interrupt()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Fatal("it does not exit")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit status %d, want 2", code)
	}
}

// The help says who may connect.
func TestProxyCommandHelp(t *testing.T) {
	out, bad, err := caddy(t, t.TempDir(), "hermes-proxy", "--help")
	if err != nil {
		t.Fatalf("%v: %s", err, bad)
	}
	for _, want := range []string{"open to this machine only", `--from string`, `(default ":8643")`, "(default [127.0.0.1:8642])", "--keepalive-form chunk|comment", "(default 15m)"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
