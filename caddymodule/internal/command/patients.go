package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/doctor"
)

// A patient is an agent that hermes-doctor examines.
type patient struct {
	target  doctor.Target
	namedBy string
	through *doctor.Through // the sidecar in front of it, nil if none is known
	set     map[string]bool // the options of hermes that are configured
}

// headerValue returns a key without the white space around it, and whether a header can
// carry it.
func headerValue(key string) (string, bool) {
	key = strings.TrimSpace(key)
	return key, !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// patients returns the agents that the flags, a configuration or the environment name.
func (c *doctorCommand) patients(env func(string) string) ([]patient, error) {
	through, err := c.sidecar()
	if err != nil {
		return nil, err
	}
	if c.to != "" {
		return named([]string{c.to}, "--to", through)
	}
	sites, file, err := c.sites()
	if err != nil {
		return nil, err
	}
	var all []patient
	for _, s := range sites {
		of, err := named(s.upstreams, file, s.through())
		if err != nil {
			return nil, err
		}
		for _, p := range of {
			if p.set = s.set; through != nil {
				p.through = through
			}
			if !slices.ContainsFunc(all, func(o patient) bool { return o.target.String() == p.target.String() }) {
				all = append(all, p)
			}
		}
	}
	switch upstreams := strings.Fields(env(upstreamVariable)); {
	case len(all) > 0:
		return all, nil
	case len(upstreams) > 0:
		return named(upstreams, upstreamVariable, through)
	}
	return named([]string{proxyTo}, "the default", through)
}

// sidecar returns what --through says, nil for nothing.
func (c *doctorCommand) sidecar() (*doctor.Through, error) {
	if c.through == "" {
		return nil, nil
	}
	t, err := doctor.ParseTarget(c.through)
	if err != nil {
		return nil, fmt.Errorf("--through: %w", err)
	}
	return &doctor.Through{Target: t}, nil
}

// named returns the agents at addresses, which namedBy has given.
func named(addresses []string, namedBy string, through *doctor.Through) (all []patient, err error) {
	for _, a := range addresses {
		t, err := doctor.ParseTarget(a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", namedBy, err)
		}
		all = append(all, patient{target: t, namedBy: namedBy, through: through})
	}
	return all, nil
}

// sites returns the sites of the configuration that have a hermes, and its file. Without
// --config it is the Caddyfile here, if there is one; that may have none.
func (c *doctorCommand) sites() (all []hermesSite, file string, err error) {
	given := c.config != ""
	if !given {
		if _, err := os.Stat("Caddyfile"); errors.Is(err, fs.ErrNotExist) && c.adapter == "" {
			return nil, "", nil
		}
	}
	config, file, _, err := caddycmd.LoadConfig(c.config, c.adapter)
	if err != nil {
		return nil, "", fmt.Errorf("reading the configuration: %w", err)
	}
	if all, err = hermesSites(config); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	if given && len(all) == 0 {
		return nil, "", fmt.Errorf("%s: no site has hermes_proxy, or hermes and a reverse_proxy with addresses: use --to", file)
	}
	return all, file, nil
}

// A hermesSite is a reverse_proxy behind hermes in a configuration.
type hermesSite struct {
	listen    []string // of its server
	tls       bool     // its server may speak TLS
	upstreams []string
	set       map[string]bool // the options of hermes
}

// through returns the sidecar that the site is, as this machine reaches it, nil if that is
// not known.
func (s hermesSite) through() *doctor.Through {
	if len(s.listen) == 0 || s.tls {
		return nil // which name it answers to is not known
	}
	a, err := caddy.ParseNetworkAddress(s.listen[0])
	if err != nil || a.IsUnixNetwork() || a.PortRangeSize() != 1 {
		return nil
	}
	host := a.Host
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	t, err := doctor.ParseTarget(net.JoinHostPort(host, fmt.Sprint(a.StartPort)))
	if err != nil {
		return nil
	}
	return &doctor.Through{Target: t, Configured: true}
}

// hermesSites returns the sites with a hermes in a configuration, which is JSON.
func hermesSites(config []byte) (all []hermesSite, err error) {
	var is struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					Listen    []string          `json:"listen"`
					Routes    []json.RawMessage `json:"routes"`
					Policies  []json.RawMessage `json:"tls_connection_policies"`
					AutoHTTPS struct {
						Disabled bool `json:"disable"`
					} `json:"automatic_https"`
				} `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &is); err != nil {
		return nil, fmt.Errorf("the configuration is not Caddy's: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(is.Apps.HTTP.Servers)) {
		server := is.Apps.HTTP.Servers[name]
		w := walk{site: hermesSite{listen: server.Listen}}
		for _, route := range server.Routes {
			// Automatic HTTPS is for sites with a name.
			w.site.tls = len(server.Policies) > 0 || !server.AutoHTTPS.Disabled && bytes.Contains(route, []byte(`"host"`))
			w.route(route, nil)
		}
		all = append(all, w.found...)
	}
	return all, nil
}

// A walk goes through the routes of a server.
type walk struct {
	site  hermesSite
	found []hermesSite
}

// route goes through a route below the handler hermes, nil for none. It returns the one
// that stands in front of the routes behind.
func (w *walk) route(route json.RawMessage, hermes map[string]any) map[string]any {
	var is struct {
		Handle []json.RawMessage `json:"handle"`
	}
	json.Unmarshal(route, &is)
	for _, handler := range is.Handle {
		var h struct {
			Handler   string            `json:"handler"`
			Routes    []json.RawMessage `json:"routes"`
			Upstreams []struct {
				Dial string `json:"dial"`
			} `json:"upstreams"`
			Transport struct {
				TLS json.RawMessage `json:"tls"`
			} `json:"transport"`
		}
		json.Unmarshal(handler, &h)
		switch h.Handler {
		case "hermes":
			hermes = map[string]any{}
			json.Unmarshal(handler, &hermes)
		case "subroute":
			within := hermes
			for _, r := range h.Routes {
				within = w.route(r, within)
			}
		case "reverse_proxy":
			if hermes == nil {
				continue
			}
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
	}
	return hermes
}
