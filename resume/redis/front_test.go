package redis

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// front serves a store over HTTP, in front of upstream.
func front(t *testing.T, s resume.Store, upstream http.HandlerFunc) *httptest.Server {
	t.Helper()
	o := resume.DefaultOptions()
	o.Store, o.Secret = s, []byte("secret")
	h := httptest.NewServer(resume.New(o).Handler(upstream))
	t.Cleanup(h.Close)
	return h
}

// ask sends a request with the fields, in pairs, and returns the answer when that has begun. It
// names the same host everywhere, as behind a load balancer.
func ask(t *testing.T, h *httptest.Server, method, path string, fields ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, h.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "replicas.example"
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	res, err := h.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// body returns the rest of an answer.
func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
