package resumecaddy

import (
	"cmp"
	"strconv"

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
//	    always
//	    max_stream   <size>
//	    max_memory   <size>
//	    max_detached <number>
//	    storage      <module> ...
//	}
//
// Every option may be left out, and given once.
func (h *ResumeHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.Errf("unexpected argument %q: hermes_resume takes a matcher and a block of options, nothing else", d.Val())
	}
	seen := make(map[string]bool)
	for d.NextBlock(0) {
		name := d.Val()
		if seen[name] {
			return d.Errf("%s already specified: give it once", name)
		}
		seen[name] = true
		if name == "storage" {
			if err := h.setStorage(d); err != nil {
				return err
			}
			continue
		}
		if err := h.set(d, name, d.RemainingArgs()); err != nil {
			return err
		}
		if nesting := d.Nesting(); d.NextBlock(nesting) {
			return d.Errf("unexpected block: %s takes none", name)
		}
	}
	return nil
}

// set sets an option from the arguments of its line.
func (h *ResumeHandler) set(d *caddyfile.Dispenser, name string, args []string) error {
	field := map[string]any{
		"detach": &h.Detach, "keep": &h.Keep, "always": &h.Always,
		"max_stream": &h.MaxStream, "max_memory": &h.MaxMemory, "max_detached": &h.MaxDetached,
	}[name]
	if field == nil {
		return d.WrapErr(options.Unrecognized(name, []string{"detach", "keep", "always", "max_stream", "max_memory", "max_detached", "storage"}))
	}
	if always, ok := field.(*bool); ok {
		if *always = true; len(args) > 0 {
			return d.Errf("wrong number of arguments for %s: got %d, must be none", name, len(args))
		}
		return nil
	}
	if len(args) != 1 {
		what := map[string]string{"detach": "duration", "keep": "duration", "max_detached": "number"}[name]
		return d.Errf("wrong number of arguments for %s: got %d, must be one: a %s", name, len(args), cmp.Or(what, "size"))
	}
	switch field := field.(type) {
	case **caddy.Duration:
		t, err := caddy.ParseDuration(args[0])
		if err != nil || t < 0 {
			return d.Errf("invalid %s %q: must be a duration such as 10m or 30s, not negative", name, args[0])
		}
		*field = (*caddy.Duration)(&t)
	case *int64:
		n, err := humanize.ParseBytes(args[0])
		if err != nil || n < minResumeSize || n > maxResumeSize {
			return d.Errf("invalid %s %q: must be a size from 64KiB to 1GiB, such as 4MiB", name, args[0])
		}
		*field = int64(n)
	case *int:
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return d.Errf("invalid %s %q: must be a number from 1 on; for none, set detach 0s", name, args[0])
		}
		*field = n
	}
	return nil
}

// setStorage sets the storage from its line and its block.
func (h *ResumeHandler) setStorage(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Err("wrong number of arguments for storage: got 0, must be the name of a module, such as redis")
	}
	name := d.Val()
	id := storages + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		return d.Errf("unknown storage %q: Caddy is built without the module %s", name, id)
	}
	storage, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return err
	}
	h.StorageRaw = caddyconfig.JSONModuleObject(storage, "module", name, nil)
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*ResumeHandler)(nil)
