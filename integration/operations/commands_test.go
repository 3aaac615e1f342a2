package operations

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// proxyOf starts caddy hermes-proxy in front of up, on a port of its own, and returns its URL.
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
	client.New(t, url).Play("g0-v0.8.0/one_tool").CheckRepaired(t)
	client.New(t, url).Play("g0-v0.8.0/crash_in_tool").Answer().CheckError(t, "agent_crashed")

	url, s := proxyOf(t, up, "--progress", "off", "--header-up", "X-Team: blue", "--header-down", "X-Via: hermes", "--change-host-header", "--access-log", "--debug")
	r := client.New(t, url).Play("g0-v0.8.0/one_tool")
	if got := r.Header.Get("X-Via"); got != "hermes" {
		t.Errorf("X-Via %q", got)
	}
	if a := r.Answer(); len(a.Starts) != 0 || strings.Contains(a.Content, "`") {
		t.Errorf("starts %v, content %q", a.Starts, a.Content)
	}
	seen := up.Requests()
	last := seen[len(seen)-1]
	if last.Header.Get("X-Team") != "blue" || last.Host != up.Addr {
		t.Errorf("upstream saw X-Team %q, Host %q", last.Header.Get("X-Team"), last.Host)
	}
	for _, want := range []string{`"msg":"handled request"`, `"hermes_outcome":"ok"`, `"level":"debug"`} {
		if !s.Await(want) {
			t.Errorf("no %s in the log", want)
		}
	}
}

// Certificates of the internal CA, in every protocol.
func TestProxyCommandServesTLS(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	home, listen := t.TempDir(), harness.FreePort(t)
	// Without a PATH Caddy has no program to make the machine trust its CA.
	s := sidecar.Launch(t, sidecar.Environment(home, "PATH="+home), "certificate obtained successfully",
		"hermes-proxy", "--from", listen, "--to", up.Addr, "--internal-certs")
	if !s.Await("hermes proxying") {
		t.Fatalf("it does not serve:\n%s", s.Log)
	}
	root := harness.ReadFile(t, filepath.Join(home, "data", "caddy", "pki", "authorities", "local", "root.crt"))
	// It asks neither for port 80 nor for the trust of this system.
	for _, line := range []string{"remaining_auto_https_redirects", "installing root certificate"} {
		if strings.Contains(s.Log.String(), line) {
			t.Errorf("%q is in the log:\n%s", line, s.Log)
		}
	}
	if !s.Await("root.crt") {
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
			r.CheckRepaired(t)
		})
	}
}

