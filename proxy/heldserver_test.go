package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// Nor do a real server and a real transport hold the histories of open streams, healed
// or not.
func TestMemoryOfOpenStreamsBetweenServers(t *testing.T) {
	const card = `{"role":"assistant","content":"a","tool_calls":[{"id":"c","type":"function","function":{"name":"terminal","arguments":"{\"label\": \"ls\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":"completed"},`
	carded := strings.Replace(clean, `[`, `[`+card, 1)
	both := strings.Replace(polluted, `[`, `[`+card, 1)
	for _, http2 := range []bool{false, true} {
		for name, history := range map[string]string{"clean": clean, "markers": polluted, "cards": carded, "both": both} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", name, http2), func(t *testing.T) { checkOpenStreams(t, history, http2) })
		}
	}
}

// checkOpenStreams opens streams with a large history, and checks that nothing of that is
// in memory.
func checkOpenStreams(t *testing.T, history string, http2 bool) {
	const streams, size = 20, 2 << 20
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	serve := func(h http.Handler) *httptest.Server {
		srv := httptest.NewUnstartedServer(h)
		srv.Config.Protocols = &protocols
		srv.Start()
		t.Cleanup(srv.Close)
		return srv
	}
	up := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n < size || (r.ProtoMajor == 2) != http2 {
			t.Errorf("%d bytes in %s, %v", n, r.Proto, err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, role)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := func() *http.Transport {
		tr := &http.Transport{Protocols: &protocols}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, Transport: transport()}
	srv := serve(proxy.New(proxy.Options{}).Handler(next))
	client := transport()
	body := history + strings.Repeat(" ", size) // the clients share it
	before := heapNow()
	for range streams {
		r, err := http.NewRequestWithContext(patient(t), http.MethodPost, srv.URL+chatPath, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		res, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		if _, err := io.ReadFull(res.Body, make([]byte, len(role))); err != nil {
			t.Fatal(err)
		}
	}
	most := int64(streams * size / 8)
	if http2 {
		most += 4 << 20 // its connections take two to four, as without us
	}
	if took := heapNow() - before; took > most {
		t.Errorf("%d open streams with histories of %d bytes take %d bytes", streams, size, took)
	}
}
