package clients

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// hermesVariable is "install" for the newest hermes-agent of PyPI, or a version of it.
const hermesVariable = "HERMES_AGENT"

// hermesPackage is the package with an extra that needs only aiohttp: the API server
// does not start without that.
const hermesPackage = "hermes-agent[homeassistant]"

// hermesKey is the API_SERVER_KEY of the gateway. Newer versions refuse short ones.
const hermesKey = "of-this-test-and-nothing-else"

// installHermes installs hermes-agent in a virtual environment that ends with the test,
// and returns its program and its version.
func installHermes(t testing.TB) (program, version string) {
	t.Helper()
	wanted := hermesPackage
	switch v := os.Getenv(hermesVariable); v {
	case "":
		t.Skipf("a real Hermes is tested when %s is \"install\" or a version (.ci/against-hermes)", hermesVariable)
	case "install":
	default:
		wanted += "==" + v
	}
	dir := t.TempDir()
	begin := time.Now()
	for _, args := range [][]string{
		{python(t), "-m", "venv", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", wanted},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "bin", "python"), "-c", "from importlib.metadata import version; print(version('hermes-agent'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	version = strings.TrimSpace(string(out))
	t.Logf("hermes-agent %s installed in %s", version, time.Since(begin).Round(time.Second))
	return filepath.Join(dir, "bin", "hermes"), version
}

// A gateway is a real Hermes gateway with only its API server.
type gateway struct {
	program string
	home    string // HERMES_HOME
	work    string // where its terminal is
	listen  string
	*harness.Process
}

// newGateway configures and starts a gateway whose model is at an address.
func newGateway(t testing.TB, program, model string) *gateway {
	t.Helper()
	g := &gateway{program: program, home: t.TempDir(), work: t.TempDir(), listen: harness.FreePort(t)}
	harness.WriteFile(t, filepath.Join(g.home, "config.yaml"), fmt.Appendf(nil, `
model:
  default: scripted
  provider: custom
  base_url: http://%s/v1
  api_key: none
terminal:
  cwd: %s
approvals:
  mode: manual # the default, smart, asks the model
  timeout: 15
gateway:
  api_server:
    max_concurrent_runs: 0 # no limit
`, model, g.work))
	g.start(t)
	return g
}

// start starts the gateway and returns when it serves. It knows no key of a provider, and
// what is not on loopback goes to a proxy that refuses connections.
func (g *gateway) start(t testing.TB) {
	t.Helper()
	nobody := "http://" + harness.FreePort(t)
	cmd := exec.Command(g.program, "gateway", "run")
	cmd.Dir = g.work
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.home, "HERMES_HOME=" + g.home, "TERMINAL_CWD=" + g.work,
		"API_SERVER_ENABLED=true", "API_SERVER_KEY=" + hermesKey, "API_SERVER_HOST=127.0.0.1", "API_SERVER_PORT=" + harness.Port(g.listen),
		"HTTP_PROXY=" + nobody, "HTTPS_PROXY=" + nobody, "ALL_PROXY=" + nobody, "NO_PROXY=127.0.0.1,localhost",
	}
	g.Process = harness.Start(t, cmd)
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		select {
		case <-g.Exited:
			t.Fatalf("the gateway has ended:\n%s", g.Log)
		default:
		}
		if res, err := http.Get("http://" + g.listen + "/health"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatalf("the gateway does not start its API server:\n%s", g.Log)
}
