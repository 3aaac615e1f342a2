// Package httpapp finds Caddy's http app for a handler, and computes how long open streams may go
// on when the process stops.
package httpapp

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Of returns the http app that a handler is provisioned in, nil for none.
func Of(ctx caddy.Context) *caddyhttp.App {
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			return app
		}
	}
	return nil
}

// DrainLimit returns how long after the process begins to stop the last stream must have its error
// finish, 0 for no limit. The grace period begins after the delay. A tenth of it (at least 250 ms
// and at most 5 s, but never more than half) is reserved, so that the finish is written before the
// servers close connections.
func DrainLimit(grace, delay time.Duration) time.Duration {
	if grace <= 0 {
		return 0
	}
	reserve := min(max(250*time.Millisecond, grace/10), 5*time.Second, grace/2)
	return max(delay, 0) + grace - reserve
}
