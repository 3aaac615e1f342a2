package main

import (
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// TestCommandsAreRegistered, those of every build with the plugin and the demo.
func TestCommandsAreRegistered(t *testing.T) {
	commands := caddycmd.Commands()
	for _, name := range []string{"hermes-proxy", "hermes-health", "hermes-repair", "hermes-doctor", "hermes-demo"} {
		if commands[name].Name != name {
			t.Errorf("there is no command %s", name)
		}
	}
}
