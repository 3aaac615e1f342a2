package queuecaddy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// The configuration says in which line a request waits: the line of the backend of the
// reverse_proxy handlers that the request may reach through hermes_queue and then hermes. If they
// have one upstream in all, its address is the key of the line, so that all sites in front of it
// share its places. Otherwise the key has all upstreams, because reverse_proxy chooses one only
// after the wait. A reload of the same configuration does not change the key.
//
// A handler does not know the handlers after it. Once all handlers are provisioned, a walk follows
// the ways that requests may take through the routes of the app.

// way is what a request has passed through.
type way struct {
	queue, hermes bool
	group         string // of routes, of which it has taken one
}

// ways are the ways on which requests reach a handler.
type ways map[way]bool

// walk goes through the routes of a server.
type walk struct {
	queue *QueueHandler
	named map[string]*caddyhttp.Route
	depth int // of named routes

	found, waits bool            // requests reach the queue, and a hermes after it
	upstreams    map[string]bool // of the proxies after both
}

// invokeDepth is how deep named routes are followed: they may invoke themselves.
const invokeDepth = 16

// backendOf returns the key of the line of h, a handler of the app, and whether a hermes comes
// after h.
func backendOf(app *caddyhttp.App, h *QueueHandler) (key string, waits bool) {
	upstreams := make(map[string]bool)
	var listen []string // addresses of the servers that have h
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		server := app.Servers[name]
		w := walk{queue: h, named: server.NamedRoutes, upstreams: upstreams}
		w.routes(server.Routes, ways{{}: true})
		w.errors(server.Errors)
		if w.found {
			listen = append(listen, server.Listen...)
		}
		waits = waits || w.waits
	}
	if len(upstreams) == 0 { // another handler answers
		return "any of " + strings.Join(listen, " "), waits
	}
	return strings.Join(slices.Sorted(maps.Keys(upstreams)), " "), waits
}

// routes follows a list of routes, and returns the ways on which requests reach what is after it.
func (w *walk) routes(list caddyhttp.RouteList, in ways) ways {
	for _, route := range list {
		in = w.route(&route, in)
	}
	return in
}

// errors follows the routes for errors, from an empty way: they do not lead from the handler that
// failed to its backend.
func (w *walk) errors(c *caddyhttp.HTTPErrorConfig) {
	if c != nil {
		w.routes(c.Routes, ways{{}: true})
	}
}

// route follows a route, and returns the ways on which requests reach what comes after it.
func (w *walk) route(route *caddyhttp.Route, in ways) (out ways) {
	out = make(ways)
	taken := make(ways)
	for a := range in {
		skips := route.Group != "" && a.group == route.Group
		if skips || len(route.MatcherSets) > 0 {
			out[a] = true
		}
		if !skips {
			taken[a] = true
		}
	}
	for _, h := range route.Handlers {
		taken = w.handler(h, taken)
	}
	if route.Terminal {
		return out
	}
	for a := range taken {
		if route.Group != "" {
			a.group = route.Group
		}
		out[a] = true
	}
	return out
}

// handler follows a handler, and returns the ways on which requests reach what comes after it.
func (w *walk) handler(handler caddyhttp.MiddlewareHandler, in ways) ways {
	switch h := handler.(type) {
	case *QueueHandler:
		if h != w.queue {
			return in
		}
		w.found = w.found || len(in) > 0
		return in.with(func(a *way) { a.queue = true })
	case *caddyhttp.Subroute:
		w.errors(h.Errors)
		return w.routes(h.Routes, in)
	case *caddyhttp.Invoke:
		if route := w.named[h.Name]; route != nil && w.depth < invokeDepth {
			w.depth++
			defer func() { w.depth-- }()
			return w.route(route, in)
		}
	case *reverseproxy.Handler:
		w.proxy(h, in)
		if len(h.HandleResponse) == 0 { // otherwise its routes may go on, as those of forward_auth do
			return nil
		}
	case caddy.Module:
		if h.CaddyModule().ID == "http.handlers.hermes" {
			return in.with(func(a *way) {
				a.hermes = a.queue
				w.waits = w.waits || a.queue
			})
		}
	}
	return in
}

// with returns the ways of s, each changed by change.
func (s ways) with(change func(*way)) ways {
	out := make(ways, len(s))
	for a := range s {
		change(&a)
		out[a] = true
	}
	return out
}

// proxy adds the upstreams of h if requests reach it through the queue and hermes.
func (w *walk) proxy(h *reverseproxy.Handler, in ways) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(in)), func(a way) bool { return a.hermes }) {
		return
	}
	for _, u := range h.Upstreams {
		// Placeholders of the environment do not change; others have values only for a request.
		w.upstreams[caddy.NewReplacer().ReplaceKnown(u.Dial, "")] = true
	}
	if m, ok := h.DynamicUpstreams.(caddy.Module); ok {
		options, _ := json.Marshal(m) // empty if that fails
		w.upstreams[string(m.CaddyModule().ID)+string(options)] = true
	}
}
