// Package routes follows the ways that requests may take through the routes of Caddy's http app.
//
// The routes may be provisioned or not: a handler that is being provisioned finds those before it
// provisioned, and the others, its own among them, as JSON. Only that is decoded.
package routes

import (
	"encoding/json"
	"maps"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// A Handler is a handler of a route.
type Handler struct {
	Name   string          // such as reverse_proxy, "" if it has none
	Module any             // nil if it is not provisioned and none of those that have routes
	Raw    json.RawMessage // nil if it is provisioned
}

// States are those of the requests that reach a handler, as far as a Walk tells them apart.
type States[S comparable] map[S]bool

// Add adds the states of more.
func (s States[S]) Add(more States[S]) { maps.Copy(s, more) }

// A Walk follows requests through the routes of an app. It takes a way that no request can take, for
// it knows no matcher, but leaves out none that it can see: a handler of a plugin may have routes
// that it does not see. So what holds on all its ways, or on none, holds for all requests, or none.
type Walk[S comparable] struct {
	// Visit is called for a handler and the states of the requests that reach it, and returns the
	// states of those that it passes on. It is also called for reverse_proxy, but not for handlers
	// that only have routes.
	Visit func(h *Handler, in States[S]) States[S]
	// Top is called for each route of a server before it is followed, if it is not nil.
	Top func(*caddyhttp.Route)
	// Matched says that the server that is walked through has had a route with a matcher.
	Matched bool

	named    map[string]*caddyhttp.Route
	invoked  int
	handlers map[*caddyhttp.Route][]*Handler // those that have been decoded
}

// invokeDepth is how deep named routes are followed: they may invoke themselves.
const invokeDepth = 16

// Server follows requests of the state start through the routes of a server.
func (w *Walk[S]) Server(server *caddyhttp.Server, start S) {
	w.named, w.Matched = server.NamedRoutes, false
	w.list(server.Routes, States[S]{start: true}, w.Top)
	w.failed(server.Errors, States[S]{start: true})
}

// place is the state of a request in a list of routes.
type place[S comparable] struct {
	state S
	group string // of routes, of which the request has taken one
}

// list follows a list of routes, and returns the states of the requests that reach its end.
func (w *Walk[S]) list(list caddyhttp.RouteList, in States[S], each func(*caddyhttp.Route)) States[S] {
	now := placesOf(in)
	for i := range list {
		if each != nil {
			each(&list[i])
		}
		now = w.route(&list[i], now)
	}
	return now.states()
}

// places are where requests are in a list of routes.
type places[S comparable] map[place[S]]bool

func placesOf[S comparable](in States[S]) places[S] {
	all := make(places[S])
	for s := range in {
		all[place[S]{state: s}] = true
	}
	return all
}

func (all places[S]) states() States[S] {
	out := make(States[S])
	for p := range all {
		out[p.state] = true
	}
	return out
}

// route follows a route, and returns the places of the requests that reach what follows it.
func (w *Walk[S]) route(route *caddyhttp.Route, in places[S]) places[S] {
	matched := len(route.MatcherSets)+len(route.MatcherSetsRaw) > 0
	w.Matched = w.Matched || matched
	taken, out := make(States[S]), make(places[S])
	for p := range in {
		skips := route.Group != "" && p.group == route.Group
		if skips || matched {
			out[p] = true
		}
		if !skips {
			taken[p.state] = true
		}
	}
	for s := range w.through(route, taken) {
		if !route.Terminal {
			out[place[S]{s, route.Group}] = true
		}
	}
	return out
}

// through follows the handlers of a route.
func (w *Walk[S]) through(route *caddyhttp.Route, in States[S]) States[S] {
	for _, h := range w.of(route) {
		in = w.handler(h, in)
	}
	return in
}

// handler follows a handler, and returns the states of the requests that reach the next one.
func (w *Walk[S]) handler(h *Handler, in States[S]) States[S] {
	switch m := h.Module.(type) {
	case *caddyhttp.Subroute:
		out := w.list(m.Routes, in, nil)
		out.Add(w.failed(m.Errors, in))
		return out
	case *caddyhttp.Invoke:
		if route := w.named[m.Name]; route != nil && w.invoked < invokeDepth {
			w.invoked++
			defer func() { w.invoked-- }()
			return w.route(route, placesOf(in)).states()
		}
		return in
	case *intercept.Intercept:
		for _, r := range m.HandleResponse {
			w.list(r.Routes, in, nil)
		}
		return in
	case *reverseproxy.Handler:
		out := make(States[S])
		out.Add(w.Visit(h, in))
		for _, r := range m.HandleResponse {
			if r.StatusCode == "" { // its routes may go on, as those of forward_auth do
				out.Add(w.list(r.Routes, in, nil))
			}
		}
		return out
	}
	return w.Visit(h, in)
}

// failed follows the routes for errors.
func (w *Walk[S]) failed(c *caddyhttp.HTTPErrorConfig, in States[S]) States[S] {
	if c == nil {
		return nil
	}
	return w.list(c.Routes, in, nil)
}

// of returns the handlers of a route.
func (w *Walk[S]) of(route *caddyhttp.Route) []*Handler {
	if all, known := w.handlers[route]; known {
		return all
	}
	var all []*Handler
	for _, h := range route.Handlers {
		all = append(all, provisioned(h))
	}
	for _, raw := range route.HandlersRaw {
		all = append(all, decoded(raw))
	}
	if w.handlers == nil {
		w.handlers = make(map[*caddyhttp.Route][]*Handler)
	}
	w.handlers[route] = all
	return all
}

func provisioned(h caddyhttp.MiddlewareHandler) *Handler {
	of := &Handler{Module: h}
	if m, ok := h.(caddy.Module); ok {
		of.Name = m.CaddyModule().ID.Name()
	}
	return of
}

func decoded(raw json.RawMessage) *Handler {
	var is struct {
		Handler string `json:"handler"`
	}
	h := &Handler{Raw: raw}
	if json.Unmarshal(raw, &is) != nil {
		return h // Caddy says why
	}
	h.Name = is.Handler
	var m any
	switch h.Name {
	case "subroute":
		m = new(caddyhttp.Subroute)
	case "invoke":
		m = new(caddyhttp.Invoke)
	case "intercept":
		m = new(intercept.Intercept)
	case "reverse_proxy":
		m = new(reverseproxy.Handler)
	}
	if m != nil && json.Unmarshal(raw, m) == nil {
		h.Module = m
	}
	return h
}
