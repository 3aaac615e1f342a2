package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// leftOut are the packages of modules/standard that modules.go says are not
// imported.
var leftOut = []string{
	"caddyfs", "caddyevents/eventsconfig", "caddyhttp/encode/brotli", "caddyhttp/fileserver",
	"caddyhttp/push", "caddyhttp/reverseproxy/fastcgi", "caddyhttp/templates",
	"caddypki/acmeserver", "caddytls/distributedstek",
}

// TestEveryStandardModuleIsDecidedOn: each package that full Caddy has is in
// this program, or is one that is left out on purpose, and really is out.
func TestEveryStandardModuleIsDecidedOn(t *testing.T) {
	const modules = "github.com/caddyserver/caddy/v2/modules/"
	have := golist(t, "-deps", ".")
	for _, p := range golist(t, "-f", `{{join .Imports "\n"}}`, modules+"standard", modules+"caddyhttp/standard") {
		short := strings.TrimPrefix(p, modules)
		if in, out := slices.Contains(have, p), slices.Contains(leftOut, short); in == out && short != "caddyhttp/standard" {
			t.Errorf("%s: in %v, left out %v", short, in, out)
		}
	}
}

func golist(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// TestNoCommandIsBroken: those that need what is left out are not there, those
// that fetch another binary are refused, all others run.
func TestNoCommandIsBroken(t *testing.T) {
	commands := caddycmd.Commands()
	for _, name := range []string{"run", "validate", "adapt", "reload", "hermes-proxy", "hermes-health", "hermes-repair", "hermes-doctor"} {
		if commands[name].Name != name {
			t.Errorf("there is no command %s", name)
		}
		if err := refuse([]string{name}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"file-server", "hermes-demo"} {
		if commands[name].Name != "" {
			t.Errorf("there is %s, and no module for it", name)
		}
	}
	for name := range foreign {
		if commands[name].Name == "" {
			t.Errorf("Caddy has no command %s any more", name)
		}
		err := refuse([]string{name, "github.com/example/plugin"})
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "./cmd") {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "its package") != (name == "upgrade") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := refuse(nil); err != nil {
		t.Error(err)
	}
}
