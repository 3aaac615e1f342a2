package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

// A subject is an agent that hermes-doctor examines.
type subject struct {
	target  Target
	namedBy string
	through *Through        // the sidecar in front of it, nil if none is known
	set     map[string]bool // the options of hermes that are configured
}

// headerValue returns a key without the white space around it, and whether a header can
// carry it.
func headerValue(key string) (string, bool) {
	key = strings.TrimSpace(key)
	return key, !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// subjects returns the agents that the flags, a configuration or the environment name.
func (c *doctorCommand) subjects(env func(string) string) ([]subject, error) {
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
	var all []subject
	for _, s := range sites {
		of, err := named(s.Upstreams, file, throughOf(s))
		if err != nil {
			return nil, err
		}
		for _, p := range of {
			if p.set = s.Options; through != nil {
				p.through = through
			}
			if !slices.ContainsFunc(all, func(o subject) bool { return o.target.String() == p.target.String() }) {
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
	return named([]string{defaultAddress}, "the default", through)
}

// sidecar returns what --through says, nil for nothing.
func (c *doctorCommand) sidecar() (*Through, error) {
	if c.through == "" {
		return nil, nil
	}
	t, err := ParseTarget(c.through)
	if err != nil {
		return nil, fmt.Errorf("--through: %w", err)
	}
	return &Through{Target: t}, nil
}

// profilePrefix is in the path of an agent that Hermes calls a profile: a place for clients,
// which can be examined but is no upstream.
const profilePrefix = "/p/"

// named returns the agents at addresses, which namedBy has given. An address that would be
// refused as an upstream is an error.
func named(addresses []string, namedBy string, through *Through) (all []subject, err error) {
	for _, a := range addresses {
		if err := site.CheckUpstream(a); err != nil && (namedBy != "--to" || !strings.Contains(a, profilePrefix)) {
			return nil, fmt.Errorf("%s: %w", namedBy, err)
		}
		t, err := ParseTarget(a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", namedBy, err)
		}
		all = append(all, subject{target: t, namedBy: namedBy, through: through})
	}
	return all, nil
}

// sites returns the sites of the configuration that have a hermes, and its file. Without
// --config it is the Caddyfile here, if there is one; that may have none.
func (c *doctorCommand) sites() (all []site.Site, file string, err error) {
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

// throughOf returns the sidecar that the site is, as clients of this machine reach it, nil
// if that is not known.
func throughOf(s site.Site) *Through {
	a, err := caddy.ParseNetworkAddress(s.Listen)
	if err != nil || s.Listen == "" || a.IsUnixNetwork() || a.PortRangeSize() != 1 || s.Scheme == "https" && s.Host == "" {
		return nil
	}
	host := cmp.Or(s.Host, a.Host)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	t, err := ParseTarget(s.Scheme + "://" + net.JoinHostPort(host, fmt.Sprint(a.StartPort)))
	if err != nil {
		return nil // a placeholder or a wildcard
	}
	return &Through{Target: t, Configured: true}
}

// hermesSites returns the sites with a hermes in a configuration, which is JSON.
func hermesSites(config []byte) ([]site.Site, error) {
	var is struct {
		Apps struct {
			HTTP json.RawMessage `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &is); err != nil {
		return nil, fmt.Errorf("the configuration is not Caddy's: %w", err)
	}
	if is.Apps.HTTP == nil {
		return nil, nil
	}
	all, _, err := site.Sites(is.Apps.HTTP)
	return all, err
}
