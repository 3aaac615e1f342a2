package configuration

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

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
	a := client.New(t, "http://"+listen).Chat().Answer()
	a.CheckGood(t)
	if len(a.Starts) != 1 || strings.Contains(a.Content, "`") {
		t.Errorf("starts %v, content %q", a.Starts, a.Content)
	}
}

// Everything commented out in the example is an option.
func TestCaddyfileExampleWithEveryLine(t *testing.T) {
	example := harness.ReadFile(t, harness.Path("Caddyfile.example"))
	var lines []string
	for l := range strings.SplitSeq(example, "\n") {
		if strings.HasPrefix(l, "\t\t# ") && !strings.Contains(example[:strings.Index(example, l)], "reverse_proxy {$") {
			l = "\t\t" + strings.TrimPrefix(l, "\t\t# ")
		}
		lines = append(lines, l)
	}
	out, bad, err := sidecar.CommandOn(t, "adapt", strings.Join(lines, "\n"), "--validate")
	if err != nil {
		t.Fatalf("%v: %s", err, bad)
	}
	for option := range propertiesOf(t, "hermes") {
		missing := regexp.MustCompile(`^(status_line|cards|first_.*|stall_.*|record.*)$`).MatchString(option)
		if !missing && !strings.Contains(out, `"`+option+`":`) {
			t.Errorf("the example does not show %s", option)
		}
	}
}

// The program that xcaddy generates compiles and has the module and, with the package
// of that name, the demo.
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
	_ "github.com/hermes-sidecar/hermes-sidecar/tools/demo"
)

func main() {
	caddycmd.Main()
}
`))
	for _, args := range [][]string{
		{"mod", "init", "caddy"},
		{"mod", "edit", "-require=github.com/hermes-sidecar/hermes-sidecar@v0.0.0", "-replace=github.com/hermes-sidecar/hermes-sidecar=" + harness.Path("")},
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
	for _, module := range []string{"admin.api.hermes", "http.handlers.hermes", "http.handlers.hermes_resume"} {
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
