package redis

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// UnmarshalCaddyfile sets up the storage from Caddyfile tokens. Syntax:
//
//	storage redis {
//	    address           <host:port>...|unix/<path>
//	    cluster
//	    master_name       <name>
//	    sentinel_username <name>
//	    sentinel_password <password>
//	    username          <name>
//	    password          <password>
//	    tls               [<ca_file>]
//	    prefix            <prefix>
//	    secret            <secret>
//	    lease             <duration>
//	    timeout           <duration>
//	    on_failure        pass|503
//	}
//
// Each option may be given once; all but secret may be left out.
func (s *Storage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.Errf("unexpected argument %q: storage redis takes a block of options, nothing else", d.Val())
	}
	texts := s.texts()
	delete(texts, "tls_ca") // an argument of tls
	durations := map[string]*caddy.Duration{"lease": &s.Lease, "timeout": &s.Timeout}
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name, args := d.Val(), d.RemainingArgs()
		if seen[name] {
			return d.Errf("%s already specified: use it only once", name)
		}
		seen[name] = true
		text, duration := texts[name], durations[name]
		switch {
		case text == nil && duration == nil && name != "tls" && name != "cluster":
			return d.Errf("unrecognized subdirective %q: must be address, cluster, master_name, sentinel_username, "+
				"sentinel_password, username, password, tls, prefix, secret, lease, timeout or on_failure", name)
		case name == "cluster" && len(args) > 0:
			return d.Errf("wrong number of arguments for cluster: got %d, must be none", len(args))
		case name == "tls" && len(args) > 1:
			return d.Errf("wrong number of arguments for tls: got %d, must be none or the file of the CA certificates",
				len(args))
		case name == "address" && len(args) == 0:
			return d.Err("wrong number of arguments for address: got 0, must be one or more")
		case name != "tls" && name != "cluster" && name != "address" && len(args) != 1:
			return d.Errf("wrong number of arguments for %s: got %d, must be one", name, len(args))
		case name == "cluster":
			s.Cluster = true
		case name == "address":
			s.Address = strings.Join(args, " ")
		case name == "tls":
			s.TLS, s.TLSCA = true, strings.Join(args, "")
		case text != nil:
			*text = args[0]
		default:
			t, err := caddy.ParseDuration(args[0])
			if err != nil || t <= 0 {
				return d.Errf("invalid %s %q: must be a duration such as 15s", name, args[0])
			}
			*duration = caddy.Duration(t)
		}
	}
	return nil
}
