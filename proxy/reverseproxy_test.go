package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// TestReverseProxyWhoseUpstreamDies: whatever becomes of upstream's connection, the client
// gets a whole answer, and its connection can be used again.
func TestReverseProxyWhoseUpstreamDies(t *testing.T) {
	head, hello := chunkedHead, text("Hello")
	plain := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	for name, c := range map[string]struct {
		sends string
		seen  string // upstream resets the connection once the client has read it, if anything
		last  string // what it sends just before
		want  string // or the code of a 502
	}{
		"not at all":                       {sends: head + chunked(role) + chunked(hello) + chunked(stop) + chunked(done) + "0\r\n\r\n", want: role + hello + stop + done},
		"by FIN inside a chunk":            {sends: head + chunked(role) + chunked(hello)[:30], want: role + errorFinish("upstream_aborted", false)},
		"by RST inside a chunk":            {sends: head + chunked(role), seen: role, last: chunked(hello)[:30], want: role + errorFinish("upstream_aborted", false)},
		"by a clean end within a frame":    {sends: head + chunked(role) + chunked(hello[:30]) + "0\r\n\r\n", want: role + errorFinish("upstream_incomplete", false)},
		"by FIN, with Connection: close":   {sends: plain + "Connection: close\r\n\r\n" + role + hello[:30], want: role + errorFinish("upstream_incomplete", false)},
		"by FIN before its Content-Length": {sends: plain + "Content-Length: 100000\r\n\r\n" + role + hello, want: role + hello + errorFinish("upstream_aborted", true)},
		"by a malformed chunk":             {sends: head + chunked(role) + "zz\r\n", want: role + errorFinish("upstream_aborted", false)},
		"by RST after the finish":          {sends: head + chunked(role) + chunked(hello) + chunked(stop), seen: role + hello + stop, want: role + hello + stop + done},
		"by FIN after the header":          {sends: head, want: "upstream_aborted"},
		"by a clean end in the first":      {sends: head + chunked(role[:20]) + "0\r\n\r\n", want: "upstream_incomplete"},
		"by a clean end with no content":   {sends: plain + "Content-Length: 0\r\n\r\n", want: "upstream_incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				seen := make(chan struct{})
				u := upstream(t, func(conn *net.TCPConn) {
					_, _ = io.WriteString(conn, c.sends)
					if c.seen == "" {
						return
					}
					select {
					case <-seen:
						_, _ = io.WriteString(conn, c.last)
						reset(conn)
					case <-time.After(patience): // the test has failed
					}
				})
				srv := guarded(t, u, http2)
				for i := range 2 {
					reused := false
					ctx := httptrace.WithClientTrace(patient(t), &httptrace.ClientTrace{
						GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
					})
					res := post(t, ctx, srv)
					first := make([]byte, len(c.seen))
					if _, err := io.ReadFull(res.Body, first); err != nil {
						t.Fatal(err)
					}
					if c.seen != "" {
						seen <- struct{}{}
					}
					rest, err := io.ReadAll(res.Body)
					if err != nil || i > 0 && !reused {
						t.Errorf("the client saw a transport error: %v; its connection outlived upstream's: %v", err, reused)
					}
					if strings.HasPrefix(c.want, "upstream_") {
						equal(t, res.StatusCode, http.StatusBadGateway, "status")
						proxytest.CheckAnswer(t, res.Header, rest, c.want, true)
						continue
					}
					equal(t, string(first)+string(rest), c.want, "what the client was sent")
					equal(t, fmt.Sprint(res.StatusCode, res.ContentLength), "200 -1", "status and Content-Length")
				}
			})
		})
	}
}

func TestTrailersOfUpstreamsAreNoHeaderOfAnAnswer(t *testing.T) {
	u := upstream(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, strings.Replace(chunkedHead, "\r\n\r\n", "\r\nTrailer: X-Sum\r\n\r\n", 1)+"0\r\nX-Sum: 42\r\n\r\n")
	})
	res := post(t, patient(t), guarded(t, u, false))
	if got := res.Header.Get("X-Sum"); got != "" || res.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d, X-Sum %q in the header; want 502 and none", res.StatusCode, got)
	}
}

// chunked returns s as one HTTP chunk.
func chunked(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// upstream has serve answer each request on its connection.
func upstream(t *testing.T, serve func(c *net.TCPConn)) *url.URL {
	t.Helper()
	return serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		serve(c.(*net.TCPConn))
	})
}

