// Command caddy is Caddy with the Hermes sidecar and its demo built in: what
//
//	xcaddy build --with github.com/hermes-sidecar/hermes-sidecar \
//		--with github.com/hermes-sidecar/hermes-sidecar/tools/demo
//
// would produce.
package main

import (
	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	// The standard modules, this plugin and its demo register themselves.
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/hermes-sidecar/hermes-sidecar"
	_ "github.com/hermes-sidecar/hermes-sidecar/tools/demo"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
)

func main() {
	caddy.CustomVersion = build.This().CustomVersion()
	caddycmd.Main()
}
