package site

import (
	"fmt"
	"regexp"
	"strings"
)

// What may stand in front of the first slash of an address: in front of a host, as in
// tcp/127.0.0.1:8642, and of a path or a number, as in unix//run/hermes.sock.
var (
	ofHost = regexp.MustCompile(`^(?i:(?:tcp|udp|ip)[46]?)$`)
	ofPath = regexp.MustCompile(`^(?i:unix(?:gram|packet)?(?:\+h2c)?|fd(?:gram)?)$`)
)

// CheckUpstream returns an error that says what to write if address, of an upstream as a
// Caddyfile or a flag has it, has a path. Caddy takes 127.0.0.1:8642/v1 for an address in a
// network of that name, and reaches nothing there. The error repeats no password.
//
// An address with a placeholder is known only when a request comes, and passes.
func CheckUpstream(address string) error {
	if strings.Contains(address, "{") {
		return nil
	}
	prefix, rest := "", address
	if scheme, behind, found := strings.Cut(address, "://"); found {
		prefix, rest = scheme+"://", behind
	} else if before, behind, _ := strings.Cut(address, "/"); ofPath.MatchString(before) {
		return nil
	} else if ofHost.MatchString(before) {
		prefix, rest = before+"/", behind
	}
	host, _, found := strings.Cut(rest, "/")
	if !found {
		return nil
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	return fmt.Errorf("invalid upstream: write %s%s, without a path: Hermes gets the path that the client asks for", prefix, host)
}

// checkDial does the same for an address in a configuration as JSON, which has no scheme.
func checkDial(address string) error {
	if _, rest, found := strings.Cut(address, "://"); found && !strings.Contains(address, "{") {
		host, _, _ := strings.Cut(rest, "/")
		return fmt.Errorf("invalid upstream: write %s, a host and a port: dial takes no scheme", host[strings.LastIndexByte(host, '@')+1:])
	}
	return CheckUpstream(address)
}
