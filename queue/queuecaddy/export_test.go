package queuecaddy

import (
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Keys returns the keys of the lines of all handlers of an app, those of the servers in their order.
// A key begins with "!" if no hermes comes after its handler.
func Keys(app *caddyhttp.App) (keys []string) {
	var visit func(routes caddyhttp.RouteList)
	visit = func(routes caddyhttp.RouteList) {
		for _, route := range routes {
			for _, handler := range route.Handlers {
				switch h := handler.(type) {
				case *QueueHandler:
					key, waits := backendOf(app, h)
					if !waits {
						key = "!" + key
					}
					keys = append(keys, key)
				case *caddyhttp.Subroute:
					visit(h.Routes)
					if h.Errors != nil {
						visit(h.Errors.Routes)
					}
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		server := app.Servers[name]
		visit(server.Routes)
		if server.Errors != nil {
			visit(server.Errors.Routes)
		}
		for _, name := range slices.Sorted(maps.Keys(server.NamedRoutes)) {
			visit(caddyhttp.RouteList{*server.NamedRoutes[name]})
		}
	}
	return keys
}
