package site

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/tidwall/gjson"
)

// A Site is a reverse_proxy after hermes in a configuration.
type Site struct {
	Listen    string // the address of its server, "" if it is not known
	Host      string // the host that it answers to, "" for any
	Scheme    string // http or https
	Upstreams []string
	Options   map[string]bool // the options of hermes that are set
}

// Sites returns the sites with a hermes in app, the http app of a configuration as JSON. An
// upstream that CheckUpstream refuses is an error. twice says that some requests go
// through hermes twice.
func Sites(app []byte) (all []Site, twice bool, err error) {
	var w walk
	var is struct {
		Servers map[string]json.RawMessage `json:"servers"`
	}
	if err := json.Unmarshal(app, &is); err != nil {
		return nil, false, fmt.Errorf("the configuration is not Caddy's: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(is.Servers)) {
		server := gjson.ParseBytes(is.Servers[name])
		var before front
		for _, route := range server.Get("routes").Array() {
			w.site = siteOf(server, route)
			before = w.route(route, before)
		}
	}
	return w.found, w.twice && w.err == nil, w.err
}

// siteOf returns the Site of a route of the server, without upstreams.
func siteOf(server, route gjson.Result) Site {
	site := Site{Listen: server.Get("listen.0").String(), Host: route.Get("match.0.host.0").String(), Scheme: "http"}
	// Automatic HTTPS is for sites with a name.
	automatic := site.Host != "" && !server.Get("automatic_https.disable").Bool()
	for _, skipped := range server.Get("automatic_https.skip").Array() {
		automatic = automatic && skipped.String() != site.Host
	}
	if automatic || server.Get("tls_connection_policies.0").Exists() {
		site.Scheme = "https"
	}
	return site
}

// A walk goes through the routes of servers, and those within them.
type walk struct {
	site  Site // of the current route, without upstreams
	found []Site
	twice bool
	err   error // of the first upstream that is not allowed
}

// A front is the hermes that stands in front of a handler.
type front struct {
	hermes gjson.Result // does not exist for none
	always bool         // every request that comes to the handler has gone through it
}

// route goes through a route behind the front before. It returns the front of the routes that
// follow.
func (w *walk) route(route gjson.Result, before front) front {
	now := before
	for _, h := range route.Get("handle").Array() {
		switch name := h.Get("handler").String(); {
		case name == "hermes":
			w.twice = w.twice || now.always
			now = front{h, true}
		case name == "subroute":
			within := now
			for _, r := range h.Get("routes").Array() {
				within = w.route(r, within)
			}
		case name == "reverse_proxy" && now.hermes.Exists():
			w.proxy(h, now.hermes)
		}
	}
	if route.Get("group").String() != "" || len(route.Get("match").Array()) > 0 { // not for every request
		now.always = before.always
	}
	return now
}

// proxy adds a reverse_proxy after hermes, if it has addresses.
func (w *walk) proxy(proxy, hermes gjson.Result) {
	site := w.site
	site.Options = make(map[string]bool)
	for name := range hermes.Map() {
		site.Options[name] = true
	}
	for _, u := range proxy.Get("upstreams").Array() {
		dial := caddy.NewReplacer().ReplaceKnown(u.Get("dial").String(), "")
		// The transport of a plugin may know other addresses.
		if p := proxy.Get("transport.protocol").String(); w.err == nil && (p == "" || p == "http") {
			w.err = checkDial(dial)
		}
		if proxy.Get("transport.tls").Exists() {
			dial = "https://" + dial
		}
		site.Upstreams = append(site.Upstreams, dial)
	}
	if len(site.Upstreams) > 0 {
		w.found = append(w.found, site)
	}
}
