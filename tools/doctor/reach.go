package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// reach asks for /health, which needs no key. It returns nil if nothing answers with
// HTTP, and has then said why.
func (e *examination) reach(ctx context.Context, s *server) *reply {
	r, err := s.get(ctx, "/health", false)
	switch {
	case err != nil:
		says, why := e.unreachable(ctx, s, err)
		e.find("reachable", Fail, says, why)
		return nil
	case r.status == 400 && s.url.Scheme == "http" && s.speaksTLS(ctx):
		e.find("reachable", Fail, "it speaks TLS on this port, and this address says plain HTTP", e.tlsHint(s))
		return nil
	}
	e.find("reachable", OK, e.say("it answers with %s", r.proto), "")
	return r
}

// tlsHint is what to do about a port that speaks TLS.
func (e editor) tlsHint(s *server) words {
	return e.say("Use https://%s. Hermes itself speaks plain HTTP, so something stands in front of it here.", s.url.Host)
}

// unreachable says why there is no answer, and what to do.
func (e editor) unreachable(ctx context.Context, s *server, err error) (says, why words) {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the method and the URL
	}
	where := words("Hermes listens on 127.0.0.1:8642 unless API_SERVER_HOST and API_SERVER_PORT say otherwise, and only with API_SERVER_ENABLED=true. " +
		"In a container, 127.0.0.1 is the container itself.")
	dial, ok := errors.AsType[*net.OpError](err)
	dialing := ok && dial.Op == "dial"
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return e.say("no address is known for %s", dns.Name), "Check the name, and whether it is one that is known on this machine, or in this container."
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused: nothing listens there", where
	case errors.Is(err, syscall.ENOENT) && s.socket != "":
		return "there is no such socket", "Check the path, and that Hermes' side of it is up."
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return e.say("this user may not connect: %s", err), "Run it as the user of the sidecar."
	case isTimeout(err) && dialing:
		return e.say("no connection within %s", s.timeout), "A firewall drops the packets, or the machine is down."
	case isTimeout(err):
		return e.say("it accepts the connection, but does not answer within %s", s.timeout),
			"It hangs, or it waits for something else than HTTP. /health is answered at once by a Hermes that works. --timeout allows more."
	case s.url.Scheme == "https" && isPlain(err):
		return "it speaks plain HTTP on this port, and this address says https", e.say("Use http://%s.", s.url.Host)
	case s.url.Scheme == "http" && s.speaksTLS(ctx):
		return "it speaks TLS on this port, and this address says plain HTTP", e.tlsHint(s)
	case isCertificate(err):
		return e.say("its certificate is not trusted: %s", err),
			"Use the name that the certificate is for, and trust its authority on this machine, or use --insecure for this examination."
	case dialing:
		return e.say("no connection: %s", err), where
	}
	return e.say("it accepts the connection, but its answer is no HTTP: %s", err), "This is not Hermes' API server. " + where
}

// isTimeout reports whether something took too long.
func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// isPlain reports whether a TLS handshake has met plain text.
func isPlain(err error) bool {
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// isCertificate reports whether a certificate has been refused.
func isCertificate(err error) bool {
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	return verify || unknown || host
}

// speaksTLS reports whether the port answers a TLS handshake. Nothing is sent behind it.
func (s *server) speaksTLS(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	// Whoever it is: it is asked for nothing but a handshake.
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
}

// isHTML reports whether an answer is a page for a browser.
func (r *reply) isHTML() bool {
	b := bytes.ToLower(bytes.TrimSpace(r.body[:min(len(r.body), 512)]))
	return strings.Contains(r.header.Get("Content-Type"), "html") || bytes.HasPrefix(b, []byte("<!doctype")) || bytes.HasPrefix(b, []byte("<html"))
}
