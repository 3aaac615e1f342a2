package telemetry

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// An Emitter emits the events of a handler through the events app of its configuration.
type Emitter struct {
	App *caddyevents.App
	ctx caddy.Context // the handler's, which is the origin of the events
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

// Runs reports whether the configuration of e is the one that runs. A new configuration runs once
// it has started for good.
func (e *Emitter) Runs() bool { return activeApp() == e.App }

// emit emits an event, if a handler listens. A stream may outlive its configuration, whose events
// app then refuses to call handlers, with an error in the log: the event goes to the configuration
// that runs. A nil Emitter emits nothing.
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
