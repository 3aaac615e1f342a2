// Package client sends requests and reads the answers, whole or frame by frame. A Client
// belongs to a test, which fails where a request or an answer breaks off.
package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/schema"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/quic-go/quic-go/http3"
)

// Question is the body of a request.
const Question = `{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// A Client sends requests to one sidecar and reads answers whole.
type Client struct {
	t    testing.TB
	HTTP *http.Client
	Base string

	// Reloading is true if the configuration may just have been reloaded. The server
	// before may then accept a connection and close it without an answer, as Caddy does
	// also without the sidecar. Such a request is sent again.
	Reloading bool
}

// New returns a client that speaks HTTP/1.1 without TLS to base.
func New(t testing.TB, base string) *Client {
	return dialing(t, base, &http.Transport{MaxIdleConnsPerHost: 64}, "")
}

// NewTLS returns a client that speaks HTTP/2 or HTTP/1.1 over TLS to addr and calls it host.
func NewTLS(t testing.TB, host, addr string, pool *x509.CertPool) *Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	c := dialing(t, "https://"+host, tr, addr)
	c.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// dialing returns a client of a transport that dials to instead of base, unless to is "".
func dialing(t testing.TB, base string, tr *http.Transport, to string) *Client {
	c := Over(t, tr, base)
	tr.DisableCompression = true
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, cmp.Or(to, addr))
	}
	t.Cleanup(tr.CloseIdleConnections)
	return c
}

// Over returns a client that speaks to base over a transport.
func Over(t testing.TB, transport http.RoundTripper, base string) *Client {
	return &Client{t: t, HTTP: &http.Client{Transport: transport}, Base: base}
}

// A Reply is a response that is read while it comes.
type Reply struct {
	*http.Response
	t      testing.TB
	In     *bufio.Reader
	cancel context.CancelFunc
	once   sync.Once
}

// Post sends Question to path and returns when the response's header has come. Headers are
// name, value, name, value. harness.Patience bounds the whole.
func (c *Client) Post(path string, headers ...string) *Reply {
	c.t.Helper()
	r, err := c.Try(path, headers...)
	if err != nil {
		c.t.Fatalf("%s: %v", path, err)
	}
	return r
}

// Try is Post for requests that may fail.
func (c *Client) Try(path string, headers ...string) (*Reply, error) {
	return c.Ask(http.MethodPost, path, strings.NewReader(Question), headers...)
}

// Ask sends a request with a method and a body of JSON, nil for none, and returns when the response's
// header has come.
func (c *Client) Ask(method, path string, body io.Reader, headers ...string) (*Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		setHeaders(req, headers)
		var res *http.Response
		if res, err = c.Do(req); err == nil {
			return NewReply(c.t, res, cancel), nil
		}
	}
	cancel()
	return nil, err
}

// unread are the errors of net/http for a connection that was closed before it brought an answer.
var unread = regexp.MustCompile(`EOF|reset|server closed idle connection|use of closed network connection|broken pipe`)

// Again reports whether req failed because its connection was closed unread, and makes it ready to be
// sent again.
func Again(req *http.Request, err error) bool {
	again := err != nil && req.Context().Err() == nil && unread.MatchString(err.Error()) && (req.Body == nil || req.GetBody != nil)
	if again && req.Body != nil {
		req.Body, err = req.GetBody()
		again = err == nil
	}
	return again
}

// Send is Ask for requests that must be answered.
func (c *Client) Send(method, path string, body io.Reader, headers ...string) *Reply {
	c.t.Helper()
	r, err := c.Ask(method, path, body, headers...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// Body returns a body of known length, or a chunked one.
func Body(text string, chunked bool) io.Reader {
	if chunked {
		return io.MultiReader(strings.NewReader(text))
	}
	return strings.NewReader(text)
}

// Do sends a request. What the sidecar has written of the answer has to be what docs/schema
// says.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	res, err := c.HTTP.Do(req)
	for c.Reloading && Again(req, err) {
		res, err = c.HTTP.Do(req)
	}
	if err == nil {
		res.Body = schema.Watch(c.t, res)
	}
	return res, err
}

// NewReply reads a response until it is left, at the latest at the end of the test. What
// the sidecar has written of it has to be what docs/schema says.
func NewReply(t testing.TB, res *http.Response, cancel context.CancelFunc) *Reply {
	res.Body = schema.Watch(t, res)
	r := &Reply{Response: res, t: t, In: bufio.NewReader(res.Body), cancel: cancel}
	t.Cleanup(r.Leave)
	return r
}

// Get sends a GET until it is answered, for as long as harness.Patience lasts: a server that
// has just started or reloaded may refuse or close connections. Headers are name, value,
// name, value; Host may be one of them.
func Get(t testing.TB, c *http.Client, url string, headers ...string) (res *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	setHeaders(req, headers)
	res, err = harness.Persist(func() (*http.Response, error) { return c.Do(req) })
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(schema.Watch(t, res))
	if err != nil {
		t.Fatalf("%s: %s: %v", url, res.Status, err)
	}
	return res, string(b)
}

// setHeaders sets headers, given as name, value, name, value.
func setHeaders(req *http.Request, headers []string) {
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
}

// Get returns the body of the answer to a GET.
func (c *Client) Get(path string) string {
	c.t.Helper()
	_, body := Get(c.t, c.HTTP, c.Base+path)
	return body
}

// Chat posts to /v1/chat/completions.
func (c *Client) Chat(headers ...string) *Reply {
	c.t.Helper()
	return c.Post("/v1/chat/completions", headers...)
}

// Play asks an upstream.Router for a script.
func (c *Client) Play(name string, headers ...string) *Reply {
	c.t.Helper()
	return c.Chat(append([]string{"X-Play", name}, headers...)...)
}

// Leave abandons the response.
func (r *Reply) Leave() {
	r.once.Do(func() { r.cancel(); r.Body.Close() })
}

// All reads the rest of the body; a transport error fails the test.
func (r *Reply) All() string {
	r.t.Helper()
	b, err := io.ReadAll(r.In)
	if err != nil {
		r.t.Errorf("the body breaks off after %q: %v", harness.Clip(string(b)), err)
	}
	r.Leave()
	return string(b)
}

// Frame reads one frame, to its blank line.
func (r *Reply) Frame() strict.Event {
	r.t.Helper()
	e, err := r.Next()
	if err != nil {
		r.t.Fatalf("instead of a frame: %v", err)
	}
	return e
}

// Next is Frame for readers that expect an end.
func (r *Reply) Next() (strict.Event, error) {
	raw := ""
	for {
		line, err := r.In.ReadString('\n')
		raw += line
		if err != nil {
			return strict.Event{Raw: raw}, err
		}
		if line == "\n" {
			return strict.Parse(raw)
		}
	}
}

// Answer reads and decodes the whole stream. The response must be an event stream with
// status 200.
func (r *Reply) Answer() *strict.Answer {
	r.t.Helper()
	body := r.All()
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		r.t.Fatalf("%s %s: %q", r.Status, r.Header.Get("Content-Type"), harness.Clip(body))
	}
	return strict.Decode(r.t, body)
}

// Of returns the client for a subtest.
func (c *Client) Of(t testing.TB) *Client {
	return &Client{t: t, HTTP: c.HTTP, Base: c.Base, Reloading: c.Reloading}
}

// CheckJSON wants a status with an OpenAI error in JSON. No message may name an address.
func CheckJSON(t *testing.T, r *Reply, status int, addr string) strict.APIError {
	t.Helper()
	body := r.All()
	var got struct {
		Error strict.APIError `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error.Message == "" || got.Error.Type == "" {
		t.Fatalf("%s, body %q: %v", r.Status, harness.Clip(body), err)
	}
	if r.StatusCode != status || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		t.Errorf("%s %s, want %d and JSON", r.Status, r.Header.Get("Content-Type"), status)
	}
	if strings.Contains(body, addr) || strings.Contains(body, "127.0.0.1") {
		t.Errorf("the message names an address: %s", body)
	}
	return got.Error
}

