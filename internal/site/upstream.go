package site

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ofHost and ofPath match the network before the first slash of an address: ofHost before a host,
// as in tcp/127.0.0.1:8642, and ofPath before a path or a number, as in unix//run/hermes.sock.
var (
	ofHost = regexp.MustCompile(`^(?i:(?:tcp|udp|ip)[46]?)$`)
	ofPath = regexp.MustCompile(`^(?i:unix(?:gram|packet)?(?:\+h2c)?|fd(?:gram)?)$`)
)

// CheckUpstream returns an error if address, an upstream in a Caddyfile or a flag, has a path, is a
// port alone, or is a Unix socket in the form of another program. Caddy takes the first part of
// 127.0.0.1:8642/v1 for the name of a network, and 8642 for a host, and reaches nothing there. The
// error says what to write, and repeats no password.
//
// An address with a placeholder is known only with a request, and passes.
func CheckUpstream(address string) error {
	if strings.Contains(address, "{") {
		return nil
	}
	if path := socketPath(address); path != "" {
		return fmt.Errorf("invalid upstream: write unix/%s: the path of a Unix socket follows unix/", path)
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
	host = host[strings.LastIndexByte(host, '@')+1:]
	switch {
	case IsPort(host):
		return fmt.Errorf("invalid upstream: write %s127.0.0.1:%[2]s: without a host, %[2]s is taken as a host name", prefix, host)
	case found && host == "":
		return fmt.Errorf("invalid upstream: write %s127.0.0.1:8642, a host and a port, or unix//run/hermes.sock, the path of a Unix socket after unix/", prefix)
	case found:
		return fmt.Errorf("invalid upstream: write %s%s, without a path: Hermes gets the path that the client asks for", prefix, host)
	}
	return nil
}

// ofOtherPrograms matches what precedes the path of a Unix socket in URLs and in other programs, such
// as http://unix: in nginx, with the slashes at its beginning.
var ofOtherPrograms = regexp.MustCompile(`^(?i:(?:[a-z0-9]+://)?(?:[a-z0-9]+\+)?unix(?:\+[a-z0-9]+)?:/+|[a-z0-9]+://unix//+)`)

// socketPath returns the path of the Unix socket that address means, but does not name as Caddy
// does, "" if it means none.
func socketPath(address string) string {
	path, _, _ := strings.Cut(strings.TrimPrefix(address, ofOtherPrograms.FindString(address)), ":")
	switch {
	case ofOtherPrograms.MatchString(address):
		return "/" + path
	case strings.HasPrefix(address, "/") && strings.HasSuffix(path, ".sock"):
		return path
	}
	return ""
}

// IsPort reports whether host is a number that was meant to be a port.
func IsPort(host string) bool {
	n, err := strconv.ParseUint(host, 10, 16)
	return err == nil && n > 0
}

// checkDial is CheckUpstream for an address in a JSON configuration, which has no scheme.
func checkDial(address string) error {
	if strings.Contains(address, "://") && socketPath(address) == "" && !strings.Contains(address, "{") {
		_, rest, _ := strings.Cut(address, "://")
		host, _, _ := strings.Cut(rest, "/")
		return fmt.Errorf("invalid upstream: write %s, a host and a port: dial accepts no scheme", host[strings.LastIndexByte(host, '@')+1:])
	}
	return CheckUpstream(address)
}
