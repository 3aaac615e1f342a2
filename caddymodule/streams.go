package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
)

func init() {
	caddy.RegisterModule(AdminStreams{})
	caddy.RegisterModule(new(StreamsHandler))
	httpcaddyfile.RegisterHandlerDirective("hermes_streams", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		m := new(StreamsHandler)
		return m, m.UnmarshalCaddyfile(h.Dispenser)
	})
	// It answers, so it stands beside metrics, which is for the same port.
	httpcaddyfile.RegisterDirectiveOrder("hermes_streams", httpcaddyfile.Before, "metrics")
}

// AdminStreams is a module of the admin API. It answers GET `/hermes/streams`
// with the streams that are open, the oldest first (`open`), and the last
// hundred that have ended, the newest first (`ended`), of all configurations
// since the process began; and the requests that wait in the lines of
// `hermes_queue`, in the order of their turns (`waiting`). It shows names and
// numbers, nothing of what was said.
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

// reads reports whether the method of r is GET or HEAD. If not, it sets the field Allow of w.
func reads(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	return false
}

// listStreams lists the streams of the process.
func listStreams(w http.ResponseWriter, r *http.Request) error {
	if !reads(w, r) {
		return caddy.APIError{
			HTTPStatus: http.StatusMethodNotAllowed,
			Err:        fmt.Errorf("method %s not allowed: use GET", r.Method),
		}
	}
	now, all := time.Now(), hermesapp.OfProcess().Telemetry
	open, ended := all.List(now)
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]any{"open": open, "ended": ended, "waiting": all.Waiting(now)})
}

// StreamsHandler answers GET with the list of streams of the admin endpoint `/hermes/streams`:
// open streams, the last hundred that have ended, and requests that wait. Use it on a port that
// only operators can reach if the admin API is off.
//
// Because such a port requires no credentials, the list contains less than that of the admin
// API: only ids of chat completions, and only words of Hermes' own paths, with `*` for any
// other. It contains models, upstreams, names of tools, times and numbers, but nothing of what
// was said. It lists at most 1 MiB of open streams, the oldest ones, and of waiting requests,
// the first ones in line; `omitted` and `omitted_waiting` count the rest.
type StreamsHandler struct{}

// CaddyModule returns the Caddy module information.
func (*StreamsHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.hermes_streams",
		New: func() caddy.Module { return new(StreamsHandler) },
	}
}

// ServeHTTP answers with the list.
func (*StreamsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if !reads(w, r) {
		return caddyhttp.Error(http.StatusMethodNotAllowed, errors.New("hermes_streams allows GET and HEAD"))
	}
	list, err := hermesapp.OfProcess().Telemetry.PublicList(time.Now())
	if err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, err = w.Write(append(list, '\n'))
	return err
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	hermes_streams [<matcher>]
func (*StreamsHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.Errf("unexpected argument %q: hermes_streams takes a matcher and nothing else", d.Val())
	}
	if d.NextBlock(0) {
		return d.Errf("unexpected block: hermes_streams takes a matcher and nothing else")
	}
	return nil
}

var _ caddy.AdminRouter = AdminStreams{} // no other code checks this
