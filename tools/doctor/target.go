package doctor

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// A Target is where an agent, or the sidecar in front of it, listens.
type Target struct {
	url    *url.URL // without the path of the API, such as http://127.0.0.1:8642 or http://hermes/p/work
	socket string   // of unix//path, "" for TCP
}

// errTarget says what an address looks like. It does not repeat the address, which may
// have a password in it.
var errTarget = errors.New("use an address such as 127.0.0.1:8642, https://hermes.example.com or unix//run/hermes.sock")

// ParseTarget reads an address as a client or as a Caddyfile has it: host:port, a URL,
// with or without the path of the API, or unix//path. It must not have a user name in
// it.
func ParseTarget(address string) (t Target, err error) {
	if path, ok := strings.CutPrefix(address, "unix/"); ok {
		if path == "" {
			return t, errTarget
		}
		return Target{&url.URL{Scheme: "http", Host: "localhost"}, path}, nil
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
	if err != nil || u.Hostname() == "" || u.Port() == "" && strings.HasSuffix(u.Host, ":") {
		return t, errTarget
	}
	switch u.Scheme {
	case "http", "https":
	case "h2c":
		u.Scheme = "http"
	default:
		return t, errTarget
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return t, fmt.Errorf("an address with a user name or a query: %w", errTarget)
	}
	path := strings.TrimRight(u.Path, "/")
	for _, api := range []string{"/chat/completions", "/v1"} {
		path = strings.TrimSuffix(path, api)
	}
	u.Path, u.RawPath = path, ""
	return Target{url: u}, nil
}

// String returns the address.
func (t Target) String() string {
	if t.socket != "" {
		return "unix/" + t.socket
	}
	return t.url.String()
}

// port returns the port of a TCP address.
func (t Target) port() string {
	switch p := t.url.Port(); {
	case p != "":
		return p
	case t.url.Scheme == "https":
		return "443"
	}
	return "80"
}
