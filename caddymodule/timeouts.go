package caddymodule

import (
	"context"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// timeoutsFor returns ctx with a writer whose settings may be overridden in place of the
// server's, which has no lock and may be sending a keepalive: Caddy's timeouts handler does
// that where it comes after this one. apply applies them to the server's, and is nil if the
// server has none.
func timeoutsFor(ctx context.Context) (_ context.Context, apply func() (restore func())) {
	reader, server := caddyhttp.IdleTimeoutsFromContext(ctx)
	if server == nil {
		return ctx, nil
	}
	inner := new(caddyhttp.IdleTimeoutWriter) // writes nothing
	return caddyhttp.ContextWithIdleTimeouts(ctx, reader, inner), func() (restore func()) {
		if d := &inner.Deadline; d.Timeout > 0 {
			return server.Override(d.Timeout, d.MinRate, inner.MaxChunk)
		}
		return nil
	}
}
