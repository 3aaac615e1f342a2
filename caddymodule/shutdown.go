package caddymodule

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// drain ends the open streams when the process ends (contract section 3, "the sidecar stops"). It
// handles Caddy's event "stopping", which comes before the servers shut down; Cleanup would be too
// late, because it comes after the grace period. The streams are those of all configurations, so
// that streams of an older one end as well. If the configuration that runs at the end has no hermes
// handler, watchExit ends them instead. All fields are unexported, because Caddy's debug log
// encodes event handlers as JSON.
type drain struct {
	streams interface{ Shutdown(limit time.Duration) }
	timeout time.Duration // drain_timeout
	limit   time.Duration // httpapp.DrainLimit
	// exiting is caddy.Exiting: the event also comes at every reload, which
	// ends no stream.
	exiting func() bool
	logger  *zap.Logger
}

// Handle does not block: Caddy waits for it before it shuts the servers down.
func (d *drain) Handle(context.Context, caddy.Event) error {
	if !d.exiting() {
		return nil
	}
	if d.tooShort() {
		d.logger.Warn("grace_period is too short for drain_timeout; streams end before the grace period does",
			zap.Duration("drain_timeout", d.timeout), zap.Duration("streams_end_after", d.limit))
	}
	d.streams.Shutdown(d.limit)
	return nil
}

// tooShort reports whether the grace period ends before drain_timeout does.
func (d *drain) tooShort() bool { return d.limit > 0 && d.limit < d.timeout }

// exitPoll is how often watchExit looks. Nothing else tells it: Caddy calls only modules of the
// configuration that runs, and cancels the context of that after the servers have waited for the
// streams.
const exitPoll = 100 * time.Millisecond

// watchExit ends the open streams when the process ends, as long as no hermes handler does: the
// configuration has been replaced by one without any. It returns when there is a handler again,
// when no stream is open any more, and after the drain has begun.
func (s *shared) watchExit(exiting func() bool, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for s.handlers.Load() == 0 && s.streams.Open() > 0 {
		if exiting() {
			s.streams.Shutdown(0)
			return
		}
		<-t.C
	}
}
