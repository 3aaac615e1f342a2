package caddymodule

import (
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// An emitter is what events are emitted by: the events app of a configuration
// and the context of a hermes handler in it, which is their origin.
type emitter struct {
	app *caddyevents.App
	ctx caddy.Context
}

// emitters are those of the configurations that are loaded.
type emitters struct {
	mu  sync.Mutex
	all map[*caddyevents.App]emitter
}

func (e *emitters) add(one emitter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = make(map[*caddyevents.App]emitter)
	}
	e.all[one.app] = one
}

func (e *emitters) remove(app *caddyevents.App) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, app)
}

// active returns the emitter of the configuration that runs. One that is still
// being loaded must not be used: its subscriptions are written to.
func (e *emitters) active() (emitter, bool) {
	ctx := caddy.ActiveContext()
	v, err := ctx.AppIfConfigured("events")
	if err != nil {
		return emitter{}, false
	}
	app, ok := v.(*caddyevents.App)
	if !ok {
		return emitter{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	one, ok := e.all[app]
	return one, ok
}

// runs reports whether the handler's configuration is the one that runs: a new one
// is from when it has started for good.
func (h *Handler) runs() bool {
	app, err := caddy.ActiveContext().AppIfConfigured("events")
	return err == nil && app == h.events
}

// emitter returns by what this handler's events are emitted. The configuration
// of a stream that outlives it listens no more (its events app refuses to call
// handlers, with an error in the log); then it is the one that runs, if that has
// a hermes handler.
func (h *Handler) emitter() (emitter, bool) {
	switch {
	case h.events == nil:
		return emitter{}, false
	case h.ctx.Err() == nil:
		return emitter{h.events, h.ctx}, true
	}
	return h.shared.emitters.active()
}
