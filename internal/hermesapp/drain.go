package hermesapp

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// reserve is how long a run may go on after hermes has had the time to end its stream, and
// how long it may take to end after it is cancelled.
const reserve = time.Second

// lastWrite is how long the server may take to end an answer that hermes has ended.
const lastWrite = 250 * time.Millisecond

// Handle ends the open streams when the process ends (contract section 3, "the sidecar stops"). It
// handles Caddy's event "stopping", which precedes the end of the servers; Cleanup would be too
// late, because it follows the grace period. The streams are those of all configurations, so
// that streams of an older one end as well. If the configuration that runs at the end has no App,
// watchExit ends them instead. Handle does not block: Caddy waits for it before it shuts the servers
// down.
func (a *App) Handle(context.Context, caddy.Event) error {
	if caddy.Exiting() { // every reload also sends the event, and ends no stream
		a.drain(process)
	}
	return nil
}

// drain ends the streams of p. Runs of hermes_resume that pass through hermes get the time to end as
// other streams do, so that their logs have what hermes writes.
func (a *App) drain(p *Process) {
	limit, servers := a.limits()
	if servers > 0 {
		a.closes = time.Now().Add(servers)
	}
	timeout := a.DrainTimeout()
	if a.usage != nil && tooShort(limit, timeout) {
		a.logger.Warn("grace_period is too short for drain_timeout; streams end before the grace period does",
			zap.Duration("drain_timeout", timeout), zap.Duration("streams_end_after", limit))
	}
	p.Streams.Shutdown(limit)
	after := a.runsTimeout()
	a.until = time.Now().Add(after + reserve)
	p.Runs.Shutdown(after)
}

// limits returns how long after the event the last stream must have its error finish, and how long
// after it the servers close connections; 0 for no limit. The grace period begins after the delay. A
// tenth of it (at least 250 ms and at most 5 s, but never more than half) is reserved, so that the
// finish is written before the servers close connections.
func (a *App) limits() (streams, servers time.Duration) {
	if a.http == nil || a.http.GracePeriod <= 0 {
		return 0, 0
	}
	grace := time.Duration(a.http.GracePeriod)
	servers = max(time.Duration(a.http.ShutdownDelay), 0) + grace
	return servers - min(max(250*time.Millisecond, grace/10), 5*time.Second, grace/2), servers
}

// tooShort reports whether the limit of the drain is shorter than drain_timeout.
func tooShort(limit, timeout time.Duration) bool { return limit > 0 && limit < timeout }

// runsTimeout returns how long after the event the last run is cancelled: after hermes has
// drained, and before the grace period ends.
func (a *App) runsTimeout() time.Duration {
	timeout := a.DrainTimeout() + reserve
	if streams, servers := a.limits(); servers > 0 {
		timeout = min(timeout, (streams+servers)/2)
	}
	return timeout
}

// wait waits until no stream is open, or until the time, and for what the server has still to write then.
// Caddy's servers have waited for the others: those that are open are of a server of an earlier
// configuration, whose grace period was over before the process was to end.
func (p *Process) wait(until time.Time) {
	if p.Streams.Open() == 0 {
		return
	}
	for p.Streams.Open() > 0 && time.Now().Before(until) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(min(lastWrite, time.Until(until)))
}

// exitPoll is how often watchExit looks. Nothing else tells it: Caddy calls only modules of the
// configuration that runs, and cancels the context of that after the servers have waited for the
// streams.
const exitPoll = 100 * time.Millisecond

// watchExit ends the open streams when the process ends, as long as no App does: the
// configuration has been replaced by one without hermes. It returns when there is one with hermes again,
// when no stream is open any more, and after the drain has begun.
func (p *Process) watchExit(exiting func() bool, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for p.Configurations.Load() == 0 && p.Streams.Open() > 0 {
		if exiting() {
			p.Streams.Shutdown(0)
			return
		}
		<-t.C
	}
}
