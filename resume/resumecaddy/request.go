package resumecaddy

import (
	"context"
	"maps"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/accesslog"
)

// A request of Caddy's shares placeholders, variables, groups of routes and fields of the
// access log with all that handle it, by its context, and has no lock for most of them.
// That of a run goes on when the server has logged its client's, so that it has its
// own.

// asked returns the port of the server that r has come to, and the path that its client
// asked for: sites have their streams apart, also if a client of one sends the Host of the
// other, and so have agents below different paths.
func asked(r *http.Request) (server, path string) {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		_, server, _ = net.SplitHostPort(addr.String()) // "" for a socket of Unix
	}
	path = r.URL.Path
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		path = original.URL.Path
	}
	return server, path
}

// routeGroups is the key of the groups of routes that have matched (caddy
// routes.go:476).
const routeGroups = caddy.CtxKey("route_group")

// beforeKey is the key of the placeholders that a run's request has begun with, in its context.
type beforeKey struct{}

// ofRun returns r, a clone of a client's request, with everything of its own. When the run is
// over, returned lets the client's request have what the handlers of the run have set.
func ofRun(r *http.Request, w http.ResponseWriter) (run *http.Request, returned func()) {
	clients := r.Context()
	theirs := clients.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	before := theirs.WithoutFile() // a copy: theirs has no lock for its list of providers. Ours has files
	outer, _ := clients.Value(beforeKey{}).(*caddy.Replacer)
	server, _ := clients.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	ours := caddy.NewReplacer()
	run = caddyhttp.PrepareRequest(r, ours, w, server)
	original := clients.Value(caddyhttp.OriginalRequestCtxKey)
	ctx := context.WithValue(run.Context(), caddyhttp.OriginalRequestCtxKey, original)
	// The writer of the server is none of the run's: what sets its timeouts finds none.
	ctx = caddyhttp.ContextWithIdleTimeouts(ctx, nil, nil)
	ctx = context.WithValue(ctx, beforeKey{}, before)
	ctx, fields := accesslog.Collect(ctx)
	*run = *run.WithContext(ctx) // ours refers to run itself
	copyMap[string, any](ctx, clients, caddyhttp.VarsCtxKey)
	copyMap[string, struct{}](ctx, clients, routeGroups)
	var over atomic.Bool // theirs asks ours from now on
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

// copyMap adds to the map with the key in the context to what that in from has.
func copyMap[K comparable, V any](to, from context.Context, key caddy.CtxKey) {
	t, _ := to.Value(key).(map[K]V)
	f, _ := from.Value(key).(map[K]V)
	if t != nil {
		maps.Copy(t, f)
	}
}
