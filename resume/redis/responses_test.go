package redis

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestResponsesOfAnotherReplica are found there by their own ids, while they go on and after, and
// cancelled.
func TestResponsesOfAnotherReplica(t *testing.T) {
	a, b := startServer(t).replicas()
	each := make(chan struct{})
	upstream := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/responses" {
			_, _ = io.WriteString(w, "passed")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 3 {
			_, _ = fmt.Fprintf(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"},\"sequence_number\":%d}\n\n", n)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-each:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\"},\"sequence_number\":3}\n\n")
	}
	here, there := front(t, a, upstream), front(t, b, upstream)
	const path = "/v1/responses/resp_1"
	begin := func() {
		t.Helper()
		res := ask(t, here, http.MethodPost, "/v1/responses", "X-Hermes-Detach", "10m")
		if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	begin()
	each <- struct{}{}
	live := ask(t, there, http.MethodGet, path+"?stream=true&starting_after=0")
	each <- struct{}{}
	each <- struct{}{}
	got := body(t, live)
	if n := strings.Count(got, "data: "); n != 3 || !strings.Contains(got, `"sequence_number":1`) {
		t.Errorf("it gets %q", got)
	}
	if again := body(t, ask(t, there, http.MethodGet, path+"?stream=true&starting_after=0")); again != got {
		t.Errorf("after the end it gets %q, not %q", again, got)
	}
	if got := body(t, ask(t, there, http.MethodPost, path+"/cancel")); !strings.Contains(got, "completed") {
		t.Errorf("cancelled after the end, it is %q", got)
	}
	id := live.Header.Get("X-Hermes-Stream")
	if res := ask(t, there, http.MethodDelete, "/v1/responses/"+id); res.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", res.Status)
	}
	if got := body(t, ask(t, there, http.MethodGet, path+"?stream=true")); got != "passed" {
		t.Errorf("deleted, it is %q", got)
	}
}

// TestCancellingAResponseOfAnotherReplica closes the connection of upstream there.
func TestCancellingAResponseOfAnotherReplica(t *testing.T) {
	a, b := startServer(t).replicas()
	left := make(chan struct{})
	upstream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"},\"sequence_number\":0}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}
	here, there := front(t, a, upstream), front(t, b, upstream)
	first := ask(t, here, http.MethodPost, "/v1/responses", "X-Hermes-Detach", "10m")
	if _, err := io.ReadFull(first.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		res := ask(t, there, http.MethodPost, "/v1/responses/resp_1/cancel")
		if got := body(t, res); got != `{"id":"resp_1","status":"cancelled"}` {
			t.Errorf("it is %s %q", res.Status, got)
		}
	}
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatal("upstream's connection is not closed")
	}
	if end := body(t, first); !strings.Contains(end, "response.failed") {
		t.Errorf("its client gets the end %q", end)
	}
}
