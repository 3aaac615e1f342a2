package caddymodule

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// drain starts the end of open streams when the process ends (contract section
// 3, "the sidecar stops"). It handles Caddy's event "stopping", which comes
// before the servers shut down; Cleanup would be too late, for it comes after
// the grace period. The streams are those of all configurations, so that those
// of an older one end as well. Where the configuration that runs at the end has
// no hermes handler, watchExit takes its place. All fields are unexported,
// because Caddy's debug log encodes event handlers as JSON.
type drain struct {
	streams interface{ Shutdown(limit time.Duration) }
	timeout time.Duration // drain_timeout
	limit   time.Duration // drainLimit of the http app
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

// httpApp returns the http app that a handler is provisioned in, nil for none.
func httpApp(ctx caddy.Context) *caddyhttp.App {
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			return app
		}
	}
	return nil
}

// httpTimes returns the grace period and the shutdown delay of that app.
func httpTimes(ctx caddy.Context) (grace, delay time.Duration) {
	if app := httpApp(ctx); app != nil {
		return time.Duration(app.GracePeriod), time.Duration(app.ShutdownDelay)
	}
	return 0, 0
}

// minDrainReserve and maxDrainReserve are the least and the most time kept between
// the error finish of streams and the end of the grace period, so that the finish
// is written before the servers close connections.
const (
	minDrainReserve = 250 * time.Millisecond
	maxDrainReserve = 5 * time.Second
)

// drainLimit returns when, after the event, the last stream has to have its
// error finish, 0 for no limit. The grace period begins after the delay; a
// tenth of it, at least minDrainReserve and at most maxDrainReserve, is kept for
// writing, and half of one that is shorter than that.
func drainLimit(grace, delay time.Duration) time.Duration {
	if grace <= 0 {
		return 0
	}
	reserve := min(max(minDrainReserve, grace/10), maxDrainReserve)
	reserve = min(reserve, grace/2)
	return max(delay, 0) + grace - reserve
}

// exitPoll is how often watchExit looks.
const exitPoll = 100 * time.Millisecond

// watchExit starts the end of open streams when the process ends, as long as
// there is no handler that hears of it: the configuration has been replaced by
// one without any. It returns when there is one again, when no stream is open
// any more, and after the drain has begun.
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
