package redis

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// answer is an upstream whose answers say which request they are of.
func answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", r.Header.Get("Name"))
}

// TestHostileNames has keys of requests and ids of streams be whatever clients can send: each
// key has its own stream, no id is found that is none, and nothing of them is in the name of a
// key in Redis.
func TestHostileNames(t *testing.T) {
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
	for _, id := range []string{"**********************", "stream_**********************", "stream_%2a*********************", "stream_[a-z]*0000000000000000", "stream_0000000000000000000000", "..", "*"} {
		for _, method := range []string{"GET", "DELETE"} {
			if res := ask(t, there, method, "/chat/"+id, "Name", "none"); res.StatusCode == http.StatusOK && body(t, res) != "data: none\n\n" ||
				res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s is %s", method, id, res.Status)
			}
		}
		if res := ask(t, there, "POST", "/chat", "Last-Event-ID", id+"/1", "Name", "none"); res.StatusCode == http.StatusOK && body(t, res) != "data: none\n\n" {
			t.Errorf("behind %s is %s", id, res.Status)
		}
	}
	want := regexp.MustCompile(`^test:((log|events|readers):stream_[A-Za-z0-9_-]{22}|key:[0-9a-f]{64}|replica:[0-9a-f]{24})$`)
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

// TestAnotherTenant gets the same answers at every replica, whether there is a stream or not.
func TestAnotherTenant(t *testing.T) {
	server := startServer(t)
	a, _ := server.replica(nil)
	b, _ := server.replica(nil)
	here, there := front(t, a, answer), front(t, b, answer)
	first := ask(t, here, "POST", "/chat", "Idempotency-Key", "1", "Name", "secret", "Authorization", "Bearer one")
	want, id := body(t, first), first.Header.Get("X-Hermes-Stream")
	unknown := "stream_" + strings.Repeat("0", 22)
	for i, h := range []*httptest.Server{here, there} {
		for _, as := range [][]string{nil, {"Authorization", "Bearer two"}, {"Authorization", "bearer one"}, {"Authorization", "Bearer one", "Cookie", "a=b"}, {"X-Api-Key", "Bearer one"}} {
			get := func(method, path string, fields ...string) string {
				res := ask(t, h, method, path, append(fields, as...)...)
				return fmt.Sprint(res.StatusCode, res.Header.Get("Content-Type"), body(t, res))
			}
			for _, method := range []string{"GET", "DELETE"} {
				if got, none := get(method, "/chat/"+id), get(method, "/chat/"+unknown); got != none || !strings.HasPrefix(got, "404") {
					t.Errorf("at %d %s as %q is %s, of an unknown one %s", i, method, as, got, none)
				}
			}
			if got, none := get("POST", "/chat", "Last-Event-ID", id+"/0"), get("POST", "/chat", "Last-Event-ID", unknown+"/0"); got != none || !strings.HasPrefix(got, "404") {
				t.Errorf("at %d POST as %q is %s, of an unknown one %s", i, as, got, none)
			}
			if got := get("POST", "/chat", "Idempotency-Key", "1", "Name", "other"); !strings.Contains(got, "data: other\n") {
				t.Errorf("at %d the key as %q is %s", i, as, got)
			}
		}
		if got := body(t, ask(t, h, "GET", "/chat/"+id, "Authorization", "Bearer one")); got != want {
			t.Errorf("at %d its owner has %q, want %q", i, got, want)
		}
	}
}
