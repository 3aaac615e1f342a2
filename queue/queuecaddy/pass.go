package queuecaddy

import (
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// pass is what hermes_queue gives a request: the line in which the request may wait, and the client
// that it is from. The pass is in the context of the request, and so also in that of the request
// that hermes_resume derives from it.
type pass struct {
	handler *QueueHandler
	client  queue.Client
	taken   atomic.Bool
	turn    atomic.Pointer[queue.Turn] // nil until Join has set it
}

// passKey is the key of a pass in a context.
type passKey struct{}

// Join takes the pass of r, a request that begins a run of the agent, and joins the line of the
// pass. If r has no pass, or the pass was taken before, the turn is nil, and r does not have to
// wait. The error is queue.ErrFull.
func Join(r *http.Request) (*queue.Turn, error) {
	p, ok := r.Context().Value(passKey{}).(*pass)
	if !ok || !p.taken.CompareAndSwap(false, true) {
		return nil, nil
	}
	o := p.handler.options
	o.Label = bounded.Name(r.URL.Path)
	t, err := p.handler.lines.Join(p.handler.backend(), o, p.client)
	if err != nil {
		p.handler.logRefused(r, err, 0)
		return nil, err
	}
	p.turn.Store(t)
	return t, nil
}

// Queued reports whether r has a pass, so that Join may make it wait.
func Queued(r *http.Request) bool {
	_, ok := r.Context().Value(passKey{}).(*pass)
	return ok
}

// clientOf returns the identity of the client of r. It does not depend on the site: a client that
// reaches a backend through two sites is one client.
func (h *QueueHandler) clientOf(r *http.Request) queue.Client {
	if by, ok := placeholder.Value(r, h.By); ok {
		return queue.Client(client.Named("by", by))
	}
	if client.HasCredentials(r) {
		return queue.Client(client.Of(r))
	}
	// Without this, all clients without credentials would be one.
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return queue.Client(client.Named("address", address))
}
