package deployment

import (
	"encoding/json"
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
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	listen, health := harness.FreePort(t), harness.FreePort(t)

	url := "http://" + health + "/healthz"
	if ok, said := askHealth(t, url); ok || strings.Count(said, "\n") != 1 || !strings.Contains(said, "connection refused") {
		t.Errorf("nothing runs: %v, %q", ok, said)
	}
	s := runImageCaddyfile(t, listen, health, up)
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
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/hermes/streams": 200, "/": 404, "/v1/chat/completions": 404} {
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

// runImageCaddyfile runs the image's configuration on two addresses of the loopback
// interface.
func runImageCaddyfile(t *testing.T, listen, health string, up *upstream.Server) *sidecar.Process {
	t.Helper()
	source := harness.ReadFile(t, harness.Path("deploy/image/Caddyfile"))
	const healthPort = ":8644 {"
	if strings.Count(source, healthPort) != 1 {
		t.Fatal("the health port is not " + healthPort)
	}
	return sidecar.RunCaddyfile(t, t.TempDir(), strings.Replace(source, healthPort, ":"+harness.Port(health)+" {", 1),
		"HERMES_BIND=127.0.0.1", "HERMES_HEALTH_BIND=127.0.0.1", "HERMES_PORT="+harness.Port(listen), "HERMES_UPSTREAM="+up.Addr)
}

// TestImageListsStreams on the health port alone, for the admin API is off: which are
// open, and which tools they wait for. The list takes no other method, is not to be
// cached, and has neither the id of a session nor what a tool does.
func TestImageListsStreams(t *testing.T) {
	up, rest := upstream.Held(t)
	listen, health := harness.FreePort(t), harness.FreePort(t)
	runImageCaddyfile(t, listen, health, up)
	chat := client.New(t, "http://"+listen).Chat()
	session := client.New(t, "http://"+listen).Post("/api/sessions/secret-7f3a/chat/stream")
	session.Frame()
	for chat.Frame().Name != "hermes.tool.progress" {
	}

	url := "http://" + health + "/hermes/streams"
	var list struct {
		Open []struct {
			ID, Path, Upstream string
			Tools              []struct{ Name string } `json:"open_tools"`
		}
		Ended []struct{ Path, Outcome string }
	}
	ask := func() string {
		t.Helper()
		res, body := client.Get(t, http.DefaultClient, url)
		if h := res.Header; res.StatusCode != http.StatusOK || h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", res.Status, h)
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return body
	}
	if body := ask(); len(list.Open) != 2 || len(list.Open[0].Tools) != 1 {
		t.Fatalf("two streams are open, one with a tool: %s", body)
	}
	if o := list.Open[0]; !strings.HasPrefix(o.ID, "chatcmpl-") || o.Path != "/v1/chat/completions" || o.Upstream != up.Addr || o.Tools[0].Name != "terminal" {
		t.Errorf("the oldest is %+v", o)
	}
	if o := list.Open[1]; o.Path != "/api/sessions/*/chat/stream" {
		t.Errorf("the other is %+v", o)
	}
	if body := ask(); strings.Contains(body, "secret-7f3a") || strings.Contains(body, "make") {
		t.Errorf("the list tells too much: %s", body)
	}
	close(rest)
	chat.All()
	session.All()
	if ask(); len(list.Open) != 0 || len(list.Ended) != 2 {
		t.Errorf("at the end: %+v", list)
	}

	for method, want := range map[string]int{http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405} {
		req, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %s", method, res.Status)
		}
	}
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
