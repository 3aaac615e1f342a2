package caddymodule

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("hermes", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		m := new(Handler)
		return m, m.UnmarshalCaddyfile(h.Dispenser)
	})
	// After encode and hermes_resume, which compress and keep what hermes sends. An order before
	// reverse_proxy would put it after handle blocks, where it never runs.
	httpcaddyfile.RegisterDirectiveOrder("hermes", httpcaddyfile.Before, "push")
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	hermes [<matcher>] {
//	    max_frame          <size>
//	    imitations         auto|strip|keep|trust
//	    reasoning          extract|keep|drop
//	    history            heal|keep
//	    memory             on|results|off
//	    max_request        <size>
//	    parallel_window    <duration>
//	    tool               <emoji> <name>
//	    progress           envelope|bare|unnamed|comment|off
//	    status_line        on|off
//	    cards              on|off
//	    tool_details       full|arguments|off
//	    approvals          link <base URL> [text]
//	    approvals          reply
//	    approvals          by <placeholder>
//	    approvals          replicas <URL…> <secret>
//	    approval_timeout   <duration>
//	    identity           <placeholder> [by header|session|prompt]
//	    done_grace         <duration>
//	    error_finish       split|inline
//	    zero_usage         auto|error|pass
//	    empty_answer       error|pass
//	    first_byte_timeout <duration>|off
//	    idle_timeout       <duration>|off
//	    stall_timeout      <duration>|off
//	    keepalive          <duration>|off
//	    keepalive_form     chunk|comment
//	    drain_timeout      <duration>
//	    announce           on|off
//	    record             <directory>
//	    record_max         <size>
//	}
//
// Every option is optional, and may be given once, except tool, approvals and identity, which may
// be repeated.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.Errf("unexpected argument %q: hermes takes a matcher and a block of options, nothing else", d.Val())
	}
	lines := optionLines{make(options.Values), make(map[string]bool)}
	for d.NextBlock(0) {
		if err := lines.read(d); err != nil {
			return err
		}
	}
	return lines.values.Fill(h)
}

// optionLines reads the options of one block, line by line.
type optionLines struct {
	values options.Values
	seen   map[string]bool // options that have been given
}

// read sets the option of the line at whose first token d stands, and leaves d at the last argument
// of the line.
func (l *optionLines) read(d *caddyfile.Dispenser) error {
	name := d.Val()
	if l.seen[name] && !options.Lookup(name).Repeatable() {
		return d.Errf("%s already specified: use it only once", name)
	}
	l.seen[name] = true
	if err := l.values.Set(name, d.RemainingArgs()); err != nil {
		return d.WrapErr(err)
	}
	if nesting := d.Nesting(); d.NextBlock(nesting) {
		return d.Errf("unexpected block: %s takes none", name)
	}
	return nil
}
