package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/doctor"
)

// A hermesSite is a reverse_proxy behind hermes in a configuration.
type hermesSite struct {
	listen    string // of its server, "" if that is not known
	host      string // that it answers to, "" for any
	scheme    string // http or https
	upstreams []string
	set       map[string]bool // the options of hermes
}

// through returns the sidecar that the site is, as clients of this machine reach it, nil
// if that is not known.
func (s hermesSite) through() *doctor.Through {
	a, err := caddy.ParseNetworkAddress(s.listen)
	if err != nil || s.listen == "" || a.IsUnixNetwork() || a.PortRangeSize() != 1 || s.scheme == "https" && s.host == "" {
		return nil
	}
	host := cmp.Or(s.host, a.Host)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	t, err := doctor.ParseTarget(s.scheme + "://" + net.JoinHostPort(host, fmt.Sprint(a.StartPort)))
	if err != nil {
		return nil // a placeholder or a wildcard
	}
	return &doctor.Through{Target: t, Configured: true}
}

// A caddyServer is what counts of a server in a configuration.
type caddyServer struct {
	Listen    []string          `json:"listen"`
	Routes    []json.RawMessage `json:"routes"`
	Policies  []json.RawMessage `json:"tls_connection_policies"`
	AutoHTTPS struct {
		Disabled bool     `json:"disable"`
		Skip     []string `json:"skip"`
	} `json:"automatic_https"`
}

// site returns the site that a route of the server is.
func (s caddyServer) site(route json.RawMessage) (site hermesSite) {
	var is struct {
		Match []struct {
			Host []string `json:"host"`
		} `json:"match"`
	}
	json.Unmarshal(route, &is)
	if len(is.Match) > 0 && len(is.Match[0].Host) > 0 {
		site.host = is.Match[0].Host[0]
	}
	if len(s.Listen) > 0 {
		site.listen = s.Listen[0]
	}
	site.scheme = "http"
	// Automatic HTTPS is for sites with a name.
	if len(s.Policies) > 0 || site.host != "" && !s.AutoHTTPS.Disabled && !slices.Contains(s.AutoHTTPS.Skip, site.host) {
		site.scheme = "https"
	}
	return site
}

// hermesSites returns the sites with a hermes in a configuration, which is JSON.
func hermesSites(config []byte) (all []hermesSite, err error) {
	var is struct {
		Apps struct {
			HTTP struct {
				Servers map[string]caddyServer `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &is); err != nil {
		return nil, fmt.Errorf("the configuration is not Caddy's: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(is.Apps.HTTP.Servers)) {
		server := is.Apps.HTTP.Servers[name]
		var hermes map[string]any
		for _, route := range server.Routes {
			w := walk{site: server.site(route)}
			hermes = w.route(route, hermes)
			all = append(all, w.found...)
		}
	}
	return all, nil
}

// A walk goes through a route of a server, and those within it.
type walk struct {
	site  hermesSite // without upstreams
	found []hermesSite
}

// A caddyHandler is what counts of a handler in a configuration.
type caddyHandler struct {
	Handler   string            `json:"handler"`
	Routes    []json.RawMessage `json:"routes"` // of a subroute
	Upstreams []struct {
		Dial string `json:"dial"`
	} `json:"upstreams"`
	Transport struct {
		TLS json.RawMessage `json:"tls"`
	} `json:"transport"`
}

// route goes through a route behind the handler hermes, nil for none. It returns the one
// that stands in front of what follows the route.
func (w *walk) route(route json.RawMessage, hermes map[string]any) map[string]any {
	var is struct {
		Handle []json.RawMessage `json:"handle"`
	}
	json.Unmarshal(route, &is) // what has another form is none of ours
	for _, raw := range is.Handle {
		var h caddyHandler
		json.Unmarshal(raw, &h)
		switch {
		case h.Handler == "hermes":
			hermes = map[string]any{}
			json.Unmarshal(raw, &hermes)
		case h.Handler == "subroute":
			within := hermes
			for _, r := range h.Routes {
				within = w.route(r, within)
			}
		case h.Handler == "reverse_proxy" && hermes != nil:
			w.proxy(h, hermes)
		}
	}
	return hermes
}

// proxy adds a reverse_proxy behind hermes, if it has addresses.
func (w *walk) proxy(h caddyHandler, hermes map[string]any) {
	site := w.site
	site.set = make(map[string]bool)
	for name := range hermes {
		site.set[name] = true
	}
	for _, u := range h.Upstreams {
		dial := caddy.NewReplacer().ReplaceKnown(u.Dial, "")
		if h.Transport.TLS != nil {
			dial = "https://" + dial
		}
		site.upstreams = append(site.upstreams, dial)
	}
	if len(site.upstreams) > 0 {
		w.found = append(w.found, site)
	}
}
