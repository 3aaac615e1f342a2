package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
	"github.com/tidwall/gjson"
)

const (
	// maxProbe is how much of an answer to a GET request is read, in bytes.
	maxProbe = 64 << 10
	// maxHeader is how large the header of an answer may be, in bytes.
	maxHeader = 64 << 10
)

// A server is an agent, or the sidecar in front of it, as a client sees it. It follows no
// redirect, uses no proxy of the environment, repeats nothing and decompresses nothing.
type server struct {
	target
	*doctor
	key    string // that requests with a key have, "" for none
	client *http.Client
}

// server returns the server at t, which takes the key.
func (d *doctor) server(t target, key string) *server {
	s := &server{target: t, doctor: d, key: key}
	s.client = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return s.connect(ctx) },
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: d.insecure, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			DisableKeepAlives:      true, // so nothing is sent again on a connection that has closed
			MaxResponseHeaderBytes: maxHeader,
			ReadBufferSize:         maxHeader,
		},
	}
	return s
}

func (s *server) connect(ctx context.Context) (net.Conn, error) {
	if s.socket != "" {
		return s.dial(ctx, "unix", s.socket)
	}
	return s.dial(ctx, "tcp", net.JoinHostPort(s.url.Hostname(), s.port()))
}

// send sends a GET request for a path below the address, with or without a query, or, if body is not empty, a POST request
// with it. If withKey is true, the request has the key.
func (s *server) send(ctx context.Context, path, body string, withKey bool) (*http.Response, error) {
	path, query, _ := strings.Cut(path, "?")
	at := s.url.JoinPath(path)
	at.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity") // as the sidecar does
	req.Header.Set("User-Agent", "hermes-doctor")
	if body != "" {
		req.Method = http.MethodPost
		req.GetBody = nil // it is not sent again
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
	}
	if withKey && s.key != "" {
		scheme, key := schemeOf(s.key)
		req.Header.Set("Authorization", scheme+" "+key)
	}
	return s.client.Do(req)
}

// A reply is the answer to a request, with the beginning of its body.
type reply struct {
	*http.Response
	body []byte
}

// get asks for a path below the address, with the key if withKey is true.
func (s *server) get(ctx context.Context, path string, withKey bool) (reply, error) {
	return s.getUpTo(ctx, path, withKey, maxProbe)
}

// getUpTo is like get, but reads no more of the body than most bytes.
func (s *server) getUpTo(ctx context.Context, path string, withKey bool, most int64) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	res, err := s.send(ctx, path, "", withKey)
	if err != nil {
		return reply{}, err
	}
	return read(res, most)
}

// read reads a reply with no more of its body than most bytes, and closes that.
func read(res *http.Response, most int64) (reply, error) {
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	return reply{res, body}, err
}

// says returns the string at a path in the JSON of the reply, "" if there is none.
func (r reply) says(path string) string {
	body := rewrite.Finite(r.body)
	if !gjson.ValidBytes(body) {
		return ""
	}
	return gjson.GetBytes(body, path).Str
}

// message returns the error message in the reply, "" if there is none.
func (r reply) message() string { return r.says("error.message") }

// isHermes reports whether the reply is Hermes' own to /health.
func (r reply) isHermes() bool {
	return r.StatusCode == http.StatusOK && r.says("platform") == "hermes-agent"
}

// refuses reports whether the reply says that the request is not authorized, or has the wrong key.
func (r reply) refuses() bool {
	return r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden
}

// isHTML reports whether the reply is a page for a browser.
func (r reply) isHTML() bool {
	return strings.Contains(r.Header.Get("Content-Type")+http.DetectContentType(r.body), "html")
}

const (
	speaksTLS words = "it speaks TLS on this port, but the address says plain HTTP"
	useHTTPS  words = "Use https://%s. Hermes itself speaks plain HTTP, so something stands in front of it here."
	listens   words = "Hermes listens on 127.0.0.1:8642 unless API_SERVER_HOST and API_SERVER_PORT say otherwise, " +
		"and only with API_SERVER_ENABLED=true. In a container, 127.0.0.1 is the container itself."
)

// findUnreachable adds a finding with the level Fail: what has no answer, why, and what to do.
func (e *examination) findUnreachable(ctx context.Context, s *server, check string, what words, err error) {
	says, why := e.explain(ctx, s, err)
	e.find(check, Fail, what+says, why)
}

// explain says what err means, and what to do.
func (e *examination) explain(ctx context.Context, s *server, err error) (says, why words) {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the method and the URL
	}
	dial, ok := errors.AsType[*net.OpError](err)
	dialing := ok && dial.Op == "dial"
	dns, noName := errors.AsType[*net.DNSError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case noName:
		return e.say("no address was found for %s", dns.Name),
			"Check the name, and whether this machine or container can resolve it."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused: nothing listens there", listens
	case errors.Is(err, syscall.ENOENT) && s.socket != "":
		return "there is no such socket", "Check the path, and that Hermes listens on it."
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return e.say("this user may not connect: %s", err), "Run it as the user of the sidecar."
	case isTimeout(err) && dialing:
		return e.say("no connection within %s", s.timeout), "A firewall drops the packets, or the machine is down."
	case isTimeout(err):
		return e.say("it accepts the connection, but does not answer within %s", s.timeout),
			"It hangs, or expects something other than HTTP. A working Hermes answers /health at once. " +
				"--timeout allows more."
	case s.url.Scheme == "https" && (noTLS || errors.Is(err, http.ErrSchemeMismatch)):
		return "it speaks plain HTTP on this port, but the address says https", e.say("Use http://%s.", s.url.Host)
	case s.url.Scheme == "http" && s.speaksTLS(ctx):
		return speaksTLS, e.say(useHTTPS, s.url.Host)
	case untrusted:
		return e.say("its certificate is not trusted: %s", err),
			"Use the name that the certificate is for, and trust its authority on this machine, " +
				"or use --insecure for this examination."
	case dialing:
		return e.say("no connection: %s", err), listens
	}
	return e.say("it accepts the connection, but its answer is not HTTP: %s", err), "This is not Hermes' API server. " + listens
}

// isTimeout reports whether err is a timeout.
func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// speaksTLS reports whether the port answers a TLS handshake. Nothing is sent after it.
func (s *server) speaksTLS(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := s.connect(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	// Any certificate will do for a handshake.
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
}
