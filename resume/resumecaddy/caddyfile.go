package resumecaddy

import (
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("hermes_resume", parseCaddyfile)
	// Between encode and hermes: streams are kept as all clients get them, repaired and not
	// compressed.
	httpcaddyfile.RegisterDirectiveOrder("hermes_resume", httpcaddyfile.After, "encode")
}

// parseCaddyfile sets up a ResumeHandler from the hermes_resume directive.
func parseCaddyfile(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	m := new(ResumeHandler)
	err := m.UnmarshalCaddyfile(h.Dispenser)
	return m, err
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	hermes_resume [<matcher>] {
//	    detach       <duration>
//	    keep         <duration>
//	    always       [<api>... <duration>]
//	    key          <placeholder>... [body]
//	    max_stream   <size>
//	    max_memory   <size>
//	    max_detached <number>
//	    storage      <module> ...
//	}
//
// Every option is optional. Each may be given once, and always also once for each API.
func (h *ResumeHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.Errf("unexpected argument %q: hermes_resume takes a matcher and a block of options, nothing else", d.Val())
	}
	values := make(options.Values)
	for d.NextBlock(0) {
		name := d.Val()
		if values[name] != nil && name != "always" {
			return d.Errf("%s already specified: use it only once", name)
		}
		if err := parseOption(d, name, values); err != nil {
			return err
		}
		if nesting := d.Nesting(); name != "storage" && d.NextBlock(nesting) {
			return d.Errf("unexpected block: %s takes none", name)
		}
	}
	return values.Fill(h)
}

// parseOption parses the option name of a line, and adds what it sets to values.
func parseOption(d *caddyfile.Dispenser, name string, values options.Values) (err error) {
	switch name {
	case "always":
		return parseAlways(d, values)
	case "key":
		return parseKey(d, values)
	case "storage":
		values[name], err = parseStorage(d)
	default:
		values[name], err = parseValue(d, name)
	}
	return err
}

// parseValue returns the value of the option name, which takes one argument.
func parseValue(d *caddyfile.Dispenser, name string) (any, error) {
	takes := map[string]string{
		"detach": "duration", "keep": "duration", "max_stream": "size", "max_memory": "size", "max_detached": "number",
	}[name]
	if takes == "" {
		return nil, d.WrapErr(options.Unrecognized(name,
			[]string{"detach", "keep", "always", "key", "max_stream", "max_memory", "max_detached", "storage"}))
	}
	args := d.RemainingArgs()
	if len(args) != 1 {
		return nil, d.Errf("wrong number of arguments for %s: got %d, must be one: a %s", name, len(args), takes)
	}
	var value any
	var err error
	isAllowed, must := false, ""
	switch takes {
	case "duration":
		var t time.Duration
		t, err = caddy.ParseDuration(args[0])
		value, isAllowed, must = t, t >= 0, "must be a duration such as 10m or 30s, and not negative"
	case "size":
		var n uint64
		n, err = humanize.ParseBytes(args[0])
		isAllowed = minResumeSize <= n && n <= maxResumeSize
		value, must = n, "must be a size from 64KiB to 1GiB, such as 4MiB"
	case "number":
		var n int
		n, err = strconv.Atoi(args[0])
		value, isAllowed, must = n, n >= 1, "must be 1 or more; for none, set detach 0s"
	}
	if err != nil || !isAllowed {
		return nil, d.Errf("invalid %s %q: %s", name, args[0], must)
	}
	return value, nil
}

// parseStorage parses the option storage with its block, and returns the module in JSON.
func parseStorage(d *caddyfile.Dispenser) (any, error) {
	if !d.NextArg() {
		return nil, d.Err("wrong number of arguments for storage: got 0, must be the name of a module, such as redis")
	}
	name := d.Val()
	id := storages + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		return nil, d.Errf("unknown storage %q: Caddy is built without the module %s", name, id)
	}
	storage, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return nil, err
	}
	return caddyconfig.JSONModuleObject(storage, "module", name, nil), nil
}
