package deployment

import (
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The image's configuration, told by the environment where to listen: streams are
// repaired on one port; health and metrics, and nothing else, are on the other.
// hermes-health reports by them whether the sidecar serves. What a container adds is
// in image_test.go.
func TestImageCaddyfile(t *testing.T) {
	source := harness.ReadFile(t, harness.Path("deploy/image/Caddyfile"))
	// docker stop kills after 10 seconds: by then the process has gone.
	grace := regexp.MustCompile(`\{\$HERMES_GRACE_PERIOD:(\d+)s\}`).FindStringSubmatch(source)
	if grace == nil || len(grace[1]) > 1 || grace[1] > "8" {
		t.Errorf("grace_period %q, want at most 8 seconds", grace)
	}
	const healthPort = ":8644 {"
	if strings.Count(source, healthPort) != 1 {
		t.Fatal("the health port is not " + healthPort)
	}
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	listen, health := harness.FreePort(t), harness.FreePort(t)
	_, port, _ := strings.Cut(listen, ":")
	_, healthy, _ := strings.Cut(health, ":")

	url := "http://" + health + "/healthz"
	if ok, said := askHealth(t, url); ok || strings.Count(said, "\n") != 1 || !strings.Contains(said, "connection refused") {
		t.Errorf("nothing runs: %v, %q", ok, said)
	}
	s := sidecar.RunCaddyfile(t, t.TempDir(), strings.Replace(source, healthPort, ":"+healthy+" {", 1),
		"HERMES_BIND=127.0.0.1", "HERMES_HEALTH_BIND=127.0.0.1", "HERMES_PORT="+port, "HERMES_UPSTREAM="+up.Addr)
	c := client.New(t, "http://"+listen)
	a := c.Play("g0-v0.8.0/one_tool").Answer()
	a.CheckGood(t)
	if len(a.Starts) != 1 || strings.Contains(a.Content, "`") {
		t.Errorf("starts %v, content %q", a.Starts, a.Content)
	}
	if ok, said := askHealth(t, url); !ok || said != "" {
		t.Errorf("it serves: %v, %q", ok, said)
	}
	if ok, said := askHealth(t, "http://"+health+"/other"); ok || said != "Error: http://"+health+"/other: the answer is 404 Not Found\n" {
		t.Errorf("another path: %v, %q", ok, said)
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/": 404, "/v1/chat/completions": 404} {
		res, body := client.Get(t, http.DefaultClient, "http://"+health+path)
		if res.StatusCode != want || path == "/metrics" && !strings.Contains(body, "caddy_hermes_streams_total{") {
			t.Errorf("%s: %d %s", path, res.StatusCode, harness.Clip(body))
		}
	}
	if strings.Contains(s.Log.String(), `"level":"error"`) {
		t.Error("there are errors in the log")
	}
	s.Terminate()
	s.Exit()
}

// askHealth runs hermes-health, and wants 0 or 1 as its exit status.
func askHealth(t *testing.T, url string) (healthy bool, said string) {
	t.Helper()
	out, err := exec.Command(sidecar.Binary(t), "hermes-health", "--url", url, "--timeout", harness.Patience.String()).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Fatalf("%v: %s", err, out)
	}
	return err == nil, string(out)
}
