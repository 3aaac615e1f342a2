// Command caddy is Caddy with the Hermes sidecar built in: what
//
//	xcaddy build --with github.com/hermes-sidecar/hermes-sidecar
//
// would produce.
package main

import (
	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	// The standard modules and this plugin register themselves.
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/hermes-sidecar/hermes-sidecar"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
)

func main() {
	caddy.CustomVersion = build.This().CustomVersion()
	caddycmd.Main()
}
