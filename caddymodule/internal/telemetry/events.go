package telemetry

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// An Emitter emits the events of a handler by the events app of its configuration.
type Emitter struct {
	App *caddyevents.App
	ctx caddy.Context // the handler's, which is the origin
}

// NewEmitter returns the emitter of a handler with the context.
func NewEmitter(ctx caddy.Context) (*Emitter, error) {
	app, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("getting the events app: %w", err)
	}
	return &Emitter{app.(*caddyevents.App), ctx}, nil
}

// activeApp returns the events app of the configuration that runs, nil for none.
func activeApp() *caddyevents.App {
	v, _ := caddy.ActiveContext().AppIfConfigured("events") // nil with an error
	app, _ := v.(*caddyevents.App)
	return app
}

// Runs reports whether the configuration is the one that runs: a new one is from
// when it has started for good.
func (e *Emitter) Runs() bool { return activeApp() == e.App }

// emit emits an event, if a handler listens. The configuration of a stream that outlives
// it listens no more: its events app refuses to call handlers, with an error in the log.
// Then those of the one that runs do. A nil emitter emits nothing.
func (e *Emitter) emit(name string, data func() map[string]any) {
	if e == nil {
		return
	}
	app, ctx := e.App, e.ctx
	if ctx.Err() != nil {
		app, ctx.Context = activeApp(), caddy.ActiveContext().Context
	}
	if app != nil && app.ShouldEmit(name) {
		app.Emit(ctx, name, data())
	}
}
