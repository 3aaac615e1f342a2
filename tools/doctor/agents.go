package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

// A subject is an agent that is examined.
type subject struct {
	target
	namedBy    string          // the flag, file or variable that names the target
	sidecar    target          // in front of the agent, zero if none is known
	configured bool            // a configuration names the sidecar, which may not run yet
	set        map[string]bool // the options of hermes that are configured
}

// subjects returns the agents that the flags, a configuration or the environment name.
func (d *doctor) subjects() (all []subject, err error) {
	if d.to != "" {
		return d.named("--to", site.Site{Upstreams: []string{d.to}})
	}
	sites, file, err := d.sites()
	if err != nil {
		return nil, err
	}
	for _, s := range sites {
		of, err := d.named(file, s)
		if err != nil {
			return nil, err
		}
		for _, p := range of {
			if !slices.ContainsFunc(all, func(o subject) bool { return o.String() == p.String() }) {
				all = append(all, p)
			}
		}
	}
	if len(all) > 0 {
		return all, nil
	}
	if upstreams := strings.Fields(d.env(upstreamVariable)); len(upstreams) > 0 {
		return d.named(upstreamVariable, site.Site{Upstreams: upstreams})
	}
	return d.named("the default", site.Site{Upstreams: []string{defaultAddress}})
}

// profilePrefix is in the path of an agent that Hermes calls a profile. Such an agent is for
// clients: it can be examined, but is no upstream.
const profilePrefix = "/p/"

// named returns the agents of the site s. by is the flag, file or variable that names them. An
// address that is refused as an upstream is an error.
func (d *doctor) named(by string, s site.Site) (all []subject, err error) {
	sidecar, configured := sidecarOf(s), true
	if d.through != "" {
		if sidecar, err = parseTarget(d.through); err != nil {
			return nil, fmt.Errorf("--through: %w", err)
		}
		configured = false
	}
	for _, a := range s.Upstreams {
		err := site.CheckUpstream(a)
		if by == "--to" && strings.Contains(a, profilePrefix) {
			err = nil
		}
		t, invalid := parseTarget(a)
		if err := cmp.Or(err, invalid); err != nil {
			return nil, fmt.Errorf("%s: %w", by, err)
		}
		all = append(all, subject{target: t, namedBy: by, sidecar: sidecar, configured: configured, set: s.Options})
	}
	return all, nil
}

// sites returns the sites with a hermes handler in the configuration, and its file. Without
// --config, that is the Caddyfile in the working directory, which need not exist or have such a
// site.
func (d *doctor) sites() (all []site.Site, file string, err error) {
	if d.config == "" && d.adapter == "" {
		if _, err := os.Stat("Caddyfile"); errors.Is(err, fs.ErrNotExist) {
			return nil, "", nil
		}
	}
	config, file, _, err := caddycmd.LoadConfig(d.config, d.adapter)
	if err != nil {
		return nil, "", fmt.Errorf("reading the configuration: %w", err)
	}
	var is struct {
		Apps struct {
			HTTP json.RawMessage `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &is); err != nil {
		return nil, "", fmt.Errorf("%s: the configuration is not a Caddy configuration: %w", file, err)
	}
	if is.Apps.HTTP != nil {
		if all, err = site.Sites(is.Apps.HTTP); err != nil {
			return nil, "", fmt.Errorf("%s: %w", file, err)
		}
	}
	if d.config != "" && len(all) == 0 {
		return nil, "", fmt.Errorf("%s: no site contains hermes_proxy, or hermes and a reverse_proxy with addresses: use --to", file)
	}
	return all, file, nil
}

// sidecarOf returns the address of the site s as clients of this machine reach it, zero if that is
// not known.
func sidecarOf(s site.Site) target {
	a, err := caddy.ParseNetworkAddress(s.Listen)
	if err != nil || s.Listen == "" || a.IsUnixNetwork() || a.PortRangeSize() != 1 || s.Scheme == "https" && s.Host == "" {
		return target{}
	}
	host := cmp.Or(s.Host, a.Host)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	t, err := parseTarget(s.Scheme + "://" + net.JoinHostPort(host, strconv.FormatUint(uint64(a.StartPort), 10)))
	if err != nil {
		return target{} // a placeholder or a wildcard
	}
	return t
}

// A target is where an agent, or the sidecar in front of it, listens.
type target struct {
	url    *url.URL // without the path of the API, such as http://127.0.0.1:8642 or http://hermes/p/work
	socket string   // of unix//path, "" for TCP
}

// errTarget says what an address looks like. It does not repeat the address, which may
// have a password in it.
var errTarget = errors.New("use an address such as 127.0.0.1:8642, https://hermes.example.com or unix//run/hermes.sock")

// parseTarget reads an address as a client or a Caddyfile writes it: host:port, a URL with or
// without the path of the API, or unix//path. The address must not have a user name.
func parseTarget(address string) (t target, err error) {
	if path, ok := strings.CutPrefix(address, "unix/"); ok && path != "" {
		return target{&url.URL{Scheme: "http", Host: "localhost"}, path}, nil
	}
	if !strings.Contains(address, "://") {
		if strings.HasPrefix(address, ":") {
			address = "127.0.0.1" + address
		}
		if _, _, err := net.SplitHostPort(strings.SplitN(address, "/", 2)[0]); err != nil {
			return t, fmt.Errorf("an address without a port: %w", errTarget)
		}
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") || !slices.Contains([]string{"http", "https", "h2c"}, u.Scheme) {
		return t, errTarget
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return t, fmt.Errorf("an address with a user name or a query: %w", errTarget)
	}
	if u.Scheme == "h2c" {
		u.Scheme = "http"
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions")
	u.Path, u.RawPath = strings.TrimSuffix(path, "/v1"), ""
	return target{url: u}, nil
}

// String returns the address.
func (t target) String() string {
	if t.socket != "" {
		return "unix/" + t.socket
	}
	return t.url.String()
}

// port returns the port of a TCP address.
func (t target) port() string {
	return cmp.Or(t.url.Port(), map[string]string{"http": "80", "https": "443"}[t.url.Scheme])
}
