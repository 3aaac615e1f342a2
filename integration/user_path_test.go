package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The Caddyfile that users start from serves, with upstream from the
// environment.
func TestCaddyfileExample(t *testing.T) {
	example := read(t, path("Caddyfile.example"))
	const port = "\n:8643 {\n"
	if strings.Count(example, port) != 1 {
		t.Fatalf("the example has no line %q", strings.TrimSpace(port))
	}
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	home, listen := t.TempDir(), freePort(t)
	runCaddyfile(t, home, strings.Replace(example, port, "\n"+onLoopback(listen), 1), "HERMES_UPSTREAM="+up.addr)
	a := newClient(t, "http://"+listen).chat().answer()
	a.checkGood(t)
	if len(a.starts) != 1 || strings.Contains(a.content, "`") {
		t.Errorf("starts %v, content %q", a.starts, a.content)
	}
}

// What is commented out in the example are options, and their defaults.
func TestCaddyfileExampleWithEveryLine(t *testing.T) {
	example := read(t, path("Caddyfile.example"))
	var lines []string
	for l := range strings.SplitSeq(example, "\n") {
		if strings.HasPrefix(l, "\t\t# ") && !strings.Contains(example[:strings.Index(example, l)], "reverse_proxy {$") {
			l = "\t\t" + strings.TrimPrefix(l, "\t\t# ")
		}
		lines = append(lines, l)
	}
	out, bad, err := commandOn(t, "adapt", strings.Join(lines, "\n"), "--validate")
	if err != nil {
		t.Fatalf("%v: %s", err, bad)
	}
	for option := range everyMember {
		if _, ok := handlers(t, out)[0][option]; !ok && option != "status_line" && !strings.HasPrefix(option, "first_") && !strings.HasPrefix(option, "stall_") {
			t.Errorf("the example does not show %s", option)
		}
	}
}

// The program that xcaddy generates compiles and has the module.
func TestBuildAsXcaddyDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds Caddy once more")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), []byte(`package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/hermes-sidecar/hermes-sidecar"
)

func main() {
	caddycmd.Main()
}
`))
	for _, args := range [][]string{
		{"mod", "init", "caddy"},
		{"mod", "edit", "-require=github.com/hermes-sidecar/hermes-sidecar@v0.0.0", "-replace=github.com/hermes-sidecar/hermes-sidecar=" + path("")},
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
}
