package telemetry

import (
	"fmt"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// An Emitter emits the events of a handler: by the events app of its configuration,
// with the handler's context as their origin.
type Emitter struct {
	app    *caddyevents.App
	ctx    caddy.Context
	loaded *Emitters
}

// Emitters are the emitters of the configurations that are loaded, one for each. The
// zero value has none.
type Emitters struct {
	all sync.Map // *Emitter by its *caddyevents.App
}

// Add returns the emitter of a handler with the context. Until Remove it also serves
// handlers whose configuration does not run any more.
func (e *Emitters) Add(ctx caddy.Context) (*Emitter, error) {
	app, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("getting the events app: %w", err)
	}
	one := &Emitter{app.(*caddyevents.App), ctx, e}
	e.all.Store(one.app, one)
	return one, nil
}

// Remove takes back Add. A nil emitter, which Add has not returned, is none.
func (e *Emitters) Remove(one *Emitter) {
	if one != nil {
		e.all.Delete(one.app)
	}
}

// activeApp returns the events app of the configuration that runs, nil for none.
func activeApp() *caddyevents.App {
	v, err := caddy.ActiveContext().AppIfConfigured("events")
	if err != nil {
		return nil
	}
	app, _ := v.(*caddyevents.App)
	return app
}

// On has h handle an event of the configuration.
func (e *Emitter) On(name string, h caddyevents.Handler) error {
	if err := e.app.On(name, h); err != nil {
		return fmt.Errorf("subscribing to the event %s: %w", name, err)
	}
	return nil
}

// Runs reports whether the configuration is the one that runs: a new one is from
// when it has started for good.
func (e *Emitter) Runs() bool { return activeApp() == e.app }

// emit emits an event, if a handler listens. The configuration of a stream that outlives
// it listens no more (its events app refuses to call handlers, with an error in the
// log); then those of the one that runs do, if that has a hermes handler. One that is
// still being loaded must not be used: its subscriptions are written to. A nil emitter
// emits nothing.
func (e *Emitter) emit(name string, data func() map[string]any) {
	if e != nil && e.ctx.Err() != nil {
		running, _ := e.loaded.all.Load(activeApp())
		e, _ = running.(*Emitter)
	}
	if e != nil && e.app.ShouldEmit(name) {
		e.app.Emit(e.ctx, name, data())
	}
}
