// Package queuecaddy is the Caddy module http.handlers.hermes_queue and its directive: package
// queue as a handler of Caddy, its metrics and its lines in logs.
//
// The handler itself does not wait. It adds a pass to each request, and the handler hermes after it
// waits: hermes owns the client's stream, in which it tells the client its position.
package queuecaddy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/internal/configjson"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

func init() {
	caddy.RegisterModule(new(QueueHandler))
}

// QueueHandler queues requests that Hermes would reject, and serves clients fairly: Hermes admits
// ten runs at once and answers the eleventh with 429, and a client with many requests must not
// hold up the others.
//
// Put it in front of `hermes`, which tells clients that wait for a stream their position, and after
// `hermes_resume`. In a Caddyfile:
//
//	:8643 {
//		bind 127.0.0.1
//		hermes_queue
//		hermes
//		reverse_proxy 127.0.0.1:8642
//	}
//
// A run holds its place until it ends. This includes a run of `POST /v1/runs`, which is answered as
// soon as the run begins. A client that disconnects while it waits loses its position at once. If
// too many requests wait, or one waits too long, the client gets 429 with `Retry-After`. If Hermes
// itself answers 429, the request waits again.
//
// All sites of the process that use one backend share its places. A reload ends no run, and the
// newest limits apply. If `reverse_proxy` has several upstreams, or chooses them per request, they
// share the places. Other processes have places of their own: give each a share.
//
// Access logs get the field `hermes_waited`, in seconds, for requests that have waited. Metrics are
// exposed as `caddy_hermes_queue_*`. The admin endpoint `/hermes/streams` and the handler
// `hermes_streams` list the requests that wait.
//
// ### Placeholders
//
// Placeholder | Description
// ------------|-------------
// `{http.hermes.waited}` | As `hermes_waited` in access logs: how long the request has waited, in seconds
type QueueHandler struct {
	// The number of runs that are under way at once, 1 or more. Hermes admits ten, including those
	// that do not go through the sidecar, and counts a run for some seconds after its client has
	// disconnected. Default: 8.
	Runs int `json:"runs,omitempty"`

	// How long a request may wait. With 0, no request waits. Default: 2m.
	Wait *caddy.Duration `json:"wait,omitempty"`

	// The number of requests that may wait at once. With 0, no request waits. Default: 100.
	Waiting *int `json:"waiting,omitempty"`

	// A text with placeholders that identifies the client, such as `{http.auth.user.id}`. By
	// default, or if all placeholders are empty, the credentials identify it: the header fields
	// `Authorization`, `Cookie`, `X-Api-Key` and `Api-Key`, and the certificate. Without
	// credentials, its address does. Default: none.
	By string `json:"by,omitempty"`

	lines   *queue.Lines // of the process
	options queue.Options
	backend func() string // returns the key of the line, once all handlers are provisioned
	end     func()        // ends what the configuration has set, nil before it has started
	logger  *zap.Logger
	refused *bounded.Rate // of log messages about refused requests
}

// CaddyModule returns the Caddy module information.
func (*QueueHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.hermes_queue",
		New: func() caddy.Module { return new(QueueHandler) },
	}
}

// UnmarshalJSON decodes the options strictly. Its errors say what to write for a value of another
// type.
func (h *QueueHandler) UnmarshalJSON(b []byte) error {
	type fields QueueHandler
	return configjson.Unmarshal(b, (*fields)(h))
}

// Defaults.
const (
	defaultRuns    = 8
	defaultWait    = 2 * time.Minute
	defaultWaiting = 100
)

// setDefaults sets the options of the line from the configuration and the defaults.
func (h *QueueHandler) setDefaults() {
	h.options = queue.Options{
		Runs:    cmp.Or(h.Runs, defaultRuns),
		Wait:    time.Duration(*cmp.Or(h.Wait, new(caddy.Duration(defaultWait)))),
		Waiting: *cmp.Or(h.Waiting, new(defaultWaiting)),
	}
}

// Provision sets the defaults, and looks for the line when the configuration has started.
func (h *QueueHandler) Provision(ctx caddy.Context) error {
	h.lines, h.logger, h.refused = hermesapp.OfProcess().Lines, ctx.Logger(), new(bounded.Rate)
	h.setDefaults()
	hermesapp.Register(ctx, collector{h.lines})
	app := cmp.Or(hermesapp.HTTP(ctx), new(caddyhttp.App))
	find := sync.OnceValues(func() (string, bool) { return backendOf(app, h) })
	h.backend = func() string {
		key, _ := find()
		return key
	}
	return hermesapp.On(ctx, "started", started(func() {
		key, waits := find()
		if !waits {
			h.logger.Warn("there is no hermes after hermes_queue, so no request waits; add one after it")
		}
		// Requests that have waited since before a reload get the new places at once, and those that came
		// before it, and join the line later, bring no old limit.
		h.end = h.lines.Configure(key, h.options)
	}))
}

// Cleanup ends the limit of the line, unless a newer configuration has set it.
func (h *QueueHandler) Cleanup() error {
	if h.end != nil {
		h.end()
	}
	return nil
}

// started is the function to call when a configuration has started.
type started func()

// Handle implements caddyevents.Handler.
func (s started) Handle(_ context.Context, _ caddy.Event) error {
	s()
	return nil
}

// Validate reports an option whose value is not allowed.
func (h *QueueHandler) Validate() error {
	switch d := h.options.Wait; {
	case h.Runs < 0:
		return fmt.Errorf("invalid runs %d: must be 1 or more", h.Runs)
	case d < 0:
		return fmt.Errorf("invalid wait %q: must be a duration such as 2m or 30s, and not negative", d)
	case d > 0 && d < time.Millisecond:
		return fmt.Errorf("invalid wait %q: must be at least 1ms; a number in JSON is nanoseconds, so write a string such as \"2m\"", d)
	case h.options.Waiting < 0:
		return fmt.Errorf("invalid waiting %d: must be a number of 0 or more", h.options.Waiting)
	}
	if h.By != "" && !placeholder.IsIn(h.By) {
		return fmt.Errorf("invalid by %q: must contain a placeholder that distinguishes clients, such as {http.auth.user.id}", h.By)
	}
	return nil
}

// ServeHTTP gives the request a pass, and calls next.
func (h *QueueHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.Method != http.MethodPost { // it begins no run
		return next.ServeHTTP(w, r)
	}
	p := &pass{handler: h, client: h.clientOf(r)}
	*r = *r.WithContext(context.WithValue(r.Context(), passKey{}, p)) // in place: handlers in front may refer to r
	defer p.seen(r)                                                   // also when the client left, which ends in a panic
	return next.ServeHTTP(w, r)
}

// Interfaces that Caddy looks for.
var (
	_ caddy.Provisioner           = (*QueueHandler)(nil)
	_ caddy.Validator             = (*QueueHandler)(nil)
	_ caddy.CleanerUpper          = (*QueueHandler)(nil)
	_ caddyhttp.MiddlewareHandler = (*QueueHandler)(nil)
	_ caddyfile.Unmarshaler       = (*QueueHandler)(nil)
)
