package resumecaddy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"

	"github.com/hermes-sidecar/hermes-sidecar/resume/splice"
)

// TestTransportInACaddyfile has its own options and those of the transport http.
func TestTransportInACaddyfile(t *testing.T) {
	for text, want := range map[string]string{
		"":                            `{"protocol":"hermes_resume"}`,
		"resume_for 30s\ndetach":      `{"detach":true,"protocol":"hermes_resume","resume_for":30000000000}`,
		"keepalive 4s\nresume_for 2m": `{"keep_alive":{"idle_timeout":4000000000},"protocol":"hermes_resume","resume_for":120000000000}`,
		"tls\ndial_timeout 1s":        `{"dial_timeout":1000000000,"protocol":"hermes_resume","tls":{}}`,
		"resume_for 1ms":              "error: invalid resume_for",
		"resume_for":                  "error: wrong argument count",
		"detach now":                  "error: wrong argument count",
		"keep_forever":                "error: unrecognized",
	} {
		var h reverseproxy.Handler
		d := caddyfile.NewTestDispenser("reverse_proxy 127.0.0.1:1 {\n transport hermes_resume {\n" + text + "\n}\n}")
		got := ""
		if err := h.UnmarshalCaddyfile(d); err != nil {
			got = "error: " + err.Error()
		} else {
			got = string(h.TransportRaw)
		}
		if got != want && (!strings.HasPrefix(want, "error: ") || !strings.Contains(strings.ToLower(got), want[len("error: "):])) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	var h reverseproxy.Handler // TLS is switched on by the scheme of the upstream
	if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("reverse_proxy https://site {\n transport hermes_resume\n}")); err != nil || !strings.Contains(string(h.TransportRaw), `"tls":{}`) {
		t.Errorf("%v, %s", err, h.TransportRaw)
	}
}

// TestVariablesOfARequest are not those of the requests that the transport sends: it comes back while
// handlers use them, and they have no lock.
func TestVariablesOfARequest(t *testing.T) {
	var sent sync.WaitGroup
	site := roundTripper(func(r *http.Request) (*http.Response, error) {
		for range 100 {
			caddyhttp.SetVar(r.Context(), "proxy", r.Method)
		}
		res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}, "X-Hermes-Stream": {"stream_1111111111111111111111"}}}
		res.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
		switch r.Method {
		case http.MethodGet:
			res = &http.Response{StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/problem+json"}, "X-Should-Retry": {"false"}}, Body: http.NoBody}
		case http.MethodDelete:
			sent.Done()
		}
		return res, nil
	})
	h := &Transport{splice: splice.Transport{Next: ownVars{site}}}
	for range 20 {
		sent.Add(1)
		vars := map[string]any{"theirs": 1}
		q := httptest.NewRequest(http.MethodPost, "http://site/v1/chat/completions", strings.NewReader(`{"stream":true}`))
		ctx := context.WithValue(q.Context(), caddyhttp.VarsCtxKey, vars)
		res, err := h.RoundTrip(q.WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.ReadAll(res.Body); _ = res.Body.Close() }()
		for i := range 100 {
			caddyhttp.SetVar(ctx, "theirs", i)
		}
		sent.Wait()
		if _, ok := vars["proxy"]; ok {
			t.Fatal("a variable of the transport's")
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
