package redis

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// front serves a store over HTTP, in front of upstream.
func front(t *testing.T, s log.Store, upstream http.HandlerFunc) *httptest.Server {
	t.Helper()
	o := resume.DefaultOptions()
	o.Store, o.Secret = s, []byte("secret")
	h := httptest.NewServer(resume.New(o).Handler(upstream))
	t.Cleanup(h.Close)
	return h
}

// ask sends a request with the fields, in pairs, and returns the answer when that has begun. It
// names the same host everywhere, as with a load balancer.
func ask(t *testing.T, h *httptest.Server, method, path string, fields ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, nil)
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

// answer is an upstream whose answers say which request they are of.
func answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", r.Header.Get("Name"))
}

// TestHostileNames has keys of requests be whatever clients can send: each has its own stream,
// and nothing of them is in the name of a key in Redis.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	a, logs := server.replica(nil)
	b, _ := server.replica(nil)
	here, there := front(t, a, answer), front(t, b, answer)
	names := []string{
		"*", "?", "[a-z]*", "test:*", "test:log:*", `\`, `"`, `" FLUSHALL "`, "a\tb", "\u00fc\xff", "{a}", "%0d%0aFLUSHALL", "$5",
		strings.Repeat("x", 500_000), strings.Repeat("x", 500_000) + "y", "0", "-1", "nil",
	}
	for i, name := range names {
		first := ask(t, here, "POST", "/chat", "Idempotency-Key", name, "Name", fmt.Sprint(i))
		want := body(t, first)
		if !strings.HasPrefix(want, fmt.Sprintf("data: %d\n", i)) {
			t.Errorf("%.20q has another's %q", name, want)
		}
		again := ask(t, there, "POST", "/chat", "Idempotency-Key", name, "Name", "again")
		if got := body(t, again); got != want || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%.20q is %q again", name, got)
		}
	}
	want := regexp.MustCompile(`^test:((log|events|readers):\{[A-Za-z0-9_-]{3}\}:stream_[A-Za-z0-9_-]{22}|key:\{[A-Za-z0-9_-]{3}\}:[0-9a-f]{64})$`)
	keys := server.keys()
	for _, key := range keys {
		if !want.MatchString(key) {
			t.Errorf("a key of Redis is %q", key)
		}
	}
	if len(keys) < 3*len(names) || logs.Len() > 0 {
		t.Errorf("%d keys, and logs %v", len(keys), logs.All())
	}
}
