package behalf

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/accesslog"
	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
)

// All handlers of a Caddy request share the placeholders, variables, groups of routes and fields of
// the access log in its context, most of them without a lock. The request of a run goes on after
// the server has logged the client's request, and so has its own.

// Target returns the server that received r (client.Server), and the path that its client requested. They
// keep apart the sites of a process, even if a client of one site sends the Host of another, and agents
// below different paths.
func Target(r *http.Request) (server, path string) {
	path = r.URL.Path
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		path = original.URL.Path
	}
	return client.Server(r), path
}

// Site returns the site and the agent that r asks, as a scope for client.Of: the host, the server, and
// the part of the path in front of the API's own path.
func Site(r *http.Request) []string {
	server, path := Target(r)
	for _, api := range []string{"/v1/", "/api/"} {
		if i := strings.LastIndex(path, api); i >= 0 {
			path = path[:i]
			break
		}
	}
	return []string{r.Host, server, path}
}

// routeGroups is the key of the groups of routes that have matched (caddy
// routes.go:476).
const routeGroups = caddy.CtxKey("route_group")

// Apart returns a context for a call of the handlers after a handler whose request has ctx. The
// groups of routes that match in the call are not recorded in ctx, so that the handlers may be
// called again: of a group, such as handle blocks, only the first match handles a request, once.
func Apart(ctx context.Context) context.Context {
	groups, _ := ctx.Value(routeGroups).(map[string]struct{})
	return context.WithValue(ctx, routeGroups, maps.Clone(groups))
}

// beforeKey is the context key of the placeholders that the request of a run began with.
type beforeKey struct{}

// OwnRequest returns r, a clone of a client's request, with placeholders, variables, groups of routes
// and log fields of its own, for a run whose answer goes to w and may outlive the client's request.
// When the run is over, returned passes what the handlers of the run have set to the client's
// request. OwnRequest is called in the goroutine that handles the client's request.
func OwnRequest(r *http.Request, w http.ResponseWriter) (run *http.Request, returned func()) {
	clients := r.Context()
	theirs := clients.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	before := theirs.WithoutFile() // a copy: theirs has no lock for its list of providers. Only ours has files
	outer, _ := clients.Value(beforeKey{}).(*caddy.Replacer)
	server, _ := clients.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	ours := caddy.NewReplacer()
	run = caddyhttp.PrepareRequest(r, ours, w, server)
	original := clients.Value(caddyhttp.OriginalRequestCtxKey)
	ctx := context.WithValue(run.Context(), caddyhttp.OriginalRequestCtxKey, original)
	// The run does not use the server's writer: handlers that set its timeouts must not find it.
	ctx = caddyhttp.ContextWithIdleTimeouts(ctx, nil, nil)
	ctx = context.WithValue(ctx, beforeKey{}, before)
	ctx, fields := accesslog.Collect(ctx)
	*run = *run.WithContext(ctx) // in place: ours refers to run
	copyMap[string, any](ctx, clients, caddyhttp.VarsCtxKey)
	copyMap[string, struct{}](ctx, clients, routeGroups)
	var over atomic.Bool // the run is over, and theirs asks ours
	ours.Map(func(key string) (any, bool) {
		if over.Load() {
			return nil, false
		}
		value, ok := before.Get(key)
		if !ok && outer != nil { // r is of a run that may be over
			value, ok = outer.Get(key)
		}
		return value, ok
	})
	return run, func() {
		copyMap[string, any](clients, ctx, caddyhttp.VarsCtxKey)
		accesslog.Add(r, fields.All()...)
		over.Store(true)
		theirs.Map(ours.Get)
	}
}

// copyMap copies the entries of the map with the key in from to the map with the key in to.
func copyMap[K comparable, V any](to, from context.Context, key caddy.CtxKey) {
	t, _ := to.Value(key).(map[K]V)
	f, _ := from.Value(key).(map[K]V)
	if t != nil {
		maps.Copy(t, f)
	}
}
