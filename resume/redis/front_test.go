package redis

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// Streams that another replica runs, with each kind of log that package resume makes of them.

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

// firstBytes returns the first n bytes of an answer.
func firstBytes(t *testing.T, res *http.Response, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(res.Body, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestResponseOfAnotherReplica is found by its own id, continued and cancelled.
func TestResponseOfAnotherReplica(t *testing.T) {
	a, b := startServer(t).replicas()
	left := make(chan struct{})
	upstream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 2 {
			fmt.Fprintf(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"},\"sequence_number\":%d}\n\n", n)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}
	here, there := front(t, a, upstream), front(t, b, upstream)
	first := ask(t, here, http.MethodPost, "/v1/responses", "X-Hermes-Detach", "10m")
	firstBytes(t, first, 1)
	live := ask(t, there, http.MethodGet, "/v1/responses/resp_1?stream=true&starting_after=0")
	for range 2 {
		res := ask(t, there, http.MethodPost, "/v1/responses/resp_1/cancel")
		if got := body(t, res); got != `{"id":"resp_1","status":"cancelled"}` {
			t.Errorf("it is %s %q", res.Status, got)
		}
	}
	<-left
	got, end := body(t, live), body(t, first)
	if !strings.Contains(end, "response.failed") || !strings.HasSuffix(end, got) ||
		strings.Count(got, "data: ") != 2 || !strings.Contains(got, `"sequence_number":1`) {
		t.Errorf("its client gets the end %q, and the other %q", end, got)
	}
}

// TestRunOfAnotherReplica has its events read from Hermes once, and once more for the next reader when the
// replica has died.
func TestRunOfAnotherReplica(t *testing.T) {
	server := startServer(t)
	a, _ := server.replica(mortal)
	b, _ := server.replica(nil)
	var asked atomic.Int64
	says := make(chan string)
	defer close(says)
	hermes := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"run_id": "run_1"}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if asked.Add(1) > 1 {
			_, _ = io.WriteString(w, event(1)+event(2)+event(3))
			return
		}
		for s := range says {
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
		}
	}
	here, there := front(t, a, hermes), front(t, b, hermes)
	numbered := func(n int) string {
		return strings.TrimSuffix(event(n), "\n") + "id: " + strconv.Itoa(n-1) + "\n\n"
	}
	after := func(n int) *http.Response {
		return ask(t, there, http.MethodGet, "/v1/runs/run_1/events", "Last-Event-ID", strconv.Itoa(n-1))
	}
	body(t, ask(t, here, http.MethodPost, "/v1/runs"))
	says <- event(1)
	live := ask(t, there, http.MethodGet, "/v1/runs/run_1/events")
	if got := firstBytes(t, live, len(numbered(1))); got != numbered(1) {
		t.Fatalf("it is %q", got)
	}
	says <- event(2)
	if got := firstBytes(t, after(1), len(numbered(2))); got != numbered(2) || asked.Load() != 1 {
		t.Fatalf("after the first: %q, asked %d times", got, asked.Load())
	}
	die(a)
	if rest, err := io.ReadAll(live.Body); err == nil {
		t.Errorf("the end is clean after %q", rest)
	}
	if rest := body(t, after(2)); rest != numbered(3) || asked.Load() != 2 {
		t.Errorf("asked again: %q, %d times", rest, asked.Load())
	}
	until(t, "the end is in Redis", func() bool { return after(3).StatusCode == http.StatusNoContent })
}

// TestSplitOfAnotherReplica has both of its streams, and ends the run by the id of the first.
func TestSplitOfAnotherReplica(t *testing.T) {
	a, b := startServer(t).replicas()
	may, split := make(chan struct{}), make(chan *resume.Split, 1)
	left := make(chan struct{})
	upstream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event(1))
		_ = http.NewResponseController(w).Flush()
		is := resume.NewSplit(r.Context(), time.Minute)
		if is == nil || !is.Do() {
			t.Error("it is not split")
		}
		split <- is
		<-may
		_, _ = io.WriteString(w, event(2))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}
	here, there := front(t, a, upstream), front(t, b, upstream)
	first := ask(t, here, http.MethodPost, "/v1/x", "Idempotency-Key", "k")
	want := body(t, first)
	again := ask(t, there, http.MethodPost, "/v1/x", "Idempotency-Key", "k")
	if got := body(t, again); got != want || strings.Count(want, "data: ") != 1 {
		t.Errorf("the first stream is %q, and elsewhere %q", want, got)
	}
	id := (<-split).ID()
	rest := ask(t, there, http.MethodGet, "/v1/x/"+id)
	close(may)
	want = strings.TrimSuffix(event(2), "\n") + "id: " + id + "/1\n\n"
	if got := firstBytes(t, rest, len(want)); got != want {
		t.Errorf("the rest is %q, want %q", got, want)
	}
	if res := ask(t, there, http.MethodDelete, "/v1/x/"+first.Header.Get(resume.StreamHeader)); res.StatusCode != http.StatusNoContent {
		t.Fatal(res.Status)
	}
	<-left
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
