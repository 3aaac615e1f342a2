package clients

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// openWebUIVariable names the program open-webui of an installation, or is
// "install": then the version in openwebui_requirements.txt is installed, once,
// below the user's cache directory.
const openWebUIVariable = "HERMES_OPENWEBUI"

// openWebUI is the path of the program. Without the variable the test is
// skipped.
func openWebUI(t testing.TB) string {
	t.Helper()
	switch path := os.Getenv(openWebUIVariable); path {
	case "":
		t.Skipf("a real Open WebUI is tested when %s names its program, or is \"install\" (see docs/open-webui.md)", openWebUIVariable)
	case "install":
		return installOpenWebUI(t)
	default:
		return path
	}
	return ""
}

// installOpenWebUI makes a virtual environment of Python, unless it is there.
func installOpenWebUI(t testing.TB) string {
	t.Helper()
	const wanted = "openwebui_requirements.txt"
	list, err := os.ReadFile(wanted)
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^open-webui==(\S+)$`).FindSubmatch(list)
	cache, err := os.UserCacheDir()
	if err != nil || version == nil {
		t.Fatalf("no cache directory (%v), or no version in %s", err, wanted)
	}
	dir := filepath.Join(cache, "hermes-sidecar", "open-webui-"+string(version[1]))
	installed := filepath.Join(dir, "installed.txt")
	program := filepath.Join(dir, "bin", "open-webui")
	if have, err := os.ReadFile(installed); err == nil && bytes.Equal(have, list) {
		return program
	}
	begin := time.Now()
	for _, args := range [][]string{
		{python(t), "-m", "venv", "--clear", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-deps", "-r", wanted},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	harness.WriteFile(t, installed, list)
	t.Logf("Open WebUI %s installed in %s in %s", version[1], dir, time.Since(begin).Round(time.Second))
	return program
}

// python is one of the versions that Open WebUI and Hermes run on.
func python(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"python3.12", "python3.11", "python3"} {
		if err := exec.Command(name, "-c", "import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 13))").Run(); err == nil {
			return name
		}
	}
	t.Fatal("there is no Python 3.11 or 3.12 with venv in the PATH")
	return ""
}

// startOpenWebUI runs the program on connections, an empty database and no
// network but loopback, and returns its URL.
func startOpenWebUI(t testing.TB, program string, connections []string, more ...string) string {
	t.Helper()
	home := t.TempDir()
	host, port, _ := strings.Cut(harness.FreePort(t), ":")
	cmd := exec.Command(program, "serve", "--host", host, "--port", port)
	cmd.Dir = home
	cmd.Env = append(sidecar.Environment(home),
		"DATA_DIR="+home, "WEBUI_SECRET_KEY=test", "WEBUI_AUTH=false", "CORS_ALLOW_ORIGIN=http://"+host+":"+port,
		"USE_SLIM_DOCKER=true", "OFFLINE_MODE=true", "HF_HUB_OFFLINE=1", "ENABLE_VERSION_UPDATE_CHECK=false", "ENABLE_OLLAMA_API=false",
		"OPENAI_API_BASE_URLS="+strings.Join(connections, ";"), "OPENAI_API_KEYS="+strings.Repeat("key;", len(connections)-1)+"key")
	cmd.Env = append(cmd.Env, more...)
	p := harness.Start(t, cmd)
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.Exited:
		case <-time.After(harness.Patience):
		}
	})
	base := "http://" + host + ":" + port
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		select {
		case <-p.Exited:
			t.Fatalf("Open WebUI has ended:\n%s", p.Log)
		default:
		}
		if res, err := http.Get(base + "/health"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return base
			}
		}
	}
	t.Fatalf("Open WebUI does not start:\n%s", p.Log)
	return ""
}
