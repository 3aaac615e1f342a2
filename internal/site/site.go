// Package site has the parts that the hermes_proxy directive and the commands that run a Caddy
// share: a route that repairs and proxies, a configuration that uses nothing but its own ports,
// and a check that a port is free. It also finds the sites with a hermes handler in a
// configuration. It holds no state.
package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Handlers returns the handlers of a route as JSON: a hermes handler with the options hermes, and
// then proxy.
func Handlers(hermes any, proxy *reverseproxy.Handler) []json.RawMessage {
	return []json.RawMessage{
		caddyconfig.JSONModuleObject(hermes, "handler", "hermes", nil),
		caddyconfig.JSONModuleObject(proxy, "handler", "reverse_proxy", nil),
	}
}

// Config returns the configuration that a command runs: the servers of app, no
// admin endpoint, and no copy of the configuration saved to be resumed from.
func Config(app caddyhttp.App) *caddy.Config {
	return &caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true, Config: &caddy.ConfigSettings{Persist: new(false)}},
		AppsRaw: caddy.ModuleMap{"http": caddyconfig.JSON(app, nil)},
	}
}

// PortFree returns an error if no server can listen on addr, host and port.
// Caddy itself would share a port with another Caddy, because it sets
// SO_REUSEPORT (listen_unix.go).
func PortFree(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another program", addr)
	}
	if err != nil {
		return err
	}
	return ln.Close()
}
