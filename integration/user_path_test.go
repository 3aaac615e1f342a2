package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The Caddyfile that users start from serves, with upstream from the
// environment.
func TestCaddyfileExample(t *testing.T) {
	example, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	const port = "\n:8643 {\n"
	if strings.Count(string(example), port) != 1 {
		t.Fatalf("the example has no line %q", strings.TrimSpace(port))
	}
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	home, listen := t.TempDir(), freePort(t)
	file := filepath.Join(home, "Caddyfile")
	write(t, file, []byte(strings.Replace(string(example), port, "\n"+onLoopback(listen), 1)))
	runArgs(t, environment(home, "HERMES_UPSTREAM="+up.addr), "run", "--config", file, "--adapter", "caddyfile")
	a := newClient(t, "http://"+listen).chat().answer()
	a.checkGood(t)
	if len(a.starts) != 1 || strings.Contains(a.content, "`") {
		t.Errorf("starts %v, content %q", a.starts, a.content)
	}
}

// What is commented out in the example are options, and their defaults.
func TestCaddyfileExampleWithEveryLine(t *testing.T) {
	example, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for l := range strings.SplitSeq(string(example), "\n") {
		if strings.HasPrefix(l, "\t\t# ") && !strings.Contains(string(example[:strings.Index(string(example), l)]), "reverse_proxy {$") {
			l = "\t\t" + strings.TrimPrefix(l, "\t\t# ")
		}
		lines = append(lines, l)
	}
	home := t.TempDir()
	file := filepath.Join(home, "Caddyfile")
	write(t, file, []byte(strings.Join(lines, "\n")))
	out, bad, err := caddy(t, home, "adapt", "--config", file, "--adapter", "caddyfile", "--validate")
	if err != nil {
		t.Fatalf("%v: %s", err, bad)
	}
	for option := range everyMember {
		if _, ok := handlers(t, out)[0][option]; !ok && option != "status_line" && !strings.HasPrefix(option, "first_") && !strings.HasPrefix(option, "stall_") {
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
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), []byte(`package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/hermes-sidecar/hermes-sidecar"
	_ "github.com/hermes-sidecar/hermes-sidecar/caddymodule/demo"
)

func main() {
	caddycmd.Main()
}
`))
	for _, args := range [][]string{
		{"mod", "init", "caddy"},
		{"mod", "edit", "-require=github.com/hermes-sidecar/hermes-sidecar@v0.0.0", "-replace=github.com/hermes-sidecar/hermes-sidecar=" + root},
		{"mod", "tidy", "-e"},
		{"build", "-o", filepath.Join(dir, "caddy"), "."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "caddy"), "list-modules")
	cmd.Env = environment(dir)
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "\nhttp.handlers.hermes\n") {
		t.Errorf("%v: the module is not in the list", err)
	}
	cmd = exec.Command(filepath.Join(dir, "caddy"), "hermes-demo", "--speed", "0", "--scenario", "one_tool")
	cmd.Env = environment(dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "running → completed") {
		t.Errorf("the demo: %v\n%s", err, out)
	}
}
