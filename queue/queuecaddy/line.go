package queuecaddy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/hermes-sidecar/hermes-sidecar/internal/routes"
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
type way struct{ queue, hermes bool }

// walk looks for the line of a QueueHandler.
type walk struct {
	queue *QueueHandler

	found, waits bool            // requests reach the queue, and a hermes after it
	upstreams    map[string]bool // of the proxies after both
}

// backendOf returns the key of the line of h, a handler of the app, and whether a hermes stands
// after h.
func backendOf(app *caddyhttp.App, h *QueueHandler) (key string, waits bool) {
	w := walk{queue: h, upstreams: make(map[string]bool)}
	var listen []string // addresses of the servers that have h
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		w.found = false
		(&routes.Walk[way]{Visit: w.visit}).Server(app.Servers[name], way{})
		if w.found {
			listen = append(listen, app.Servers[name].Listen...)
		}
	}
	if len(w.upstreams) == 0 { // another handler answers
		return "any of " + strings.Join(listen, " "), w.waits
	}
	return strings.Join(slices.Sorted(maps.Keys(w.upstreams)), " "), w.waits
}

// visit follows requests through a handler.
func (w *walk) visit(handler *routes.Handler, in routes.States[way]) routes.States[way] {
	switch h := handler.Module.(type) {
	case *QueueHandler:
		if h != w.queue {
			return in
		}
		w.found = w.found || len(in) > 0
		return through(in, func(a way) way { return way{true, a.hermes} })
	case *reverseproxy.Handler:
		if in[way{true, true}] || in[way{false, true}] {
			w.proxy(h)
		}
		if len(h.HandleResponse) == 0 { // otherwise its routes may go on, as those of forward_auth do
			return nil
		}
	}
	if handler.Name == "hermes" {
		w.waits = w.waits || in[way{true, false}] || in[way{true, true}]
		return through(in, func(a way) way { return way{a.queue, a.queue} })
	}
	return in
}

// through returns the ways in, each changed by change.
func through(in routes.States[way], change func(way) way) routes.States[way] {
	out := make(routes.States[way])
	for a := range in {
		out[change(a)] = true
	}
	return out
}

// proxy adds the upstreams of h.
func (w *walk) proxy(h *reverseproxy.Handler) {
	for _, u := range h.Upstreams {
		// Placeholders of the environment do not change; others have values only for a request.
		w.upstreams[caddy.NewReplacer().ReplaceKnown(u.Dial, "")] = true
	}
	if m, ok := h.DynamicUpstreams.(caddy.Module); ok {
		options, _ := json.Marshal(m) // empty if that fails
		w.upstreams[string(m.CaddyModule().ID)+string(options)] = true
	}
}
