package site

import (
	"fmt"
	"regexp"
	"strings"
)

// ofHost and ofPath match the network before the first slash of an address: ofHost before a host,
// as in tcp/127.0.0.1:8642, and ofPath before a path or a number, as in unix//run/hermes.sock.
var (
	ofHost = regexp.MustCompile(`^(?i:(?:tcp|udp|ip)[46]?)$`)
	ofPath = regexp.MustCompile(`^(?i:unix(?:gram|packet)?(?:\+h2c)?|fd(?:gram)?)$`)
)

// CheckUpstream returns an error if address, an upstream in a Caddyfile or a flag, has a path.
// Caddy takes the first part of 127.0.0.1:8642/v1 for the name of a network, and reaches nothing
// there. The error says what to write, and repeats no password.
//
// An address with a placeholder is known only when a request comes, and passes.
func CheckUpstream(address string) error {
	if strings.Contains(address, "{") {
		return nil
	}
	prefix, rest := "", address
	if scheme, after, found := strings.Cut(address, "://"); found {
		prefix, rest = scheme+"://", after
	} else if before, after, _ := strings.Cut(address, "/"); ofPath.MatchString(before) {
		return nil
	} else if ofHost.MatchString(before) {
		prefix, rest = before+"/", after
	}
	host, _, found := strings.Cut(rest, "/")
	if !found {
		return nil
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	return fmt.Errorf("invalid upstream: write %s%s, without a path: Hermes gets the path that the client asks for", prefix, host)
}

// checkDial is CheckUpstream for an address in a JSON configuration, which has no scheme.
func checkDial(address string) error {
	if _, rest, found := strings.Cut(address, "://"); found && !strings.Contains(address, "{") {
		host, _, _ := strings.Cut(rest, "/")
		return fmt.Errorf("invalid upstream: write %s, a host and a port: dial takes no scheme", host[strings.LastIndexByte(host, '@')+1:])
	}
	return CheckUpstream(address)
}
