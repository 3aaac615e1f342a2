// Package sidecar registers the Caddy modules of the Hermes sidecar and its commands, so
// that xcaddy build --with github.com/hermes-sidecar/hermes-sidecar works.
package sidecar

import (
	_ "github.com/hermes-sidecar/hermes-sidecar/caddymodule"
	_ "github.com/hermes-sidecar/hermes-sidecar/tools/doctor"
	_ "github.com/hermes-sidecar/hermes-sidecar/tools/health"
	_ "github.com/hermes-sidecar/hermes-sidecar/tools/repair"
)
