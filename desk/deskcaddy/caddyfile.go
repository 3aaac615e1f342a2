package deskcaddy

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

func init() {
	httpcaddyfile.RegisterDirective("hermes_approvals", parseCaddyfile)
	// It answers users, so it stands beside hermes_streams, behind the directives that
	// authenticate them.
	httpcaddyfile.RegisterDirectiveOrder("hermes_approvals", httpcaddyfile.Before, "metrics")
}

// parseCaddyfile sets up a route from the hermes_approvals directive.
func parseCaddyfile(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // the directive's name
	if h.NextArg() && strings.HasPrefix(h.Val(), "/") {
		// The path of the page. As a matcher it would match no ticket.
		h.Reset()
		m := new(ApprovalsHandler)
		err := m.UnmarshalCaddyfile(h.Dispenser)
		return h.NewRoute(nil, m), err
	}
	h.Reset()
	h.Next()
	matchers, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	m := new(ApprovalsHandler)
	err = m.UnmarshalCaddyfile(h.Dispenser)
	return h.NewRoute(matchers, m), err
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	hermes_approvals [<matcher>] [<path>] {
//	    path <path>
//	    by   <placeholder>
//	    login <url>
//	    allow_always
//	}
//
// A first argument that begins with a slash is the path, not a matcher. Every option is optional,
// and may be given once.
func (h *ApprovalsHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	given := map[string]bool{}
	if d.NextArg() {
		h.Path, given["path"] = d.Val(), true
	}
	if d.NextArg() {
		return d.Errf("unexpected argument %q: hermes_approvals takes a matcher, a path and a block of options", d.Val())
	}
	for d.NextBlock(0) {
		name := d.Val()
		takes, ok := map[string]int{"path": 1, "by": 1, "login": 1, "allow_always": 0}[name]
		if !ok {
			return d.WrapErr(options.Unrecognized(name, []string{"path", "by", "login", "allow_always"}))
		}
		if given[name] {
			return d.Errf("%s already specified: use it only once", name)
		}
		given[name] = true
		args := d.RemainingArgs()
		if len(args) != takes {
			return d.Errf("wrong number of arguments for %s: got %d, must be %d", name, len(args), takes)
		}
		switch name {
		case "path":
			h.Path = args[0]
		case "by":
			h.By = args[0]
		case "login":
			h.Login = args[0]
		case "allow_always":
			h.AllowAlways = true
		}
		if nesting := d.Nesting(); d.NextBlock(nesting) {
			return d.Errf("unexpected block: %s takes none", name)
		}
	}
	return nil
}
