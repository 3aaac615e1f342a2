package proxy_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// reversed runs a test with a Proxy around a reverse proxy to the agent, towards clients of HTTP/1.1 and of HTTP/2.
func reversed(t *testing.T, agent http.HandlerFunc, f func(t *testing.T, srv *httptest.Server)) {
	upstream := httptest.NewServer(agent)
	t.Cleanup(upstream.Close)
	u, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(*httptest.Server){
		"h1": (*httptest.Server).Start,
		"h2": func(srv *httptest.Server) { srv.EnableHTTP2 = true; srv.StartTLS() },
	} {
		t.Run(name, func(t *testing.T) {
			quiet := log.New(io.Discard, "", 0)
			srv := httptest.NewUnstartedServer(proxy.New(proxy.Options{}).Handler(&httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, ErrorLog: quiet,
			}))
			srv.Config.ErrorLog = quiet
			start(srv)
			t.Cleanup(srv.Close)
			f(t, srv)
		})
	}
}

// send sends a request for a chat completion, chunked or with its length, and returns the body of the answer.
func send(t *testing.T, srv *httptest.Server, body string, chunked bool, trailer http.Header) (answer string, reused bool) {
	t.Helper()
	var in io.Reader = strings.NewReader(body)
	if chunked {
		in = io.MultiReader(in)
	}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+chatPath, in)
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
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("the client saw a transport error: %v", err)
	}
	return string(b), reused
}

// The client of an upstream that dies gets a whole answer, and its connection can be used again.
func TestReverseProxyWhoseUpstreamDies(t *testing.T) {
	dies := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, role+text("Hello")[:30])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	reversed(t, dies, func(t *testing.T, srv *httptest.Server) {
		for i := range 2 {
			got, reused := send(t, srv, asksForStream, false, nil)
			equal(t, got, role+errorFinish("upstream_aborted", false), "what the client was sent")
			equal(t, reused, i > 0, "the connection is used again")
		}
	})
}

// A request arrives with its own length, or chunked, and with its trailers, whether it is healed or not.
func TestUploads(t *testing.T) {
	padded := func(s string) string {
		return strings.Replace(s, `{`, `{"pad":"`+strings.Repeat("x", proxy.DefaultMaxRequest)+`",`, 1)
	}
	tells := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.ContentLength, r.Header["Content-Length"], r.TransferEncoding, r.Trailer, err, string(body))
	}
	reversed(t, tells, func(t *testing.T, srv *httptest.Server) {
		for in, want := range map[string]string{polluted: clean, clean: clean, padded(polluted): padded(polluted), "x" + polluted: "x" + polluted} {
			got, _ := send(t, srv, in, false, nil)
			equal(t, got == fmt.Sprint(int64(len(want)), []string{fmt.Sprint(len(want))}, []string(nil), http.Header(nil), nil, want), true, fmt.Sprintf("with its length: %.100s", got))
			trailer := http.Header{"X-Sum": {"42"}}
			if !strings.HasPrefix(in, "{\"s") { // it is not read before upstream is asked
				trailer = nil
			}
			got, _ = send(t, srv, in, true, trailer)
			equal(t, got == fmt.Sprint(-1, []string(nil), []string{"chunked"}, trailer, nil, want), true, fmt.Sprintf("chunked: %.100s", got))
		}
	})
}
