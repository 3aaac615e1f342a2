package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// chunked returns s as one HTTP chunk.
func chunked(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// upstream listens for connections and has serve answer one request on each.
func upstream(t *testing.T, serve func(c *net.TCPConn)) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

// guarded serves a guarded httputil.ReverseProxy in front of upstream. It makes
// a connection for each request: many of the upstreams here end theirs.
func guarded(t *testing.T, u *url.URL, o proxy.Options, http2 bool) *httptest.Server {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	transport := &http.Transport{DisableKeepAlives: true}
	next := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
		ErrorLog:  quiet,
		Transport: transport,
	}
	h := proxy.New(o).Handler(next)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The upstreams here answer at once. The server closes the body when the
		// header leaves, and a transport that is still reading it drops
		// upstream's connection then (http.ResponseController.EnableFullDuplex says so).
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = quiet
	if http2 {
		srv.EnableHTTP2 = true
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

// post sends a request for a chat completion.
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
