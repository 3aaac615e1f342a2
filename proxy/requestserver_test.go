package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// arrived is a request as an upstream has got it.
type arrived struct {
	length   int64
	header   http.Header
	trailer  http.Header
	encoding []string
	body     string
	err      error
}

// behind starts a server with a guard in front of a reverse proxy in front of an
// upstream that answers {} to what it tells of.
func behind(t *testing.T, http2 bool) (srv *httptest.Server, got chan arrived) {
	t.Helper()
	got = make(chan arrived, 10)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got <- arrived{r.ContentLength, r.Header, r.Trailer, r.TransferEncoding, string(body), err}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(up.Close)
	u, _ := url.Parse(up.URL)
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	srv = httptest.NewUnstartedServer(proxy.New(proxy.Options{}).Handler(next))
	if srv.EnableHTTP2 = http2; http2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv, got
}

func TestUploads(t *testing.T) {
	padded := func(s string, n int) string {
		return strings.Replace(s, `{`, `{"pad":"`+strings.Repeat("x", n)+`",`, 1)
	}
	const nearly, more = proxy.DefaultMaxRequest - 1000, proxy.DefaultMaxRequest + 1000
	protocols(t, func(t *testing.T, http2 bool) {
		srv, got := behind(t, http2)
		for name, c := range map[string]struct{ in, want string }{
			"polluted": {polluted, clean}, "clean": {clean, clean}, "large": {padded(polluted, nearly), padded(clean, nearly)},
			"too large": {padded(polluted, more), padded(polluted, more)}, "no JSON": {"x" + polluted, "x" + polluted},
		} {
			for _, chunked := range []bool{false, true} {
				var body io.Reader = strings.NewReader(c.in)
				if chunked {
					body = io.MultiReader(body)
				}
				r, err := http.NewRequestWithContext(patient(t), http.MethodPost, srv.URL+chatPath, body)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				res, err := srv.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || string(answer) != "{}" {
					t.Errorf("%s: answer %q, %v", name, answer, err)
				}
				a := <-got
				if a.body != c.want || a.err != nil {
					t.Errorf("%s, chunked %v: upstream gets %.200q (%d bytes), %v", name, chunked, a.body, len(a.body), a.err)
				}
				if want := int64(len(c.want)); !chunked && (a.length != want || a.header.Get("Content-Length") != strconv.FormatInt(want, 10)) {
					t.Errorf("%s: Content-Length %d %q, want %d", name, a.length, a.header.Get("Content-Length"), want)
				}
				if chunked && (a.length != -1 || len(a.encoding) != 1) {
					t.Errorf("%s: Content-Length %d, Transfer-Encoding %q; want it chunked", name, a.length, a.encoding)
				}
			}
		}
	})
}

func TestTrailersOfRequests(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		srv, got := behind(t, http2)
		for in, want := range map[string]string{polluted: clean, clean: clean} {
			r, err := http.NewRequestWithContext(patient(t), http.MethodPost, srv.URL+chatPath, io.MultiReader(strings.NewReader(in)))
			if err != nil {
				t.Fatal(err)
			}
			r.Trailer = http.Header{"X-Sum": {"42"}}
			res, err := srv.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if a := <-got; a.body != want || a.err != nil || a.trailer.Get("X-Sum") != "42" {
				t.Errorf("%q, %v, trailer %v", a.body, a.err, a.trailer)
			}
		}
	})
}

// dial connects to a server, for requests by hand.
func dial(t *testing.T, srv *httptest.Server) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn, bufio.NewReader(conn)
}

func TestClientIsToldToContinue(t *testing.T) {
	srv, got := behind(t, false)
	conn, in := dial(t, srv)
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", chatPath, len(polluted))
	line, err := in.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v; want 100 Continue", line, err)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(conn, polluted)
	res, err := http.ReadResponse(in, nil)
	for err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(in, nil) // upstream's own passes
	}
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", res, err)
	}
	if a := <-got; a.body != clean || a.err != nil {
		t.Errorf("upstream gets %q, %v", a.body, a.err)
	}
}

// A client that leaves in the middle of its request, or breaks its framing, does
// not make half a request a whole one.
func TestUploadsThatBreakOff(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		sent string
	}{
		"Content-Length": {fmt.Sprintf("Content-Length: %d", len(polluted)+1), polluted},
		"chunked":        {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(polluted), polluted)},
		"malformed":      {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\nzz\r\n", len(polluted), polluted)},
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan error, 1)
			next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				read <- err
			})
			srv := httptest.NewServer(proxy.New(proxy.Options{}).Handler(next))
			t.Cleanup(srv.Close)
			conn, _ := dial(t, srv)
			_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s", chatPath, c.head, c.sent)
			_ = conn.(*net.TCPConn).CloseWrite()
			if err := <-read; err == nil {
				t.Error("the body looks whole")
			}
		})
	}
}

// A client that leaves while it sends, so that its request is cancelled, is not
// waited for.
func TestClientLeavesWhileItSends(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		read := make(chan error, 1)
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			read <- err
		})
		srv := httptest.NewUnstartedServer(proxy.New(proxy.Options{}).Handler(next))
		if srv.EnableHTTP2 = http2; http2 {
			srv.StartTLS()
		} else {
			srv.Start()
		}
		t.Cleanup(srv.Close)
		ctx, leave := context.WithCancel(patient(t))
		out, body := io.Pipe()
		go func() {
			_, _ = io.WriteString(body, polluted[:50])
			leave()
			// The client's transport waits for a read that is under way.
			_ = body.CloseWithError(context.Canceled)
		}()
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+chatPath, out)
		if res, err := srv.Client().Do(r); err == nil {
			res.Body.Close()
			t.Error("there is an answer")
		}
		if err := <-read; err == nil {
			t.Error("the body looks whole")
		}
	})
}