// serverOf starts a server, and returns its address.
func serverOf(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// guarded serves a guarded httputil.ReverseProxy in front of upstream. It makes
// a connection for each request: many of the upstreams here end theirs.
func guarded(t *testing.T, u *url.URL, http2 bool) *httptest.Server {
	t.Helper()
	return started(t, http2, proxy.New(proxy.Options{}).Handler(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
		ErrorLog:  log.New(io.Discard, "", 0),
		Transport: &http.Transport{DisableKeepAlives: true},
	}))
}

// started starts a server, which logs nothing.
func started(t *testing.T, http2 bool, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if srv.EnableHTTP2 = http2; http2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

// post sends a request for a stream.
func post(t *testing.T, ctx context.Context, srv *httptest.Server) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+chatPath, strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// patient returns a context that ends when a test has waited long enough.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// protocols runs a test towards clients of HTTP/1.1 and HTTP/2.
func protocols(t *testing.T, f func(t *testing.T, http2 bool)) {
	t.Run("h1", func(t *testing.T) { f(t, false) })
	t.Run("h2", func(t *testing.T) { f(t, true) })
}

// reset closes a connection with a RST.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// arrived is a request as an upstream has got it.
type arrived struct {
	length   int64
	header   http.Header
	trailer  http.Header
	encoding []string
	body     string
	err      error
}

// reversed starts a server with a guard in front of a reverse proxy in front of an
// upstream that answers {} to what it tells of.
func reversed(t *testing.T, http2 bool) (srv *httptest.Server, got chan arrived) {
	t.Helper()
	got = make(chan arrived, 10)
	u := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got <- arrived{r.ContentLength, r.Header, r.Trailer, r.TransferEncoding, string(body), err}
		_, _ = io.WriteString(w, "{}")
	})
	return guarded(t, u, http2), got
}

// upload sends body as a request for a chat completion, chunked or with its length, and
// returns what upstream has got.
func upload(t *testing.T, srv *httptest.Server, got chan arrived, body string, trailer http.Header, chunked bool) arrived {
	t.Helper()
	var in io.Reader = strings.NewReader(body)
	if chunked {
		in = io.MultiReader(in)
	}
	r, err := http.NewRequestWithContext(patient(t), http.MethodPost, srv.URL+chatPath, in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Trailer = trailer
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, err := io.ReadAll(res.Body); err != nil || string(answer) != "{}" {
		t.Errorf("answer %q, %v", answer, err)
	}
	return <-got
}

func TestUploads(t *testing.T) {
	padded := func(s string, n int) string {
		return strings.Replace(s, `{`, `{"pad":"`+strings.Repeat("x", n)+`",`, 1)
	}
	const nearly, more = proxy.DefaultMaxRequest - 1000, proxy.DefaultMaxRequest + 1000
	protocols(t, func(t *testing.T, http2 bool) {
		srv, got := reversed(t, http2)
		for name, c := range map[string]struct{ in, want string }{
			"polluted": {polluted, clean}, "clean": {clean, clean}, "large": {padded(polluted, nearly), padded(clean, nearly)},
			"too large": {padded(polluted, more), padded(polluted, more)}, "no JSON": {"x" + polluted, "x" + polluted},
		} {
			for _, chunked := range []bool{false, true} {
				var trailer http.Header
				if chunked && (name == "polluted" || name == "clean") { // which are read before upstream is asked
					trailer = http.Header{"X-Sum": {"42"}}
				}
				a := upload(t, srv, got, c.in, trailer, chunked)
				if a.body != c.want || a.err != nil || a.trailer.Get("X-Sum") != trailer.Get("X-Sum") {
					t.Errorf("%s, chunked %v: upstream gets %.200q (%d bytes), %v, trailer %v", name, chunked, a.body, len(a.body), a.err, a.trailer)
				}
				length, said := int64(len(c.want)), strconv.Itoa(len(c.want))
				if chunked {
					length, said = -1, ""
				}
				if a.length != length || a.header.Get("Content-Length") != said || chunked != (len(a.encoding) == 1) {
					t.Errorf("%s: Content-Length %d %q, Transfer-Encoding %q", name, a.length, a.header.Get("Content-Length"), a.encoding)
				}
			}
		}
	})
}
