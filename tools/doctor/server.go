package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
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
	Target
	client  *http.Client
	dial    func(ctx context.Context) (net.Conn, error)
	key     string // "" for none
	timeout time.Duration
}

// newServer returns the server at t.
func newServer(t Target, o Options) *server {
	dial := func(ctx context.Context) (net.Conn, error) {
		if t.socket != "" {
			return o.Dial(ctx, "unix", t.socket)
		}
		return o.Dial(ctx, "tcp", net.JoinHostPort(t.url.Hostname(), t.port()))
	}
	return &server{Target: t, key: o.Key, timeout: o.Timeout, dial: dial, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: o.Insecure, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			DisableKeepAlives:      true, // so nothing is sent again on a connection that has closed
			MaxResponseHeaderBytes: maxHeader,
			ReadBufferSize:         maxHeader,
		},
	}}
}

// A reply is the answer to a GET request.
type reply struct {
	status int
	proto  string
	header http.Header
	body   []byte // at most maxProbe bytes
}

// get asks for a path below the address, with the key if withKey is true.
func (s *server) get(ctx context.Context, path string, withKey bool) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := s.request(ctx, http.MethodGet, path, nil, withKey)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxProbe))
	if err != nil {
		return nil, err
	}
	return &reply{res.StatusCode, res.Proto, res.Header, body}, nil
}

// request returns a request for a path below the address.
func (s *server) request(ctx context.Context, method, path string, body io.Reader, withKey bool) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url.JoinPath(path).String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity") // as the sidecar does
	req.Header.Set("User-Agent", "hermes-doctor")
	if withKey && s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	return req, nil
}

// refuses reports whether the answer says that the request has no right, or the wrong
// key.
func (r *reply) refuses() bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden
}

// json decodes the body and reports whether it is JSON of that form.
func (r *reply) json(into any) bool { return json.Unmarshal(r.body, into) == nil }

// errorOf returns the message and the code of the error that the body is.
func errorOf(body []byte) (message, code string) {
	var is struct {
		Error struct {
			Message string `json:"message"`
			Code    any    `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &is) != nil {
		return "", ""
	}
	code, _ = is.Error.Code.(string)
	return is.Error.Message, code
}

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
