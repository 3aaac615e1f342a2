// Package client says who sends a request. Requests with the same credentials count as one client:
// hermes_queue gives that client its turns, hermes_resume its answers, and hermes its questions and
// its runs. It holds no state, and knows no Caddy.
package client

import (
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/http"
	"slices"
	"strings"
)

// ID identifies a client. It is a hash, which reveals no credential.
type ID [sha256.Size]byte

// credentials are the header fields that say who a client is.
var credentials = [...]string{"Authorization", "Cookie", "X-Api-Key", "Api-Key"}

// Of returns the ID of the client of r, as its credentials say: its header fields, and its
// certificate if it has one. Clients with the same credentials in different scopes have different
// IDs.
func Of(r *http.Request, scope ...string) ID {
	fields := append(make([][]string, 0, 2+len(credentials)), scope)
	for _, name := range credentials {
		fields = append(fields, r.Header[name])
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		fields = append(fields, []string{string(r.TLS.PeerCertificates[0].Raw)})
	}
	return hash(fields)
}

// Named returns the ID of a client that is known by other values than its credentials.
func Named(values ...string) ID { return hash([][]string{values}) }

// HasCredentials reports whether r has credentials. Without them, all clients have the same ID.
func HasCredentials(r *http.Request) bool {
	has := func(name string) bool { return len(r.Header[name]) > 0 }
	return slices.ContainsFunc(credentials[:], has) || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}

// Server returns what tells the server that r has reached from the others of the process: its port, or the
// path of its Unix socket. The Host of r does not, because a client may send that of another.
func Server(r *http.Request) string {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch {
	case !ok:
		return ""
	case strings.HasPrefix(address.Network(), "unix"):
		return address.String()
	}
	_, port, _ := net.SplitHostPort(address.String())
	return port
}

// hash returns the hash of fields. It includes their lengths, so that different lists never have the
// same bytes.
func hash(fields [][]string) ID {
	b := make([]byte, 0, 512)
	for _, values := range fields {
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, v := range values {
			b = binary.AppendUvarint(b, uint64(len(v)))
			b = append(b, v...)
		}
	}
	return sha256.Sum256(b)
}
