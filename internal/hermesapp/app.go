// Package hermesapp is the Caddy app hermes: what belongs to a configuration, and not to one of its
// handlers. It also has what the handlers of several packages share for as long as the process runs.
package hermesapp

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/httpapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App has what the handlers of a configuration tell each other. It has no options, and need not be
// configured: it is there when a handler asks for it.
type App struct {
	checked bool // the sites of the configuration; Caddy provisions its handlers one after the other

	maxRequest   atomic.Int64
	drainTimeout atomic.Int64 // 1 more than the nanoseconds, 0 if no hermes has said it
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "hermes",
		New: func() caddy.Module { return new(App) },
	}
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
	return app.(*App), nil
}

// CheckSites checks all sites of the configuration, because no handler sees them all (site.Check).
// It does so for the first handler, which is early enough for a mistake to be an error when a
// configuration is validated.
func (a *App) CheckSites(ctx caddy.Context, logger *zap.Logger) error {
	app := httpapp.Of(ctx)
	if app == nil || a.checked {
		return nil
	}
	a.checked = true
	warnings, err := site.Check(app)
	for _, w := range warnings {
		logger.Warn(w)
	}
	return err
}

// AddHermes records max_request and drain_timeout of a hermes handler.
func (a *App) AddHermes(maxRequest int64, drainTimeout time.Duration) {
	a.maxRequest.Store(max(a.maxRequest.Load(), maxRequest))
	a.drainTimeout.Store(max(a.drainTimeout.Load(), int64(drainTimeout)+1))
}

// MaxRequest returns the largest max_request of the hermes handlers, the default if there are none.
func (a *App) MaxRequest() int64 { return cmp.Or(a.maxRequest.Load(), proxy.DefaultMaxRequest) }

// DrainTimeout returns the longest drain_timeout of the hermes handlers, the default if there are
// none.
func (a *App) DrainTimeout() time.Duration {
	if d := a.drainTimeout.Load(); d > 0 {
		return time.Duration(d - 1)
	}
	return proxy.DefaultOptions().DrainTimeout
}
