package queuecaddy

import (
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/routes"
)

// Keys returns the keys of the lines of all handlers of an app, those of the servers in their order.
// A key begins with "!" if no hermes comes after its handler.
func Keys(app *caddyhttp.App) (keys []string) {
	seen := map[*QueueHandler]bool{}
	walk := routes.Walk[bool]{Visit: func(handler *routes.Handler, in routes.States[bool]) routes.States[bool] {
		if h, ok := handler.Module.(*QueueHandler); ok && !seen[h] {
			seen[h] = true
			key, waits := backendOf(app, h)
			if !waits {
				key = "!" + key
			}
			keys = append(keys, key)
		}
		return in
	}}
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		walk.Server(app.Servers[name], true)
	}
	return keys
}
