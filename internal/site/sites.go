package site

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// A Site is a reverse_proxy after hermes in a configuration.
type Site struct {
	Listen    string // the address of its server, "" if it is not known
	Host      string // the host that it answers to, "" for any
	Scheme    string // http or https
	Upstreams []string
	Options   map[string]bool // the options of hermes that are set
}

// Sites returns the sites with a hermes in app, the http app of a configuration as JSON. What Check
// refuses is an error.
func Sites(app []byte) (all []Site, err error) {
	is := new(caddyhttp.App)
	if err := json.Unmarshal(app, is); err != nil {
		return nil, fmt.Errorf("the configuration is not a Caddy configuration: %w", err)
	}
	l := lookAt(is)
	return l.sites, l.err
}

// siteOf returns the Site of a route of the server, without upstreams.
func siteOf(server *caddyhttp.Server, route *caddyhttp.Route) Site {
	site := Site{Scheme: "http"}
	if len(server.Listen) > 0 {
		site.Listen = server.Listen[0]
	}
	if len(route.MatcherSetsRaw) > 0 {
		var hosts []string
		if _ = json.Unmarshal(route.MatcherSetsRaw[0]["host"], &hosts); len(hosts) > 0 {
			site.Host = hosts[0]
		}
	}
	// Automatic HTTPS is for sites with a name.
	automatic := site.Host != ""
	if a := server.AutoHTTPS; a != nil {
		automatic = automatic && !a.Disabled && !slices.Contains(a.Skip, site.Host)
	}
	if automatic || len(server.TLSConnPolicies) > 0 {
		site.Scheme = "https"
	}
	return site
}

// usesTLS reports whether a proxy connects to its upstreams with TLS.
func usesTLS(proxy *reverseproxy.Handler) bool {
	var transport struct{ TLS json.RawMessage }
	_ = json.Unmarshal(proxy.TransportRaw, &transport)
	return transport.TLS != nil
}
