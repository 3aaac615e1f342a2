package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
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

func TestReverseProxyPassesEarlyHints(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		u := upstream(t, func(conn *net.TCPConn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"+
				chunkedHead+chunked(role)+chunked(stop)+chunked(done)+"0\r\n\r\n")
		})
		var hints []string
		ctx := httptrace.WithClientTrace(patient(t), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
				return nil
			},
		})
		res := post(t, ctx, guarded(t, u, proxy.Options{}, http2))
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || string(body) != role+stop+done {
			t.Errorf("status %d, error %v, body\n%s", res.StatusCode, err, body)
		}
		if len(hints) != 1 || hints[0] != "103 </a.css>" {
			t.Errorf("the client got the hints %q", hints)
		}
	})
}

func TestReverseProxyPassesTrailers(t *testing.T) {
	for name, announced := range map[string]string{"announced": "Trailer: X-Sum\r\n", "not announced": ""} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				u := upstream(t, func(conn *net.TCPConn) {
					_, _ = io.WriteString(conn, strings.Replace(chunkedHead, "\r\n\r\n", "\r\n"+announced+"\r\n", 1)+
						chunked(role)+chunked(text("\\n`💻 ls`\\n"))+chunked(stop)+chunked(done)+"0\r\nX-Sum: 42\r\n\r\n")
				})
				res := post(t, patient(t), guarded(t, u, proxy.Options{}, http2))
				body, err := io.ReadAll(res.Body)
				if err != nil || !strings.Contains(string(body), `"status":"completed"`) {
					t.Errorf("error %v, body\n%s", err, body)
				}
				if got := res.Trailer.Get("X-Sum"); got != "42" {
					t.Errorf("the trailer is %q, want 42", got)
				}
			})
		})
	}
}

func TestReverseProxyPassesUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := upstream(t, func(conn *net.TCPConn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, conn)
		})
		srv := guarded(t, u, proxy.Options{Keepalive: time.Millisecond}, false)
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", chatPath)
		r := bufio.NewReader(conn)
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != "echo" {
			t.Fatalf("response %v, error %v; want 101", res, err)
		}
		for _, said := range []string{"data: {\"choices\"", "\n\n\x00", role} {
			_, _ = io.WriteString(conn, said)
			heard := make([]byte, len(said))
			if _, err := io.ReadFull(r, heard); err != nil || string(heard) != said {
				t.Errorf("said %q, heard %q, %v", said, heard, err)
			}
		}
	})
}

func TestReverseProxyPassesWhatIsNoStream(t *testing.T) {
	body := strings.Repeat("x", 100)
	for name, head := range map[string]string{
		"JSON":         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nEtag: \"1\"\r\nContent-Length: 100\r\n\r\n",
		"an error":     "HTTP/1.1 500 Oh\r\nContent-Type: text/event-stream\r\nEtag: \"1\"\r\nContent-Length: 100\r\n\r\n",
		"gzip, unread": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nEtag: \"1\"\r\nContent-Length: 100\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			u := upstream(t, func(conn *net.TCPConn) { _, _ = io.WriteString(conn, head+body) })
			srv := guarded(t, u, proxy.Options{}, false)
			srv.Client().Transport.(*http.Transport).DisableCompression = true
			res := post(t, patient(t), srv)
			got, err := io.ReadAll(res.Body)
			if err != nil || string(got) != body || res.ContentLength != 100 || res.Header.Get("Etag") != `"1"` {
				t.Errorf("error %v, length %d, header %v, body %q", err, res.ContentLength, res.Header, got)
			}
			if res.Header.Get("X-Accel-Buffering") != "" {
				t.Error("the header was changed")
			}
		})
	}
}

func TestReverseProxyBreaksOffWhatIsNoStream(t *testing.T) {
	u := upstream(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	})
	srv := guarded(t, u, proxy.Options{}, false)
	r, err := http.NewRequestWithContext(patient(t), http.MethodPost, srv.URL+chatPath, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(r)
	if err != nil {
		return // httputil has not flushed
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("half an answer looks whole: %q", body)
	}
}

func TestClientThatLeavesCancelsTheReverseProxysRequest(t *testing.T) {
	for name, sends := range map[string]string{
		"before the header":      "",
		"before the first frame": chunkedHead,
		"mid-stream":             chunkedHead + chunked(role),
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				sent, closed := make(chan struct{}), make(chan error, 1)
				u := upstream(t, func(conn *net.TCPConn) {
					_, _ = io.WriteString(conn, sends)
					close(sent)
					_, err := conn.Read(make([]byte, 1))
					closed <- err
				})
				ended := make(chan proxy.Result, 1)
				srv := guarded(t, u, proxy.Options{Observer: onEnd(func(_ *http.Request, res proxy.Result) { ended <- res })}, http2)
				ctx, leave := context.WithCancel(patient(t))
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					r, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+chatPath, strings.NewReader("{}"))
					res, err := srv.Client().Do(r)
					if err == nil {
						_, _ = io.ReadFull(res.Body, make([]byte, len(role)))
						leave()
						res.Body.Close()
					}
				}()
				<-sent
				if name == "mid-stream" {
					<-answered
				}
				leave()
				if err := <-closed; err == nil {
					t.Error("upstream's connection was written to, want it closed")
				}
				if res := <-ended; res.Outcome != proxy.OutcomeClientGone {
					t.Errorf("outcome %q, want client_gone", res.Outcome)
				}
				<-answered
			})
		})
	}
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
