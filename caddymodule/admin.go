package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/telemetry"
)

func init() {
	caddy.RegisterModule(AdminStreams{})
}

// AdminStreams is a module of the admin API. It answers GET `/hermes/streams`
// with the streams that are open, the oldest first (`open`), and the last
// hundred that have ended, the newest first (`ended`), of all configurations
// since the process began. It shows names and numbers, nothing of what was said.
type AdminStreams struct{}

// CaddyModule returns the Caddy module information.
func (AdminStreams) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.hermes",
		New: func() caddy.Module { return new(AdminStreams) },
	}
}

// Routes implements caddy.AdminRouter.
func (AdminStreams) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/hermes/streams", Handler: caddy.AdminHandlerFunc(listStreams)}}
}

// listStreams lists the streams of the process.
func listStreams(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return caddy.APIError{
			HTTPStatus: http.StatusMethodNotAllowed,
			Err:        fmt.Errorf("method %s not allowed: use GET", r.Method),
		}
	}
	answer := struct {
		Open  []telemetry.OpenStream  `json:"open"`
		Ended []telemetry.EndedStream `json:"ended"`
	}{}
	answer.Open, answer.Ended = telemetry.OfProcess().List(time.Now())
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(answer)
}

// Interface guards
var (
	_ caddy.Module      = AdminStreams{}
	_ caddy.AdminRouter = AdminStreams{}
)
