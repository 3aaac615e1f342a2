package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// access says who gets an answer from an agent.
type access int

const (
	accessUnknown access = iota
	accessAnyone         // no key is needed
	accessKey            // the key that is given
	accessRefused        // the given key is wrong, or none is given
)

// checkAccess finds out whether a key is needed, and whether the given one is right. r is the reply to
// /v1/models without a key.
func (e *examination) checkAccess(ctx context.Context, s *server, r reply) access {
	if s.url.Scheme == "http" && s.socket == "" && !e.isOwn(s.url.Hostname()) {
		e.find("encryption", Info, "it is reached through a network, and the connection is not encrypted",
			"Keys, prompts and answers can be read on the way. Use TLS, or a network that you trust.")
	}
	path, keyed := words("/v1/models"), false
	if r.refuses() {
		if e.key == "" {
			e.find("key", Fail, e.say("it needs a key (status %d), and none is given", r.StatusCode),
				"Put Hermes' API_SERVER_KEY into the environment variable of that name here, or into a file for --key-file.")
			return accessRefused
		}
		var err error
		path, keyed = "/v1/models with the key", true
		if r, err = s.get(ctx, "/v1/models", true); err != nil {
			e.findUnreachable(ctx, s, "key", path+": ", err)
			return accessUnknown
		}
	}
	switch {
	case r.StatusCode == http.StatusOK && keyed:
		e.find("key", OK, "it needs a key, and takes this one", "")
		return accessKey
	case r.StatusCode == http.StatusOK:
		e.find("key", Warn, "it answers without a key",
			"Hermes runs commands for everyone who reaches the port, which is every program and user of this machine at least. "+
				"Set API_SERVER_KEY in Hermes' environment.")
		return accessAnyone
	case r.refuses():
		e.find("key", Fail, e.say("it refuses this key (status %d%s)", r.StatusCode, e.quoted(r.message())),
			"Give the API_SERVER_KEY that Hermes has been started with. Hermes reads it at its start only.")
		return accessRefused
	}
	e.find("key", Fail, path+e.say(" answers with status %d%s", r.StatusCode, e.quoted(r.message())), "Look into Hermes' own log.")
	return accessUnknown
}

// ownAddresses returns the addresses of this machine that other machines may connect to.
func ownAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			own = append(own, p.Addr().Unmap())
		}
	}
	return own, nil
}

// isOwn reports whether host is this machine. Of names, only localhost and its subdomains count:
// none is looked up.
func (e *examination) isOwn(host string) bool {
	host = strings.ToLower(host)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	ip = ip.Unmap()
	own, _ := e.ownAddresses()
	return ip.IsLoopback() || ip.IsUnspecified() || slices.Contains(own, ip)
}

// checkNetwork finds out whether other machines can reach the port, by connecting to it on this
// machine's own addresses. Nothing is sent there.
func (e *examination) checkNetwork(ctx context.Context, s *server, a access) {
	if s.socket != "" {
		e.find("network", OK, "it listens on a socket file, which no network reaches", "Who may connect is a matter of the file's mode.")
		return
	}
	where := e.say("it is reached as %s, so others may reach it, too", s.url.Hostname())
	if e.isOwn(s.url.Hostname()) {
		own, err := e.ownAddresses()
		var open, tried []string
		for _, ip := range own {
			tried = append(tried, ip.String())
			ctx, cancel := context.WithTimeout(ctx, s.timeout)
			conn, err := e.dial(ctx, "tcp", net.JoinHostPort(ip.String(), s.port()))
			if cancel(); err == nil {
				conn.Close()
				open = append(open, ip.String())
			}
		}
		switch {
		case err != nil:
			e.find("network", Info, e.say("whether others can reach it is not known: %s", err), "")
			return
		case len(tried) == 0:
			e.find("network", OK, "this machine has no address that others could connect to", "")
			return
		case len(open) == 0:
			e.find("network", OK, e.say("port %s takes no connections on %s", s.port(), words(strings.Join(tried, ", "))), "So only this machine reaches it.")
			return
		}
		where = e.say("port %s takes connections on %s", s.port(), words(strings.Join(open, ", ")))
	}
	switch a {
	case accessAnyone:
		e.find("network", Fail, where+", and no key is needed",
			"Everyone who reaches the port runs commands. Set API_SERVER_KEY, or listen on 127.0.0.1 only: API_SERVER_HOST of Hermes, bind of the sidecar.")
	case accessUnknown:
		e.find("network", Warn, where, "Hermes runs commands for everyone who has access. Set API_SERVER_KEY, or listen on 127.0.0.1 only.")
	default:
		e.find("network", Info, where+"; a key is needed there", "If no other machine has to connect, listen on 127.0.0.1 only.")
	}
}
