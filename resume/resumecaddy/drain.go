package resumecaddy

import (
	"cmp"
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/httpapp"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// limits returns the largest max_request and drain_timeout of the hermes handlers of app, which
// repair the streams that hermes_resume keeps, or the defaults if app has none.
func limits(app *caddyhttp.App) (maxRequest int64, drainTimeout time.Duration) {
	var visit func(routes caddyhttp.RouteList)
	drainTimeout = -1 // no handler is known
	visit = func(routes caddyhttp.RouteList) {
		for _, route := range routes {
			for _, handler := range route.Handlers {
				switch h := handler.(type) {
				case interface{ ResumeLimits() (int64, time.Duration) }:
					size, timeout := h.ResumeLimits()
					maxRequest, drainTimeout = max(maxRequest, size), max(drainTimeout, timeout)
				case *caddyhttp.Subroute:
					visit(h.Routes)
					if h.Errors != nil {
						visit(h.Errors.Routes)
					}
				}
			}
		}
	}
	if app != nil {
		for _, server := range app.Servers {
			visit(server.Routes)
			if server.Errors != nil {
				visit(server.Errors.Routes)
			}
			for _, route := range server.NamedRoutes {
				visit(caddyhttp.RouteList{*route})
			}
		}
	}
	if drainTimeout < 0 {
		drainTimeout = proxy.DefaultOptions().DrainTimeout
	}
	return cmp.Or(maxRequest, proxy.DefaultMaxRequest), drainTimeout
}

// reserve is how long a run may go on after hermes has had the time to end its stream, and
// how long it may take to end after it is cancelled.
const reserve = time.Second

// drain ends runs when the process ends. Runs that pass through hermes get the time to end as other
// streams do, so that their logs have what hermes writes.
type drain struct{ app *caddyhttp.App }

// Handle does not block: Caddy waits for it before it shuts the servers down.
func (d drain) Handle(context.Context, caddy.Event) error {
	if caddy.Exiting() { // the event also comes at every reload
		after := drainTimeout(d.app)
		shared.drained.CompareAndSwap(0, time.Now().Add(after+reserve).UnixNano())
		shared.runs.Shutdown(after)
	}
	return nil
}

// drainTimeout returns how long after the event the last run is cancelled: after hermes has
// drained, and before the grace period ends.
func drainTimeout(app *caddyhttp.App) time.Duration {
	_, timeout := limits(app)
	timeout += reserve
	if app == nil {
		return timeout
	}
	grace, delay := time.Duration(app.GracePeriod), time.Duration(app.ShutdownDelay)
	if limit := httpapp.DrainLimit(grace, delay); limit > 0 {
		timeout = min(timeout, limit+(max(delay, 0)+grace-limit)/2)
	}
	return timeout
}
