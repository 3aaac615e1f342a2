package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// ownAddresses returns the addresses of this machine that others may connect to.
func ownAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	var own []netip.Addr
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			own = append(own, p.Addr().Unmap())
		}
	}
	return own, nil
}

// isLoopback reports whether a host is this machine for this machine only.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// isOwn reports whether a host is this machine.
func (e *examination) isOwn(host string) bool {
	if isLoopback(host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false // a name: whose it is, is not looked up
	}
	own, _ := e.o.OwnAddresses()
	return ip.IsUnspecified() || slices.Contains(own, ip.Unmap())
}

// network finds out whether others can reach the port, by connecting to it on this
// machine's own addresses. Nothing is sent there.
func (e *examination) network(ctx context.Context, s *server, a access, check string) {
	if s.socket != "" {
		e.find(check, OK, "it listens on a socket file, which no network reaches", "Who may connect is a matter of the file's mode.")
		return
	}
	host, where := s.url.Hostname(), words("")
	if e.isOwn(host) {
		open, tried, err := e.openOn(ctx, s)
		switch {
		case err != nil:
			e.find(check, Info, e.say("whether others can reach it is not known: %s", err), "")
			return
		case len(tried) == 0:
			e.find(check, OK, "this machine has no address that others could connect to", "")
			return
		case len(open) == 0:
			e.find(check, OK, e.say("port %s takes no connections on %s", s.port(), words(strings.Join(tried, ", "))), "So only this machine reaches it.")
			return
		}
		where = e.say("port %s takes connections on %s", s.port(), words(strings.Join(open, ", ")))
	} else {
		where = e.say("it is reached as %s, so others may reach it, too", host)
	}
	switch a {
	case accessAnyone:
		e.find(check, Fail, where+", and no key is needed",
			"Everyone who reaches the port runs commands. Set API_SERVER_KEY, or listen on 127.0.0.1 only: API_SERVER_HOST of Hermes, bind of the sidecar.")
	case accessUnknown:
		e.find(check, Warn, where, "Hermes runs commands for everyone who has access. Set API_SERVER_KEY, or listen on 127.0.0.1 only.")
	default:
		e.find(check, Info, where+"; a key is needed there", "If no other machine has to connect, listen on 127.0.0.1 only.")
	}
}

// openOn returns the addresses of this machine that are tried, and those of them on which
// the port of s takes connections.
func (e *examination) openOn(ctx context.Context, s *server) (open, tried []string, err error) {
	own, err := e.o.OwnAddresses()
	if err != nil {
		return nil, nil, err
	}
	for _, ip := range own {
		ctx, cancel := context.WithTimeout(ctx, s.timeout)
		conn, err := e.o.Dial(ctx, "tcp", net.JoinHostPort(ip.String(), s.port()))
		cancel()
		tried = append(tried, ip.String())
		if err == nil {
			conn.Close()
			open = append(open, ip.String())
		}
	}
	return open, tried, nil
}
