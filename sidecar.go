// Package sidecar registers the http.handlers.hermes Caddy module, so that
// xcaddy build --with github.com/hermes-sidecar/hermes-sidecar works.
package sidecar

import _ "github.com/hermes-sidecar/hermes-sidecar/caddymodule"
