package sidecar

import (
	"path/filepath"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// RunCaddyfile writes a Caddyfile below home and runs it.
func RunCaddyfile(t testing.TB, home, text string, env ...string) *Process {
	t.Helper()
	return RunArgs(t, Environment(home, env...), "run", "--config", caddyfile(t, home, text), "--adapter", "caddyfile")
}

// caddyfile writes a Caddyfile below home and returns its path.
func caddyfile(t testing.TB, home, text string) string {
	t.Helper()
	file := filepath.Join(home, "Caddyfile")
	harness.WriteFile(t, file, []byte(text))
	return file
}

// CommandOn runs a subcommand, such as "validate", on a Caddyfile.
func CommandOn(t testing.TB, subcommand, text string, flags ...string) (stdout, stderr string, err error) {
	t.Helper()
	home := t.TempDir()
	return Command(t, home, append([]string{subcommand, "--config", caddyfile(t, home, text), "--adapter", "caddyfile"}, flags...)...)
}

// ServeCaddyfile runs a Caddyfile with one site, which has the directives, and returns the
// site's URL.
func ServeCaddyfile(t testing.TB, directives string) (base string, s *Process) {
	t.Helper()
	listen := harness.FreePort(t)
	return "http://" + listen, RunCaddyfile(t, t.TempDir(), "{\n\tadmin off\n}\n"+OnLoopback(listen)+"\n"+directives+"\n}\n")
}

// OnLoopback opens a site of a Caddyfile that listens on the loopback interface only.
func OnLoopback(listen string) string {
	return "http://" + listen + " {\n\tbind 127.0.0.1\n"
}
