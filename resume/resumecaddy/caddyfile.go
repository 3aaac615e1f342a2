package resumecaddy

import (
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
		args := d.RemainingArgs()
		if err := h.set(d, name, args); err != nil {
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
	want := map[string]string{
		"detach": "a duration", "keep": "a duration", "always": "",
		"max_stream": "a size", "max_memory": "a size", "max_detached": "a number",
	}
	what, known := want[name]
	switch {
	case !known:
		return d.WrapErr(options.Unrecognized(name, []string{"detach", "keep", "always", "max_stream", "max_memory", "max_detached", "storage"}))
	case what == "" && len(args) > 0:
		return d.Errf("wrong number of arguments for %s: got %d, must be none", name, len(args))
	case what != "" && len(args) != 1:
		return d.Errf("wrong number of arguments for %s: got %d, must be one: %s", name, len(args), what)
	}
	var err error
	switch name {
	case "detach":
		h.Detach, err = parseDuration(d, name, args[0])
	case "keep":
		h.Keep, err = parseDuration(d, name, args[0])
	case "always":
		h.Always = true
	case "max_stream":
		h.MaxStream, err = parseSize(d, name, args[0])
	case "max_memory":
		h.MaxMemory, err = parseSize(d, name, args[0])
	case "max_detached":
		if h.MaxDetached, err = strconv.Atoi(args[0]); err != nil || h.MaxDetached < 1 {
			err = d.Errf("invalid %s %q: must be a number from 1 on; for none, set detach 0s", name, args[0])
		}
	}
	return err
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

// parseDuration returns the duration that a value stands for.
func parseDuration(d *caddyfile.Dispenser, name, value string) (*caddy.Duration, error) {
	t, err := caddy.ParseDuration(value)
	if err != nil || t < 0 {
		return nil, d.Errf("invalid %s %q: must be a duration such as 10m or 30s, not negative", name, value)
	}
	duration := caddy.Duration(t)
	return &duration, nil
}

// parseSize returns the number of bytes that a value stands for.
func parseSize(d *caddyfile.Dispenser, name, value string) (int64, error) {
	n, err := humanize.ParseBytes(value)
	if err != nil || n < minResumeSize || n > maxResumeSize {
		return 0, d.Errf("invalid %s %q: must be a size from 64KiB to 1GiB, such as 4MiB", name, value)
	}
	return int64(n), nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*ResumeHandler)(nil)
