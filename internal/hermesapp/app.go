// Package hermesapp is the Caddy app hermes: what belongs to a configuration, and not to one of its
// handlers. It also has what the handlers of several packages share for as long as the process runs.
package hermesapp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
	"github.com/hermes-sidecar/hermes-sidecar/internal/replicas"
	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
	"github.com/hermes-sidecar/hermes-sidecar/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is the life of a configuration: it has what the handlers tell each other, and ends the open
// streams when the process ends. It has no options, and need not be configured: it is there when a
// handler asks for it. All fields are unexported, because Caddy's debug log encodes event handlers as
// JSON.
type App struct {
	http   *caddyhttp.App // that the handlers are in, nil for none
	usage  *usage.Store   // nil without a hermes handler
	logger *zap.Logger    // of the first hermes handler
	until  time.Time      // until which Cleanup waits for runs; zero before the process ends
	closes time.Time      // when the grace period ends; zero before the process ends, and without one

	replicas *replicas.Replicas // nil if there are none

	// Of the hermes handlers, and complete before a server of the configuration starts.
	maxRequest   int64 // the largest, 0 without a handler
	drainTimeout time.Duration
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "hermes",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision subscribes to the end of the process.
func (a *App) Provision(ctx caddy.Context) error {
	return On(ctx, "stopping", a)
}

// On makes h handle the event of the configuration.
func On(ctx caddy.Context, event string, h caddyevents.Handler) error {
	events, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting the events app: %w", err)
	}
	if err := events.(*caddyevents.App).On(event, h); err != nil {
		return fmt.Errorf("subscribing to the event %s: %w", event, err)
	}
	return nil
}

// Register exposes metrics with those of the configuration. A metric that cannot be registered does
// not keep the others out, and is no error: streams are worth more than their metrics.
func Register(ctx caddy.Context, metrics ...prometheus.Collector) {
	if err := register(ctx.GetMetricsRegistry(), metrics); err != nil {
		ctx.Logger().Warn("another module has metrics with the same name; some of the sidecar's are not exposed", zap.Error(err))
	}
}

// register registers metrics, unless another handler of the configuration has.
func register(registry prometheus.Registerer, metrics []prometheus.Collector) error {
	var failed []error
	for _, m := range metrics {
		var again prometheus.AlreadyRegisteredError
		if err := registry.Register(m); err != nil && !errors.As(err, &again) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// HTTP returns the http app that a handler is provisioned in, nil for none.
func HTTP(ctx caddy.Context) *caddyhttp.App {
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			return app
		}
	}
	return nil
}

// Start implements caddy.App.
func (*App) Start() error { return nil }

// Stop implements caddy.App.
func (*App) Stop() error { return nil }

// Of returns the app of the configuration that a handler is provisioned for.
func Of(ctx caddy.Context) (*App, error) {
	app, err := ctx.App("hermes")
	if err != nil {
		return nil, fmt.Errorf("getting the hermes app: %w", err)
	}
	a := app.(*App)
	a.http = cmp.Or(HTTP(ctx), a.http)
	return a, nil
}

// AddHermes adds a hermes handler, which is provisioned with ctx, and returns what its handlers know
// of usage. The first one checks all sites of the configuration, because no handler sees them all
// (site.Check): that is early enough for a mistake to be an error when a configuration is validated.
func (a *App) AddHermes(ctx caddy.Context, o *proxy.Options) (*usage.Store, error) {
	logger := ctx.Logger()
	if a.usage == nil {
		if err := a.begin(ctx, logger); err != nil {
			return nil, err
		}
	}
	a.addLimits(o.MaxRequest, o.DrainTimeout)
	if limit, _ := a.limits(); tooShort(limit, o.DrainTimeout) { // at the end of the process it is too late to change
		logger.Warn("grace_period is too short for drain_timeout; raise grace_period in the global options, or lower drain_timeout",
			zap.Duration("drain_timeout", o.DrainTimeout), zap.Duration("grace_period", time.Duration(a.http.GracePeriod)), zap.Duration("streams_end_after", limit))
	}
	return a.usage, nil
}

// AddReplicas adds what the approvals of a hermes handler name. There is one site of replicas in a
// configuration, because a page does not know of which handler a link is.
func (a *App) AddReplicas(r *replicas.Replicas) error {
	if a.replicas != nil && !a.replicas.Equal(r) {
		return errors.New("approvals replicas differs between hermes handlers: use the same URLs and the same secret in each")
	}
	a.replicas = cmp.Or(a.replicas, r)
	return nil
}

// Replicas returns the replicas of the site, nil for none. It is called when the configuration is
// complete.
func (a *App) Replicas() *replicas.Replicas { return a.replicas }

// begin counts a configuration that has a hermes handler, and checks its sites.
func (a *App) begin(ctx caddy.Context, logger *zap.Logger) error {
	a.usage, a.logger = &usage.Store{Memory: process.Usage, Storage: ctx.Storage(), Logger: logger}, logger
	if process.Configurations.Add(1) == 1 {
		b := build.This()
		logger.Info("hermes sidecar", zap.String("version", b.Version), zap.String("commit", b.Commit),
			zap.String("go", b.Go), zap.String("caddy", b.Caddy))
	}
	if a.http == nil {
		return nil
	}
	warnings, err := site.Check(a.http)
	for _, w := range warnings {
		logger.Warn(w)
	}
	return err
}

// Cleanup removes the configuration from the count. Its streams go on: nothing they use is closed
// here. When the process ends, it waits for streams without a client, as the servers have waited for
// streams with one, but not for the events of runs that no client reads; and for those that no server has
// waited for (Process.wait). Only the last configuration that has a hermes handler waits, for at most
// usage.FlushLimit, until reported usage has been written.
func (a *App) Cleanup() error {
	process.wait(a.closes)
	if !a.until.IsZero() {
		ctx, cancel := context.WithDeadline(context.Background(), a.until)
		defer cancel()
		process.Runs.Wait(ctx)
	}
	if a.usage == nil {
		return nil
	}
	if process.Configurations.Add(-1) == 0 {
		a.usage.Flush(usage.FlushLimit)
	}
	if !caddy.Exiting() {
		go process.watchExit(caddy.Exiting, exitPoll)
	}
	return nil
}

// addLimits records max_request and drain_timeout of a hermes handler.
func (a *App) addLimits(maxRequest int64, drainTimeout time.Duration) {
	a.maxRequest, a.drainTimeout = max(a.maxRequest, maxRequest), max(a.drainTimeout, drainTimeout)
}

// MaxRequest returns the largest max_request of the hermes handlers, the default if there are none.
func (a *App) MaxRequest() int64 { return cmp.Or(a.maxRequest, proxy.DefaultMaxRequest) }

// DrainTimeout returns the longest drain_timeout of the hermes handlers, the default if there are
// none.
func (a *App) DrainTimeout() time.Duration {
	if a.maxRequest == 0 {
		return proxy.DefaultOptions().DrainTimeout
	}
	return a.drainTimeout
}
