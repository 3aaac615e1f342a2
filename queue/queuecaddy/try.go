package queuecaddy

import (
	"context"
	"maps"
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// Queued reports whether r has a pass, so that Join may let it wait.
func Queued(r *http.Request) bool {
	_, ok := r.Context().Value(passKey{}).(*pass)
	return ok
}

// routeGroups is the key of the groups of routes that have matched (caddy routes.go:476).
const routeGroups = caddy.CtxKey("route_group")

// Try returns the context for a try of a request that upstream may refuse, so that the handlers after
// hermes see it again: of a group of routes, such as handle blocks, only the first that matches
// handles a request, and in the next try none would be the first.
func Try(ctx context.Context) context.Context {
	groups, ok := ctx.Value(routeGroups).(map[string]struct{})
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, routeGroups, maps.Clone(groups))
}
