package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"
)

// asked returns a request with header fields, which are names and values.
func asked(header ...string) *http.Request {
	r := &http.Request{Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// presents returns a request over TLS with certificates.
func presents(certificates ...string) *http.Request {
	r := asked()
	r.TLS = &tls.ConnectionState{}
	for _, c := range certificates {
		r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, &x509.Certificate{Raw: []byte(c)})
	}
	return r
}

// TestClients: who is one, and who is another.
func TestClients(t *testing.T) {
	for name, c := range map[string]struct {
		a, b ID
		same bool
	}{
		"one credential":        {Of(asked("Authorization", "x", "User-Agent", "a")), Of(asked("Authorization", "x", "User-Agent", "b")), true},
		"two credentials":       {Of(asked("Authorization", "x")), Of(asked("Authorization", "y")), false},
		"in another field":      {Of(asked("Authorization", "x")), Of(asked("X-Api-Key", "x")), false},
		"in both API keys":      {Of(asked("X-Api-Key", "x")), Of(asked("Api-Key", "x")), false},
		"in two fields":         {Of(asked("Authorization", "x", "Authorization", "y")), Of(asked("Authorization", "xy")), false},
		"of two lengths":        {Of(asked("Authorization", "xy", "Authorization", "z")), Of(asked("Authorization", "x", "Authorization", "yz")), false},
		"of cookies":            {Of(asked("Cookie", "a=1")), Of(asked("Cookie", "a=2")), false},
		"a cookie that changes": {Of(asked("Authorization", "x", "Cookie", "a=1")), Of(asked("Authorization", "x", "Cookie", "a=2")), false},
		"certificates":          {Of(presents("x")), Of(presents("y")), false},
		"one certificate":       {Of(presents("x")), Of(presents("x")), true},
		"no certificate":        {Of(presents()), Of(asked()), true},
		"no credentials":        {Of(asked()), Of(asked("User-Agent", "a")), true},
		"one scope":             {Of(asked("Authorization", "x"), "a", "b"), Of(asked("Authorization", "x"), "a", "b"), true},
		"two scopes":            {Of(asked("Authorization", "x"), "a", "b"), Of(asked("Authorization", "x"), "ab"), false},
		"a scope or none":       {Of(asked(), "a"), Of(asked()), false},
		"a name or credentials": {Named("x"), Of(asked("Authorization", "x")), false},
		"a name or a scope":     {Named("x"), Of(asked(), "x"), false},
		"names":                 {Named("a", "bc"), Named("ab", "c"), false},
	} {
		if got := c.a == c.b; got != c.same {
			t.Errorf("%s: one client is %v", name, got)
		}
	}
}

// TestHasCredentials.
func TestHasCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		r    *http.Request
		want bool
	}{
		"none":          {asked("User-Agent", "a"), false},
		"a key":         {asked("Api-Key", "a"), true},
		"an empty one":  {asked("Authorization", ""), true},
		"a certificate": {presents("x"), true},
		"TLS":           {presents(), false},
	} {
		if got := HasCredentials(c.r); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestServers: a server is its port, whichever address of the machine a client uses, or its socket.
func TestServers(t *testing.T) {
	for want, address := range map[string]net.Addr{
		"8643": &net.TCPAddr{IP: net.IPv6loopback, Port: 8643}, "443": &net.UDPAddr{Port: 443},
		"/run/a:1": &net.UnixAddr{Name: "/run/a:1", Net: "unix"}, "": nil,
	} {
		r := asked()
		if got := Server(r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, address))); got != want {
			t.Errorf("%v is %q, want %q", address, got, want)
		}
	}
}
