// Package configuration tests how the sidecar is configured: the options in a Caddyfile and in
// JSON, the directives hermes and hermes_proxy beside others of Caddy, Caddyfile.example, and
// the program that xcaddy builds.
package configuration

import (
	"compress/gzip"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The encode directive compresses what the sidecar has repaired, the error
// finish included, whichever of the two comes first in the Caddyfile.
func TestEncodeCompressesTheRepairedStream(t *testing.T) {
	scripts := upstream.Router{
		"good": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/labels"), upstream.ByFrame),
		"cut": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Torn([]byte(hermes.Role[:9]))
		},
	}
	up := upstream.New(t, scripts.Play)
	for _, order := range []string{"hermes\n\tencode gzip", "encode gzip\n\thermes"} {
		base, _ := sidecar.ServeCaddyfile(t, "\t"+order+"\n\treverse_proxy "+up.Addr)
		c := client.New(t, base)
		for name := range scripts {
			want := c.Play(name).All()
			r := c.Play(name, "Accept-Encoding", "gzip")
			if r.Header.Get("Content-Encoding") != "gzip" {
				t.Fatalf("Content-Encoding %q", r.Header.Get("Content-Encoding"))
			}
			z, err := gzip.NewReader(r.In)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(z); string(got) != want || err != nil {
				t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, got, want)
			}
		}
	}
}

// handle_errors writes nothing into a stream that has begun, and cannot break the JSON of one
// that has not. On other paths it has its errors.
func TestHandleErrorsStaysOutOfStreams(t *testing.T) {
	up := upstream.New(t, upstream.Router{
		"cut": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Reset()
		},
		"nothing": (*upstream.Exchange).Fin,
	}.Play)
	base, _ := sidecar.ServeCaddyfile(t, "\thermes\n\treverse_proxy "+up.Addr+"\n\thandle_errors {\n\t\trespond \"<html>error page</html>\"\n\t}")
	c := client.New(t, base)
	c.Play("cut").Answer().CheckError(t, "upstream_aborted")
	if e := client.CheckJSON(t, c.Play("nothing"), 502, up.Addr); e.Code != "upstream_aborted" {
		t.Errorf("code %q", e.Code)
	}
	r := c.Post("/v1/models", "X-Play", "nothing")
	if body := r.All(); r.StatusCode != 502 || body != "<html>error page</html>" {
		t.Errorf("%s: %q", r.Status, body)
	}
}

// The Caddyfile that users start from serves, with upstream from the
// environment.
func TestCaddyfileExample(t *testing.T) {
	example := harness.ReadFile(t, harness.Path("Caddyfile.example"))
	const port = "\n:8643 {\n"
	if strings.Count(example, port) != 1 {
		t.Fatalf("the example has no line %q", strings.TrimSpace(port))
	}
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	home, listen := t.TempDir(), harness.FreePort(t)
	sidecar.RunCaddyfile(t, home, strings.Replace(example, port, "\n"+sidecar.OnLoopback(listen), 1), "HERMES_UPSTREAM="+up.Addr)
	client.New(t, "http://"+listen).Chat().CheckRepaired(t)
}

// The program that xcaddy generates compiles and has the module and, with that of the demo, its
// command.
func TestBuildAsXcaddyDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds Caddy once more")
	}
	dir := t.TempDir()
	harness.WriteFile(t, filepath.Join(dir, "main.go"), []byte(`package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/hermes-sidecar/hermes-sidecar"
	_ "github.com/hermes-sidecar/hermes-sidecar/demo"
)

func main() {
	caddycmd.Main()
}
`))
	for _, args := range [][]string{
		{"mod", "init", "caddy"},
		{"mod", "edit", "-require=github.com/hermes-sidecar/hermes-sidecar@v0.0.0", "-replace=github.com/hermes-sidecar/hermes-sidecar=" + harness.Path("")},
		{"mod", "edit", "-require=github.com/hermes-sidecar/hermes-sidecar/demo@v0.0.0", "-replace=github.com/hermes-sidecar/hermes-sidecar/demo=" + harness.Path("demo")},
		{"mod", "tidy", "-e"},
		{"build", "-o", filepath.Join(dir, "caddy"), "."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "caddy"), "list-modules", "--versions")
	cmd.Env = sidecar.Environment(dir)
	out, err := cmd.Output()
	for _, module := range []string{"admin.api.hermes", "hermes", "http.handlers.hermes", "http.handlers.hermes_queue", "http.handlers.hermes_resume"} {
		if err != nil || !strings.Contains(string(out), "\n"+module+" v0.0.0\n") {
			t.Errorf("%v: %s is not in the list, or not with the version of the module", err, module)
		}
	}
	cmd = exec.Command(filepath.Join(dir, "caddy"), "hermes-demo", "--speed", "0", "--scenario", "one_tool")
	cmd.Env = sidecar.Environment(dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "running → completed") {
		t.Errorf("the demo: %v\n%s", err, out)
	}
}
