package caddymodule

import (
	"context"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// idleTimeouts keep Caddy's timeouts handler, where it comes after this one, off
// the server's writer, which has no lock and may be sending a keepalive.
type idleTimeouts struct {
	server  *caddyhttp.IdleTimeoutWriter
	inner   caddyhttp.IdleTimeoutWriter // overridden instead of server, writes nothing
	restore func()                      // nil until something has been applied
}

// timeoutsFor returns ctx with a writer whose settings may be overridden, nil if
// the server has none.
func timeoutsFor(ctx context.Context) (context.Context, proxy.Timeouts) {
	reader, writer := caddyhttp.IdleTimeoutsFromContext(ctx)
	if writer == nil {
		return ctx, nil
	}
	t := &idleTimeouts{server: writer}
	return caddyhttp.ContextWithIdleTimeouts(ctx, reader, &t.inner), t
}

// Apply implements proxy.Timeouts.
func (t *idleTimeouts) Apply() {
	if d := &t.inner.Deadline; d.Timeout > 0 {
		t.restore = t.server.Override(d.Timeout, d.MinRate, t.inner.MaxChunk)
	}
}

// Restore implements proxy.Timeouts.
func (t *idleTimeouts) Restore() {
	if t.restore != nil {
		t.restore()
	}
}
