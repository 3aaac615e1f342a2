package queuecaddy

import (
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("hermes_queue", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		m := new(QueueHandler)
		return m, m.UnmarshalCaddyfile(h.Dispenser)
	})
	// After hermes_resume, so that a request that joins a run takes no place. Package caddymodule,
	// which imports this one, puts hermes between hermes_queue and push.
	httpcaddyfile.RegisterDirectiveOrder("hermes_queue", httpcaddyfile.Before, "push")
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	hermes_queue [<matcher>] {
//	    runs    <number>
//	    wait    <duration>
//	    waiting <number>
//	    by      <placeholder>
//	}
//
// Every option is optional, and may be given once.
func (h *QueueHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.Errf("unexpected argument %q: hermes_queue takes a matcher and a block of options, nothing else", d.Val())
	}
	given := map[string]bool{}
	for d.NextBlock(0) {
		name := d.Val()
		takes := map[string]string{"runs": "number", "wait": "duration", "waiting": "number", "by": "placeholder"}[name]
		if takes == "" {
			return d.WrapErr(options.Unrecognized(name, []string{"runs", "wait", "waiting", "by"}))
		}
		if given[name] {
			return d.Errf("%s already specified: use it only once", name)
		}
		given[name] = true
		args := d.RemainingArgs()
		if len(args) != 1 {
			return d.Errf("wrong number of arguments for %s: got %d, must be one: a %s", name, len(args), takes)
		}
		if must := h.set(name, args[0]); must != "" {
			return d.Errf("invalid %s %q: %s", name, args[0], must)
		}
		if nesting := d.Nesting(); d.NextBlock(nesting) {
			return d.Errf("unexpected block: %s takes none", name)
		}
	}
	return nil
}

// set sets the option name. It returns "", or what value must be if it is not allowed.
func (h *QueueHandler) set(name, value string) (must string) {
	n, notNumber := strconv.Atoi(value)
	switch name {
	case "runs":
		if h.Runs = n; notNumber != nil || n < 1 {
			return "must be 1 or more"
		}
	case "wait":
		t, err := caddy.ParseDuration(value)
		if h.Wait = new(caddy.Duration(t)); err != nil || t < 0 {
			return "must be a duration such as 2m or 30s, and not negative"
		}
	case "waiting":
		if h.Waiting = &n; notNumber != nil || n < 0 {
			return "must be a number of 0 or more"
		}
	case "by":
		h.By = value
	}
	return ""
}
