package deployment

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

var unitFile = harness.Path("deploy/systemd/hermes-sidecar.service")

// A unit is the service that the repository has, moved into a test's directory.
type unit struct {
	t    testing.TB
	dir  string
	file sidecar.Recipe
	conf sidecar.Recipe
}

// newUnit moves the unit and its Caddyfile, to serve in front of up.
func newUnit(t testing.TB, listen, health string) *unit {
	t.Helper()
	u := &unit{t: t, dir: t.TempDir()}
	for _, d := range []string{"etc", "run", "lib"} {
		if err := os.Mkdir(filepath.Join(u.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	u.file = fileRecipe(t, unitFile).With("/usr/local/bin/hermes-sidecar", sidecar.Binary(t)).With("/etc/hermes-sidecar", u.dir+"/etc").
		With("/run/hermes-sidecar", u.dir+"/run").With("/var/lib/hermes-sidecar", u.dir+"/lib")
	u.conf = fileRecipe(t, harness.Path("deploy/systemd/Caddyfile")).With("/run/hermes-sidecar", u.dir+"/run").With(":8643", ":"+harness.Port(listen)).With(":8644", ":"+harness.Port(health))
	harness.WriteFile(t, filepath.Join(u.dir, "etc", "Caddyfile"), []byte(u.conf.Text))
	return u
}

// values are all values of a setting.
func (u *unit) values(name string) []string {
	u.t.Helper()
	var all []string
	for _, m := range regexp.MustCompile("(?m)^"+name+"=(.*)$").FindAllStringSubmatch(u.file.Text, -1) {
		all = append(all, m[1])
	}
	if len(all) == 0 {
		u.t.Fatalf("the unit has no %s", name)
	}
	return all
}

// environment is what the unit gives to its processes.
func (u *unit) environment(more ...string) []string {
	env := append([]string{"PATH=" + os.Getenv("PATH")}, u.values("Environment")...)
	return append(env, more...)
}

// The unit's command serves, tells systemd so, reloads without ending a stream,
// and drains within the time that systemd gives it.
func TestRecipeSystemd(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, upstream.Router{"tool": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame), "held": upstream.HeldBack(rest)}.Play)
	listen, health := harness.FreePort(t), harness.FreePort(t)
	u := newUnit(t, listen, health)

	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(u.dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told := func(want string) {
		t.Helper()
		buf := make([]byte, 4096)
		for {
			socket.SetReadDeadline(time.Now().Add(harness.Patience))
			n, err := socket.Read(buf)
			if err != nil {
				t.Fatalf("systemd is not told %s: %v", want, err)
			}
			if strings.Contains(string(buf[:n]), want) {
				return
			}
		}
	}
	env := u.environment("NOTIFY_SOCKET="+filepath.Join(u.dir, "notify"), "HERMES_UPSTREAM="+up.Addr)
	command := strings.Fields(u.values("ExecStart")[0])
	if command[0] != sidecar.Binary(t) {
		t.Fatalf("the command is %q", command)
	}
	s := sidecar.RunArgs(t, env, command[1:]...)
	told("READY=1")
	c := client.New(t, "http://"+listen)
	c.Play("tool").CheckRepaired(t)
	monitor := client.New(t, "http://"+health)
	if m := monitor.Get("/metrics"); !strings.Contains(m, "hermes_streams_total") {
		t.Errorf("metrics: %q", harness.Clip(m))
	}

	live := c.Play("held")
	live.Frame()
	harness.WriteFile(t, filepath.Join(u.dir, "etc", "Caddyfile"), []byte(u.conf.With("hermes\n", "hermes {\n\t\tprogress off\n\t}\n").Text))
	command = strings.Fields(u.values("ExecReload")[0])
	reload := exec.Command(command[0], command[1:]...)
	reload.Env = env
	if out, err := reload.CombinedOutput(); err != nil {
		t.Fatalf("the reload: %v: %s", err, out)
	}
	told("RELOADING=1")
	told("READY=1")
	c.Reloading = true
	if a := c.Play("tool").Answer(); len(a.Starts) != 0 {
		t.Error("the new configuration is not in force")
	}
	close(rest)
	strict.Decode(t, live.All()).CheckGood(t)

	admin, err := os.Stat(filepath.Join(u.dir, "run", "admin.sock"))
	if err != nil || admin.Mode().Perm()&0o077 != 0 {
		t.Errorf("the admin socket: %v, %v", admin.Mode(), err)
	}
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	told("STOPPING=1")
	s.Exit()
	// The memory of usage and the mark of storage are left.
	checkState(t, filepath.Join(u.dir, "lib"))
}

// checkState wants nothing in a state directory but the memory of usage and what
// Caddy itself keeps there, none of it readable by others.
func checkState(t testing.TB, dir string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case strings.HasPrefix(rel, "caddy/hermes/"):
			found++
		case rel == "caddy/instance.uuid", rel == "caddy/last_clean.json", strings.HasPrefix(rel, "caddy/locks/"):
		default:
			t.Errorf("the state has %s", rel)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", rel, info.Mode())
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d keys of usage: %v", found, err)
	}
}

// The times fit into each other: drain_timeout, grace_period, TimeoutStopSec.
func TestRecipeSystemdTimes(t *testing.T) {
	u := newUnit(t, "x:1", "x:2")
	stop, err := time.ParseDuration(u.values("TimeoutStopSec")[0])
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`grace_period (\S+)`).FindStringSubmatch(u.conf.Text)
	grace, err := time.ParseDuration(m[1])
	if err != nil {
		t.Fatal(err)
	}
	if const10 := 10 * time.Second; !(stop > grace+5*time.Second && grace > const10+5*time.Second) {
		t.Errorf("TimeoutStopSec %v, grace_period %v, drain_timeout 10s", stop, grace)
	}
}

// systemd understands every line, and takes the service for one that is locked in.
func TestRecipeSystemdUnit(t *testing.T) {
	analyze := harness.Program(t, "HERMES_SYSTEMD", "systemd-analyze")
	u := newUnit(t, "x:1", "x:2")
	file := filepath.Join(t.TempDir(), "hermes-sidecar.service")
	harness.WriteFile(t, file, []byte(u.file.Text))
	out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "hermes-sidecar.service") {
		t.Errorf("%v:\n%s", err, out)
	}
	out, err = exec.Command(analyze, "security", "--offline=true", "--no-pager", file).CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || m == nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if level, _ := strconv.ParseFloat(string(m[1]), 64); level > 1.5 {
		t.Errorf("exposure %v:\n%s", level, out)
	} else {
		t.Logf("exposure %v", level)
	}
}
