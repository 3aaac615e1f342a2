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

// runCtxKey is the key of what a run has of its own.
type runCtxKey struct{}

// ofItsOwn is what a run has of its own, for takeOver.
type ofItsOwn struct {
	over   atomic.Bool // the client's placeholders ask ours from now on
	fields *accesslog.Fields
}

// routeGroups is the key of the groups of routes that have matched (caddy
// routes.go:476).
const routeGroups = caddy.CtxKey("route_group")

// ofRun returns r, a clone of a client's request, with everything of its own.
func ofRun(r *http.Request, w http.ResponseWriter) *http.Request {
	clients := r.Context()
	theirs, ok := clients.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return r // not Caddy's
	}
	server, _ := clients.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	original := clients.Value(caddyhttp.OriginalRequestCtxKey)
	own, placeholders := new(ofItsOwn), caddy.NewReplacer()
	run := caddyhttp.PrepareRequest(r, placeholders, w, server)
	ctx := context.WithValue(run.Context(), runCtxKey{}, own)
	ctx = context.WithValue(ctx, caddyhttp.OriginalRequestCtxKey, original)
	// The writer of the server is none of the run's: what sets its timeouts finds none.
	ctx = caddyhttp.ContextWithIdleTimeouts(ctx, nil, nil)
	ctx, own.fields = accesslog.Collect(ctx)
	*run = *run.WithContext(ctx) // placeholders refers to run itself
	copyMap[string, any](ctx, clients, caddyhttp.VarsCtxKey)
	copyMap[string, struct{}](ctx, clients, routeGroups)
	placeholders.Map(func(key string) (any, bool) {
		if own.over.Load() {
			return nil, false
		}
		return theirs.Get(key)
	})
	return run
}

// copyMap adds to the map with the key in the context to what that in from has.
func copyMap[K comparable, V any](to, from context.Context, key caddy.CtxKey) {
	t, _ := to.Value(key).(map[K]V)
	f, _ := from.Value(key).(map[K]V)
	if t != nil {
		maps.Copy(t, f)
	}
}

// takeOver lets the client's request have what the handlers of its run have set. The run
// is over.
func takeOver(client, run *http.Request) {
	ctx := run.Context()
	own, ok := ctx.Value(runCtxKey{}).(*ofItsOwn)
	theirs, isCaddys := client.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok || !isCaddys {
		return
	}
	copyMap[string, any](client.Context(), ctx, caddyhttp.VarsCtxKey)
	accesslog.Add(client, own.fields.All()...)
	own.over.Store(true)
	if ours, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		theirs.Map(ours.Get)
	}
}