// handshake waits until the server has taken its certificate into use, which no line of the log tells.
func handshake(t *testing.T, addr string, pool *x509.CertPool) {
	t.Helper()
	conn, err := harness.Persist(func() (*tls.Conn, error) { return tls.Dial("tcp", addr, &tls.Config{RootCAs: pool}) })
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
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

// doctorKey is the API_SERVER_KEY of the agents that are examined.
const doctorKey = "of-this-test-and-nothing-else"

// ran runs a command in a directory of its own, and returns its exit status and what it says.
func ran(t testing.TB, env []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(sidecar.Binary(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = sidecar.Environment(cmd.Dir, env...)
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := child.Run(cmd); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), bad.String()
}

// agentOf returns a script of a Hermes with a key, of which everything was recorded.
func agentOf(t testing.TB, generation, scenario string) upstream.Script {
	answers := map[string]string{}
	for path, name := range map[string]string{"/health": "health", "/v1/models": "models", "401": "err.401"} {
		answers[path] = harness.ReadFile(t, filepath.Join(hermes.Captures, generation, name+".http"))
	}
	chat := upstream.Replay(hermes.Recorded(t, generation+"/"+scenario), upstream.ByFrame)
	return func(x *upstream.Exchange) {
		path := x.Req.URL.Path
		switch {
		case path != "/health" && x.Req.Header.Get("Authorization") != "Bearer "+doctorKey:
			x.Raw(answers["401"])
		case answers[path] != "":
			x.Raw(answers[path])
		case path == "/v1/chat/completions":
			chat(x)
		default:
			upstream.AsJSON("404 Not Found", `{}`)(x)
		}
	}
}

// What a script and a person see of commands: the exit status, and why, in one line or none.
func TestCommandsExitStatus(t *testing.T) {
	up := upstream.New(t, agentOf(t, "g3-v0.20.3", "plain"))
	taken, free := harness.FreePort(t), harness.FreePort(t)
	proxy := sidecar.Launch(t, sidecar.Environment(t.TempDir()), "hermes proxying", "hermes-proxy", "--from", "http://"+taken, "--to", up.Addr)
	dir := t.TempDir()
	for name, content := range map[string]string{"refused": `{"error":{"message":"Invalid API key"}}`, "none": "hello\n"} {
		harness.WriteFile(t, filepath.Join(dir, name), []byte(content))
	}
	const key = "API_SERVER_KEY=" + doctorKey
	for _, c := range []struct {
		env, args      string
		status         int
		stdout, stderr string // what they have; "" for nothing
	}{
		{key, "hermes-doctor --to " + up.Addr, 0, "ok    version            0.20.3\n", ""},
		{"", "hermes-doctor --to " + up.Addr, 1, "fail  key                it requires a key (status 401), and none was given\n", ""},
		{"", "hermes-doctor --to " + free, 1, "fail  reachable          the connection is refused", ""},
		{key, "hermes-doctor --key-file nope", 2, "", "Error: reading the key: open nope"},
		{key, "hermes-doctor --no-such-flag", 2, "", "Error: unknown flag: --no-such-flag"},
		{"", "hermes-repair " + dir + "/refused", 4, "Invalid API key", ""},
		{"", "hermes-repair --no-such-flag", 1, "", "Error: unknown flag: --no-such-flag\n"},
		{"", "hermes-repair nowhere.sse", 1, "", "Error: opening the recording: open nowhere.sse: "},
		{"", "hermes-repair " + dir + "/none", 1, "hello", "Error: the recording contains no frame from Hermes"},
		{"", "hermes-proxy --progress loud", 1, "", `"msg":"--progress: invalid progress "loud": must be envelope, bare, unnamed, comment or off`},
		{"", "hermes-proxy 127.0.0.1:8642", 1, "", "Error: hermes-proxy takes flags only: --to is the agent's address\n"},
		{"", "hermes-health 127.0.0.1:8643", 1, "", "Error: hermes-health takes flags only: --url is the URL to ask\n"},
		{"", "hermes-proxy --heartbeat 10s", 1, "", "Error: unknown flag: --heartbeat"},
		{"", "hermes-proxy --from " + taken, 1, "", `"msg":"` + taken + " is in use by another program"},
	} {
		status, stdout, stderr := ran(t, []string{"HERMES_UPSTREAM=", c.env}, strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(stdout, c.stdout) || c.stdout == "" && stdout != "" ||
			!strings.Contains(strings.ReplaceAll(stderr, `\"`, `"`), c.stderr) || c.stderr == "" && stderr != "" || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%s: status %d\n%s\n%s", c.args, status, stdout, stderr)
		}
	}
	for _, quiet := range []string{`"msg":"handled request"`, `"level":"debug"`} {
		if strings.Contains(proxy.Log.String(), quiet) {
			t.Errorf("hermes-proxy logs %s though no flag asks for it", quiet)
		}
	}
}

// The doctor reads the Caddyfile of a sidecar, examines its agent, and sees that the sidecar repairs
// its answer. Package doctor has the other generations.
func TestDoctorThroughTheSidecar(t *testing.T) {
	for _, directives := range []string{"hermes\n\treverse_proxy %", "handle /* {\n\thermes_proxy %\n}"} {
		up := upstream.New(t, agentOf(t, "g0-v0.8.0", "one_tool"))
		listen, home := harness.FreePort(t), t.TempDir()
		text := "{\n\tadmin off\n}\n" + sidecar.OnLoopback(listen) + "\n" + strings.Replace(directives, "%", up.Addr, 1) + "\n}\n"
		sidecar.RunCaddyfile(t, home, text)
		file := filepath.Join(t.TempDir(), "Caddyfile")
		harness.WriteFile(t, file, []byte(text))

		status, out, bad := ran(t, []string{"API_SERVER_KEY=" + doctorKey}, "hermes-doctor", "--config", file, "--ask")
		out = strings.Join(strings.Fields(out), " ") // in one line
		if status != 0 || !strings.Contains(out, "G0, Hermes 0.7 and 0.8") || !strings.Contains(out, "everything that needed a repair is repaired") {
			t.Errorf("status %d\n%s%s", status, out, bad)
		}
		chats := slices.DeleteFunc(up.Requests(), func(r *http.Request) bool { return r.Method != http.MethodPost })
		if len(chats) != 2 {
			t.Errorf("%d chat requests", len(chats))
		}
	}
}

// What the record option writes, hermes-repair repairs as the sidecar did, and the doctor reads.
func TestRecordedStreamsAreRepairedOffline(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return r.Generation == "g0-v0.8.0" && strings.Contains("one_tool crash_in_tool think_tags model_imitates", r.Scenario)
	})
	scripts := upstream.Library(all, upstream.ByFrame)
	scripts["killed"] = func(x *upstream.Exchange) {
		x.Events()
		x.Chunk([]byte(strings.Split(string(all[0].Body), "\n\n")[0] + "\n\n"))
		x.Reset()
	}
	up := upstream.New(t, scripts.Play)
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "recordings")
			base, s := sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"record": dir, "zero_usage": "pass"}))
			want := client.New(t, base).Play(name).All()
			s.Terminate()
			s.Exit()
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(files) != 2 {
				t.Fatalf("files %q, %v", files, err)
			}
			status, got, _ := ran(t, nil, "hermes-repair", "--zero-usage", "pass", files[1])
			if got != want {
				t.Errorf("repaired offline\n%s\nwant\n%s", got, want)
			}
			bad := strings.Contains(want, `"code":"`)
			if bad != (status == 4) || !bad && status != 0 {
				t.Errorf("exit status %d", status)
			}
			if _, why, _ := ran(t, nil, "hermes-repair", "--explain", files[1]); !strings.Contains(why, "\nended ") {
				t.Errorf("explained\n%s", why)
			}
			if status, said, _ := ran(t, nil, "hermes-doctor", "--recording", files[1]); status != 0 || name == "g0-v0.8.0/one_tool" && !strings.Contains(said, "G0, Hermes 0.7 and 0.8") {
				t.Errorf("the doctor: status %d\n%s", status, said)
			}
		})
	}
}
