package site

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
)

// A Site is a reverse_proxy behind hermes in a configuration.
type Site struct {
	Listen    string // of its server, "" if that is not known
	Host      string // that it answers to, "" for any
	Scheme    string // http or https
	Upstreams []string
	Options   map[string]bool // of hermes that are set
}

// Sites returns the sites with a hermes in app, the http app of a configuration as JSON. An
// upstream that CheckUpstream refuses is an error. twice says that some requests go
// through hermes twice.
func Sites(app []byte) (all []Site, twice bool, err error) {
	var is struct {
		Servers map[string]caddyServer `json:"servers"`
	}
	if err := json.Unmarshal(app, &is); err != nil {
		return nil, false, fmt.Errorf("the configuration is not Caddy's: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(is.Servers)) {
		server := is.Servers[name]
		var before front
		for _, route := range server.Routes {
			w := walk{site: server.site(route)}
			before = w.route(route, before)
			if w.err != nil {
				return nil, false, w.err
			}
			all, twice = append(all, w.found...), twice || w.twice
		}
	}
	return all, twice, nil
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
func (s caddyServer) site(route json.RawMessage) (site Site) {
	var is struct {
		Match []struct {
			Host []string `json:"host"`
		} `json:"match"`
	}
	json.Unmarshal(route, &is)
	if len(is.Match) > 0 && len(is.Match[0].Host) > 0 {
		site.Host = is.Match[0].Host[0]
	}
	if len(s.Listen) > 0 {
		site.Listen = s.Listen[0]
	}
	site.Scheme = "http"
	// Automatic HTTPS is for sites with a name.
	if len(s.Policies) > 0 || site.Host != "" && !s.AutoHTTPS.Disabled && !slices.Contains(s.AutoHTTPS.Skip, site.Host) {
		site.Scheme = "https"
	}
	return site
}

// A walk goes through a route of a server, and those within it.
type walk struct {
	site  Site // without upstreams
	found []Site
	twice bool
	err   error // of the first upstream that is not allowed
}

// A front is the hermes that stands in front of a handler.
type front struct {
	options map[string]any // nil for none
	always  bool           // every request that comes to the handler has gone through it
}

// A caddyHandler is what counts of a handler in a configuration.
type caddyHandler struct {
	Handler   string            `json:"handler"`
	Routes    []json.RawMessage `json:"routes"` // of a subroute
	Upstreams []struct {
		Dial string `json:"dial"`
	} `json:"upstreams"`
	Transport struct {
		Protocol string          `json:"protocol"`
		TLS      json.RawMessage `json:"tls"`
	} `json:"transport"`
}

// route goes through a route behind a hermes. It returns the one that stands in front of
// what follows the route.
func (w *walk) route(route json.RawMessage, before front) front {
	var is struct {
		Group  string            `json:"group"`
		Match  []json.RawMessage `json:"match"`
		Handle []json.RawMessage `json:"handle"`
	}
	json.Unmarshal(route, &is) // what has another form is none of ours
	hermes := before
	for _, raw := range is.Handle {
		var h caddyHandler
		json.Unmarshal(raw, &h)
		switch {
		case h.Handler == "hermes":
			w.twice = w.twice || hermes.always
			hermes = front{map[string]any{}, true}
			json.Unmarshal(raw, &hermes.options)
		case h.Handler == "subroute":
			within := hermes
			for _, r := range h.Routes {
				within = w.route(r, within)
			}
		case h.Handler == "reverse_proxy" && hermes.options != nil:
			w.proxy(h, hermes.options)
		}
	}
	if is.Group != "" || len(is.Match) > 0 { // not for every request
		hermes.always = before.always
	}
	return hermes
}

// proxy adds a reverse_proxy behind hermes, if it has addresses.
func (w *walk) proxy(h caddyHandler, hermes map[string]any) {
	site := w.site
	site.Options = make(map[string]bool)
	for name := range hermes {
		site.Options[name] = true
	}
	for _, u := range h.Upstreams {
		dial := caddy.NewReplacer().ReplaceKnown(u.Dial, "")
		// The transport of a plugin may know other addresses.
		if p := h.Transport.Protocol; w.err == nil && (p == "" || p == "http") {
			w.err = checkDial(dial)
		}
		if h.Transport.TLS != nil {
			dial = "https://" + dial
		}
		site.Upstreams = append(site.Upstreams, dial)
	}
	if len(site.Upstreams) > 0 {
		w.found = append(w.found, site)
	}
}
