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

// hermes is a handler that repairs the streams that this one keeps, and whose limits hold
// here, too.
type hermes interface {
	ResumeLimits() (maxRequest int64, drainTimeout time.Duration)
}

// eachHermes calls f with each hermes of the app.
func eachHermes(app *caddyhttp.App, f func(hermes)) {
	var visit func(routes caddyhttp.RouteList)
	visit = func(routes caddyhttp.RouteList) {
		for _, route := range routes {
			for _, handler := range route.Handlers {
				switch h := handler.(type) {
				case hermes:
					f(h)
				case *caddyhttp.Subroute:
					visit(h.Routes)
					if h.Errors != nil {
						visit(h.Errors.Routes)
					}
				}
			}
		}
	}
	if app == nil {
		return
	}
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

// maxRequest returns the size in bytes above which a request passes untouched: the largest
// max_request of the app's hermes handlers.
func maxRequest(app *caddyhttp.App) (size int64) {
	eachHermes(app, func(h hermes) {
		limit, _ := h.ResumeLimits()
		size = max(size, limit)
	})
	return cmp.Or(size, proxy.DefaultMaxRequest)
}

// reserve is how long a run may go on after hermes has had the time to end its stream, and
// how long it may take to end after it is cancelled.
const reserve = time.Second

// drain ends runs when the process ends. Those that have hermes in them end as other streams
// do, and their logs have what hermes writes: they are given the time for that.
type drain struct {
	all     *streams
	app     *caddyhttp.App
	exiting func() bool // caddy.Exiting: the event also comes at every reload
}

// Handle does not block: Caddy waits for it before it shuts the servers down.
func (d *drain) Handle(context.Context, caddy.Event) error {
	if !d.exiting() {
		return nil
	}
	after := drainTimeout(d.app)
	d.all.drained.CompareAndSwap(0, time.Now().Add(after+reserve).UnixNano())
	d.all.runs.Shutdown(after)
	return nil
}

// drainTimeout returns when, after the event, the last run is cancelled: after the drain of
// hermes, and before the grace period ends.
func drainTimeout(app *caddyhttp.App) time.Duration {
	timeout, known := time.Duration(0), false
	eachHermes(app, func(h hermes) {
		_, limit := h.ResumeLimits()
		timeout, known = max(timeout, limit), true
	})
	if !known {
		timeout = proxy.DefaultOptions().DrainTimeout
	}
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
