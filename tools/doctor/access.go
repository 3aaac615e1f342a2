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
		e.find("encryption", Info, "it is reached over a network, and the connection is not encrypted",
			"Keys, prompts and answers can be read on the way. Use TLS, or a network that you trust.")
	}
	path, keyed := words("/v1/models"), false
	if r.refuses() {
		if e.key == "" {
			e.find("key", Fail, e.say("it requires a key (status %d), and none was given", r.StatusCode),
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
		e.find("key", OK, "it requires a key, and accepts this one", "")
		return accessKey
	case r.StatusCode == http.StatusOK:
		e.find("key", Warn, "it answers without a key",
			"Hermes runs commands for anyone who can reach the port: at least every program and user of this machine. "+
				"Set API_SERVER_KEY in Hermes' environment.")
		return accessAnyone
	case r.refuses():
		e.find("key", Fail, e.say("it rejects this key (status %d%s)", r.StatusCode, e.quoted(r.message())),
			"Use the API_SERVER_KEY that Hermes was started with: it reads the key only when it starts.")
		return accessRefused
	}
	e.find("key", Fail, path+e.say(" answers with status %d%s", r.StatusCode, e.quoted(r.message())), "See Hermes' log.")
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
		e.find("network", OK, "it listens on a Unix socket, which no network reaches", "The mode of the file decides who may connect.")
		return
	}
	where := e.say("it is reached as %s, so other machines may reach it", s.url.Hostname())
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
			e.find("network", Info, e.say("cannot tell whether other machines can reach it: %s", err), "")
			return
		case len(tried) == 0:
			e.find("network", OK, "this machine has no address that other machines could connect to", "")
			return
		case len(open) == 0:
			e.find("network", OK, e.say("port %s accepts no connections on %s", s.port(), words(strings.Join(tried, ", "))), "So only this machine can reach it.")
			return
		}
		where = e.say("port %s accepts connections on %s", s.port(), words(strings.Join(open, ", ")))
	}
	switch a {
	case accessAnyone:
		e.find("network", Fail, where+", and no key is needed",
			"Anyone who can reach the port can run commands. Set API_SERVER_KEY, or listen on 127.0.0.1 only: API_SERVER_HOST of Hermes, bind of the sidecar.")
	case accessUnknown:
		e.find("network", Warn, where, "Hermes runs commands for anyone who has access. Set API_SERVER_KEY, or listen on 127.0.0.1 only.")
	default:
		e.find("network", Info, where+"; a key is needed there", "If no other machine needs to connect, listen on 127.0.0.1 only.")
	}
}
