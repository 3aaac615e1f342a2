package redis

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// TestEventsOfARunAtAnyReplica are read from Hermes once, and any replica has them, also after the
// end. When the one that reads them dies, the next reader asks Hermes again.
func TestEventsOfARunAtAnyReplica(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(mortal)
	there, _ := server.replica(nil)
	var asked atomic.Int64
	says := make(chan string)
	hermes := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"run_id": "run_1"}`)
			return
		}
		again := asked.Add(1) > 1
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		if again {
			_, _ = io.WriteString(w, event(1)+event(2)+event(3))
			return
		}
		for {
			select {
			case s, ok := <-says:
				if !ok {
					return
				}
				_, _ = io.WriteString(w, s)
			case <-r.Context().Done():
				return
			}
		}
	}
	first, second := front(t, here, hermes), front(t, there, hermes)
	const path = "/v1/runs/run_1/events"
	if res := ask(t, first, http.MethodPost, "/v1/runs"); res.StatusCode != http.StatusAccepted || body(t, res) == "" {
		t.Fatal(res.Status)
	}
	numbered := func(n int) string {
		return strings.TrimSuffix(event(n), "\n") + "id: " + strconv.Itoa(n-1) + "\n\n"
	}
	says <- event(1)
	a, b := ask(t, first, http.MethodGet, path), ask(t, second, http.MethodGet, path)
	for _, res := range []*http.Response{a, b} {
		got := make([]byte, len(numbered(1)))
		if _, err := io.ReadFull(res.Body, got); string(got) != numbered(1) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	says <- event(2)
	c := ask(t, second, http.MethodGet, path, "Last-Event-ID", "0")
	got := make([]byte, len(numbered(2)))
	if _, err := io.ReadFull(c.Body, got); string(got) != numbered(2) {
		t.Fatalf("after the first: %q, %v", got, err)
	}
	if n := asked.Load(); n != 1 {
		t.Fatalf("upstream was asked %d times", n)
	}

	die(here)
	if rest, err := io.ReadAll(c.Body); err == nil {
		t.Errorf("the end is clean after %q", rest)
	}
	d := ask(t, second, http.MethodGet, path, "Last-Event-ID", "1")
	if rest := body(t, d); rest != numbered(3) {
		t.Errorf("asked again: %q", rest)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("upstream was asked %d times", n)
	}
	close(says)
	until(t, "the end is in Redis", func() bool {
		res := ask(t, second, http.MethodGet, path, "Last-Event-ID", "2")
		defer res.Body.Close()
		return res.StatusCode == http.StatusNoContent
	})
	if rest := body(t, ask(t, second, http.MethodGet, path)); rest != numbered(1)+numbered(2)+numbered(3) {
		t.Errorf("after the end: %q", rest)
	}
}
