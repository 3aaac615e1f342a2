package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// question is the body of every request.
const question = `{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// A client sends requests to one sidecar and reads answers whole.
type client struct {
	t     testing.TB
	http  *http.Client
	base  string
	dials atomic.Int64 // TCP connections made

	// reloading says that a reload has just been. The server before it may then
	// still take a new connection and close it without an answer (so does
	// Caddy without the sidecar): such a request is sent again.
	reloading bool
}

// newClient speaks HTTP/1.1 without TLS to base.
func newClient(t testing.TB, base string) *client {
	c := &client{t: t, base: base}
	tr := &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c.dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	c.http = &http.Client{Transport: tr}
	return c
}

// clientOver speaks to base over a transport.
func clientOver(t testing.TB, transport http.RoundTripper, base string) *client {
	return &client{t: t, http: &http.Client{Transport: transport}, base: base}
}

// protocols are the transports of HTTP/1.1, HTTP/2 and HTTP/3 that trust the
// certificate in pool.
func protocols(t testing.TB, pool *x509.CertPool) map[string]http.RoundTripper {
	h1 := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true}
	h2 := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true, ForceAttemptHTTP2: true}
	h3 := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true}
	t.Cleanup(func() { h1.CloseIdleConnections(); h2.CloseIdleConnections(); h3.Close() })
	return map[string]http.RoundTripper{"HTTP/1.1": h1, "HTTP/2.0": h2, "HTTP/3.0": h3}
}

// certificate makes a self-signed certificate for 127.0.0.1, and for names, as
// cert.pem and key.pem in a directory.
func certificate(t testing.TB, names ...string) (dir string, pool *x509.CertPool) {
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
	write(t, filepath.Join(dir, "cert.pem"), cert)
	write(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return dir, pool
}

// A reply is a response that is read while it comes.
type reply struct {
	*http.Response
	t      testing.TB
	in     *bufio.Reader
	cancel context.CancelFunc
	once   sync.Once
}

// post sends the question to path, with headers as name, value, name, value, and
// returns when the response's header has come. Patience bounds the whole.
func (c *client) post(path string, headers ...string) *reply {
	c.t.Helper()
	r, err := c.try(path, headers...)
	if err != nil {
		c.t.Fatalf("%s: %v", path, err)
	}
	return r
}

// try is post for requests that may fail.
func (c *client) try(path string, headers ...string) (*reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, strings.NewReader(question))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.http.Do(req)
	for err != nil && c.reloading && ctx.Err() == nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		again := req.Clone(ctx)
		again.Body = io.NopCloser(strings.NewReader(question))
		res, err = c.http.Do(again)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return newReply(c.t, res, cancel), nil
}

// newReply reads a response until it is left, at the latest at the end of the test.
func newReply(t testing.TB, res *http.Response, cancel context.CancelFunc) *reply {
	r := &reply{Response: res, t: t, in: bufio.NewReader(res.Body), cancel: cancel}
	t.Cleanup(r.leave)
	return r
}

// get sends a GET until it is answered, for as long as patience lasts: a server that
// has just been started or reloaded may refuse or close the first connections. Headers
// are name, value, name, value; Host is one of them.
func get(t testing.TB, c *http.Client, url string, headers ...string) (res *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err = c.Do(req)
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); {
		res, err = c.Do(req)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %s: %v", url, res.Status, err)
	}
	return res, string(b)
}

// get is the body of the answer to a GET.
func (c *client) get(path string) string {
	c.t.Helper()
	_, body := get(c.t, c.http, c.base+path)
	return body
}

// chat posts to /v1/chat/completions.
func (c *client) chat(headers ...string) *reply {
	c.t.Helper()
	return c.post("/v1/chat/completions", headers...)
}

// play asks for the script of a router, or a recording of a library.
func (c *client) play(name string, headers ...string) *reply {
	c.t.Helper()
	return c.chat(append([]string{"X-Play", name}, headers...)...)
}

// leave abandons the response.
func (r *reply) leave() {
	r.once.Do(func() { r.cancel(); r.Body.Close() })
}

// all reads the rest of the body; a transport error fails the test.
func (r *reply) all() string {
	r.t.Helper()
	b, err := io.ReadAll(r.in)
	if err != nil {
		r.t.Errorf("the body breaks off after %q: %v", clip(string(b)), err)
	}
	r.leave()
	return string(b)
}

// frame reads one frame, to its blank line.
func (r *reply) frame() event {
	r.t.Helper()
	e, err := r.next()
	if err != nil {
		r.t.Fatalf("instead of a frame: %v", err)
	}
	return e
}

// next is frame for readers that expect an end.
func (r *reply) next() (event, error) {
	var raw bytes.Buffer
	for {
		line, err := r.in.ReadBytes('\n')
		raw.Write(line)
		if err != nil {
			return event{raw: raw.String()}, err
		}
		if len(line) == 1 {
			return parse(raw.String())
		}
	}
}

// answer reads the whole stream and decodes it, and wants status 200 and an
// event stream.
func (r *reply) answer() *answer {
	r.t.Helper()
	body := r.all()
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		r.t.Fatalf("%s %s: %q", r.Status, r.Header.Get("Content-Type"), clip(body))
	}
	return decode(r.t, body)
}
