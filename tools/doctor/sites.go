package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

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
