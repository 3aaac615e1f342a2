package main

import (
	"net/http"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
)

func init() { caddy.RegisterModule(collect{}) }

// collect has the admin API collect garbage, and give back to the system all memory that
// is free. Only the binary that is measured has it.
type collect struct{}

// CaddyModule returns the Caddy module information.
func (collect) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.collect", New: func() caddy.Module { return collect{} }}
}

// Routes implements caddy.AdminRouter.
func (collect) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/collect", Handler: caddy.AdminHandlerFunc(
		func(http.ResponseWriter, *http.Request) error {
			debug.FreeOSMemory()
			return nil
		})}}
}
