package proxy_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func TestReverseProxyWhoseUpstreamDies(t *testing.T) {
	head, hello := chunkedHead, text("Hello")
	for name, c := range map[string]struct {
		sends string
		rst   bool // it resets the connection once the client has read seen
		seen  string
		last  string // what it sends just before
		want  string
	}{
		"not at all":                       {sends: head + chunked(role) + chunked(hello) + chunked(stop) + chunked(done) + "0\r\n\r\n", want: role + hello + stop + done},
		"by FIN inside a chunk":            {sends: head + chunked(role) + chunked(hello)[:30], want: role + errorFinish("upstream_aborted", false)},
		"by FIN between chunks":            {sends: head + chunked(role) + chunked(hello), want: role + hello + errorFinish("upstream_aborted", true)},
		"by RST inside a chunk":            {sends: head + chunked(role), rst: true, seen: role, last: chunked(hello)[:30], want: role + errorFinish("upstream_aborted", false)},
		"by RST between chunks":            {sends: head + chunked(role) + chunked(hello), rst: true, seen: role + hello, want: role + hello + errorFinish("upstream_aborted", true)},
		"by a clean end too early":         {sends: head + chunked(role) + chunked(hello) + "0\r\n\r\n", want: role + hello + errorFinish("upstream_incomplete", true)},
		"by a clean end within a frame":    {sends: head + chunked(role) + chunked(hello[:30]) + "0\r\n\r\n", want: role + errorFinish("upstream_incomplete", false)},
		"by FIN, with Connection: close":   {sends: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + role + hello[:30], want: role + errorFinish("upstream_incomplete", false)},
		"by FIN before its Content-Length": {sends: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100000\r\n\r\n" + role + hello, want: role + hello + errorFinish("upstream_aborted", true)},
		"by a malformed chunk":             {sends: head + chunked(role) + "zz\r\n", want: role + errorFinish("upstream_aborted", false)},
		"by RST behind the finish":         {sends: head + chunked(role) + chunked(hello) + chunked(stop), rst: true, seen: role + hello + stop, want: role + hello + stop + done},
		"by FIN behind the finish":         {sends: head + chunked(role) + chunked(hello) + chunked(stop), want: role + hello + stop + done},
		"by FIN behind [DONE]":             {sends: head + chunked(role) + chunked(hello) + chunked(stop) + chunked(done), want: role + hello + stop + done},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				seen := make(chan struct{})
				u := upstream(t, func(conn *net.TCPConn) {
					_, _ = io.WriteString(conn, c.sends)
					if !c.rst {
						return
					}
					select {
					case <-seen:
						_, _ = io.WriteString(conn, c.last)
						reset(conn)
					case <-time.After(patience): // the test has failed
					}
				})
				srv := guarded(t, u, proxy.Options{}, http2)
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
					if c.rst {
						seen <- struct{}{}
					}
					rest, err := io.ReadAll(res.Body)
					if err != nil {
						t.Errorf("the client saw a transport error: %v", err)
					}
					if got := string(first) + string(rest); got != c.want {
						t.Errorf("the client was sent\n%s\nwant\n%s", got, c.want)
					}
					if res.StatusCode != http.StatusOK || res.ContentLength >= 0 {
						t.Errorf("status %d, Content-Length %d; want 200 and none", res.StatusCode, res.ContentLength)
					}
					if i > 0 && !reused {
						t.Error("the client's connection did not outlive upstream's")
					}
				}
			})
		})
	}
}

func TestReverseProxyWhoseUpstreamDiesBeforeTheFirstFrame(t *testing.T) {
	for name, c := range map[string]struct{ sends, code string }{
		"by FIN behind the header":       {chunkedHead, "upstream_aborted"},
		"by FIN inside the first frame":  {chunkedHead + chunked(role[:20]), "upstream_aborted"},
		"by a clean end":                 {chunkedHead + "0\r\n\r\n", "upstream_incomplete"},
		"by a clean end inside a frame":  {chunkedHead + chunked(role[:20]) + "0\r\n\r\n", "upstream_incomplete"},
		"by a clean end with no content": {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n", "upstream_incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				u := upstream(t, func(conn *net.TCPConn) { _, _ = io.WriteString(conn, c.sends) })
				res := post(t, patient(t), guarded(t, u, proxy.Options{}, http2))
				body, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != http.StatusBadGateway {
					t.Fatalf("status %d, error %v; want 502", res.StatusCode, err)
				}
				checkAnswer(t, res.Header, body, c.code, true)
			})
		})
	}
}

func TestReverseProxyWhoseUpstreamIsSilent(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		u := upstream(t, func(conn *net.TCPConn) {
			_, _ = io.WriteString(conn, chunkedHead+chunked(role))
			_, _ = conn.Read(make([]byte, 1)) // until the connection is closed
		})
		for timeout := 100 * time.Millisecond; ; timeout *= 10 {
			res := post(t, patient(t), guarded(t, u, proxy.Options{IdleTimeout: timeout}, http2))
			body, err := io.ReadAll(res.Body)
			if res.StatusCode == http.StatusGatewayTimeout && timeout < patience {
				continue // the machine was too slow for the first frame
			}
			if want := role + errorFinish("upstream_timeout", false); err != nil || string(body) != want {
				t.Errorf("the client was sent, %v,\n%s\nwant\n%s", err, body, want)
			}
			return
		}
	})
}

func TestReverseProxyWhoseUpstreamDoesNotAnswer(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		u := upstream(t, func(conn *net.TCPConn) {
			_, _ = conn.Read(make([]byte, 1)) // until the connection is closed
		})
		srv := guarded(t, u, proxy.Options{FirstByteTimeout: time.Millisecond}, http2)
		res := post(t, patient(t), srv)
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusGatewayTimeout {
			t.Fatalf("status %d, error %v; want 504", res.StatusCode, err)
		}
		checkAnswer(t, res.Header, body, "upstream_timeout", true)
	})
}

func TestTrailersOfUpstreamsAreNoHeaderOfAnAnswer(t *testing.T) {
	u := upstream(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, strings.Replace(chunkedHead, "\r\n\r\n", "\r\nTrailer: X-Sum\r\n\r\n", 1)+"0\r\nX-Sum: 42\r\n\r\n")
	})
	res := post(t, patient(t), guarded(t, u, proxy.Options{}, false))
	if got := res.Header.Get("X-Sum"); got != "" || res.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d, X-Sum %q in the header; want 502 and none", res.StatusCode, got)
	}
}
