package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
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