// CheckRepaired wants the tool of the recording one_tool as an event.
func (r *Reply) CheckRepaired(t testing.TB) {
	t.Helper()
	a := r.Answer()
	a.CheckGood(t)
	if len(a.Starts) != 1 || a.Content != "Let me check.\n\nThere are 3 files." {
		t.Errorf("starts %v, content %q", a.Starts, a.Content)
	}
}

// Dial connects to base, for a test that writes a request by hand.
func Dial(t testing.TB, base string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(harness.Patience))
	return conn
}

// ChunkedHead is the header of a request whose chunked body a test writes by hand.
const ChunkedHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

// Protocols returns transports of HTTP/1.1, HTTP/2 and HTTP/3 that trust the certificate in
// pool.
func Protocols(t testing.TB, pool *x509.CertPool) map[string]http.RoundTripper {
	config := func() *tls.Config { return &tls.Config{RootCAs: pool} } // each transport changes its own
	h1 := &http.Transport{TLSClientConfig: config(), DisableCompression: true}
	h2 := &http.Transport{TLSClientConfig: config(), DisableCompression: true, ForceAttemptHTTP2: true}
	h3 := &http3.Transport{TLSClientConfig: config(), DisableCompression: true}
	t.Cleanup(func() {
		h1.CloseIdleConnections()
		h2.CloseIdleConnections()
		h3.Close()
	})
	return map[string]http.RoundTripper{"HTTP/1.1": h1, "HTTP/2.0": h2, "HTTP/3.0": h3}
}

// Certificate makes a self-signed certificate for 127.0.0.1 and for names: cert.pem and
// key.pem in a directory.
func Certificate(t testing.TB, names ...string) (dir string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: names, BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	harness.WriteFile(t, filepath.Join(dir, "cert.pem"), cert)
	harness.WriteFile(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return dir, pool
}
