// Command caddy is Caddy with the Hermes sidecar and its demo: what this command builds.
//
//	xcaddy build --with github.com/hermes-sidecar/hermes-sidecar \
//		--with github.com/hermes-sidecar/hermes-sidecar/demo
package main

import (
	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	// The standard modules and these plugins register themselves.
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/hermes-sidecar/hermes-sidecar"
	_ "github.com/hermes-sidecar/hermes-sidecar/demo"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
)

func main() {
	caddy.CustomVersion = build.This().CustomVersion()
	caddycmd.Main()
}
