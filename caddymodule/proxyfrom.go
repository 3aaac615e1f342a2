package caddymodule

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

// A fromAddr is the address of --from, completed.
type fromAddr struct {
	scheme string // http or https
	host   string // name or IP address that clients use, "" for any
	port   string
	iface  string // IP address of the interface to listen on, "" for all
}

// parseFrom parses from as caddy reverse-proxy does. Without a scheme the address is https if it
// has a host and not the port of HTTP, and http otherwise. Without a port it has the port of its
// scheme. The address of all interfaces, 0.0.0.0 or ::, counts as no host.
func parseFrom(from string) (fromAddr, error) {
	parsed, err := httpcaddyfile.ParseAddress(from)
	if err != nil {
		return fromAddr{}, fmt.Errorf("invalid downstream address %s: %w", from, err)
	}
	if parsed.Path != "" {
		return fromAddr{}, fmt.Errorf("paths are not allowed: %s", from)
	}
	a := fromAddr{scheme: parsed.Scheme, host: parsed.Host, port: parsed.Port}
	ip, err := netip.ParseAddr(a.host)
	switch {
	case err == nil && ip.IsUnspecified():
		a.iface, a.host = a.host, ""
	case err == nil:
		a.iface = a.host
	case a.host == "" || strings.HasSuffix("."+strings.ToLower(a.host), ".localhost"): // RFC 6761, section 6.3
		a.iface = "127.0.0.1"
	case site.IsPort(a.host): // it would get a certificate for a host of that name
		return fromAddr{}, fmt.Errorf("invalid downstream address %s: write :%[2]s for a port of this machine, or put a host in front, such as localhost:%[2]s", from, a.host)
	case strings.ContainsAny(a.host, ":/?#@[] \t\n"): // no server could answer to it
		return fromAddr{}, fmt.Errorf("invalid downstream address %s: write a host and a port, such as localhost:8643", from)
	}

	httpPort, httpsPort := strconv.Itoa(caddyhttp.DefaultHTTPPort), strconv.Itoa(caddyhttp.DefaultHTTPSPort)
	switch {
	case a.scheme == "" && (a.port == httpPort || a.host == ""):
		a.scheme = "http"
	case a.scheme == "":
		a.scheme = "https"
	case a.scheme == "https" && a.host == "":
		return fromAddr{}, fmt.Errorf("invalid downstream address %s: https needs a host for its certificate, such as https://localhost:8643", from)
	case a.scheme != "http" && a.scheme != "https":
		return fromAddr{}, fmt.Errorf("invalid downstream address %s: the scheme must be http or https", from)
	}
	if a.port == "" {
		a.port = httpPort
		if a.scheme == "https" {
			a.port = httpsPort
		}
	}
	return a, nil
}

// listen returns the addresses to listen on, as host:port: the IP addresses in bind, the values of
// --bind, or if there are none the interface of a. Hermes runs commands, so an address without a
// host means this machine only. An IP address means its interface, and a name means all interfaces,
// because other machines use it.
func (a fromAddr) listen(bind []string) ([]string, error) {
	if len(bind) == 0 {
		return []string{net.JoinHostPort(a.iface, a.port)}, nil
	}
	addrs := make([]string, len(bind))
	for i, host := range bind {
		if _, err := netip.ParseAddr(host); err != nil {
			return nil, fmt.Errorf("--bind %q: must be an IP address without a port, such as 127.0.0.1 or 0.0.0.0", host)
		}
		addrs[i] = net.JoinHostPort(host, a.port)
	}
	return addrs, nil
}
