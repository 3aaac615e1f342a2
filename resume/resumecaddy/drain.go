package resumecaddy

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/httpapp"
)

// reserve is how long a run may go on after hermes has had the time to end its stream, and
// how long it may take to end after it is cancelled.
const reserve = time.Second

// drain ends runs when the process ends. Runs that pass through hermes get the time to end as other
// streams do, so that their logs have what hermes writes.
type drain struct {
	hermes *hermesapp.App
	http   *caddyhttp.App // nil for none
}

// Handle does not block: Caddy waits for it before it shuts the servers down.
func (d drain) Handle(context.Context, caddy.Event) error {
	if caddy.Exiting() { // the event also comes at every reload
		after := d.timeout()
		process := hermesapp.OfProcess()
		process.Drained.CompareAndSwap(0, time.Now().Add(after+reserve).UnixNano())
		process.Runs.Shutdown(after)
	}
	return nil
}

// timeout returns how long after the event the last run is cancelled: after hermes has
// drained, and before the grace period ends.
func (d drain) timeout() time.Duration {
	timeout := d.hermes.DrainTimeout() + reserve
	if d.http == nil {
		return timeout
	}
	grace, delay := time.Duration(d.http.GracePeriod), time.Duration(d.http.ShutdownDelay)
	if limit := httpapp.DrainLimit(grace, delay); limit > 0 {
		timeout = min(timeout, limit+(max(delay, 0)+grace-limit)/2)
	}
	return timeout
}
