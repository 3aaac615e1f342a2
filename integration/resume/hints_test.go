package resume

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// hintingSite is a site that sends informational answers before each of its answers, and breaks off
// the stream of a POST after its first event. A POST waits for answer. What it was asked goes to asked.
func hintingSite(t *testing.T, answer <-chan struct{}, asked chan<- string) *httptest.Server {
	const id = "stream_aaaaaaaaaaaaaaaaaaaaaa"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- r.Method
		if r.Method == http.MethodPost {
			<-answer
		}
		w.Header().Set("Link", "</"+r.Method+">")
		for range 3 {
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.Header().Del("Link")
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Hermes-Stream", id)
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, "data: 1\nid: "+id+"/1\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "data: [DONE]\nid: "+id+"/2\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv
}

// TestInformationalAnswersOfADistantSite reach the client before the stream, and none of those that
// come when the connection has broken.
func TestInformationalAnswersOfADistantSite(t *testing.T) {
	answer, asked := make(chan struct{}), make(chan string, 100)
	close(answer)
	site := hintingSite(t, answer, asked)
	c, _ := near(t, strings.TrimPrefix(site.URL, "http://"))
	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		hints = append(hints, h.Get("Link"))
		return nil
	}}
	q := hinted(t, httptrace.WithClientTrace(t.Context(), trace), c.Base)
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if text := string(all); err != nil || strings.Count(text, "data: ") != 2 || !strings.Contains(text, "data: [DONE]\n") {
		t.Errorf("%v, the stream is\n%s", err, text)
	}
	if want := []string{"</POST>", "</POST>", "</POST>"}; !slices.Equal(hints, want) || res.Header.Get("Link") != "" {
		t.Errorf("hints %q, want %q; header %v", hints, want, res.Header)
	}
}

// TestInformationalAnswersAfterTheClientLeft go nowhere, and the run is ended as without them.
func TestInformationalAnswersAfterTheClientLeft(t *testing.T) {
	answer, asked := make(chan struct{}), make(chan string, 100)
	site := hintingSite(t, answer, asked)
	listen := harness.FreePort(t)
	s := sidecar.RunCaddyfile(t, t.TempDir(), "{\n\tadmin off\n}\n"+sidecar.OnLoopback(listen)+
		"log\nreverse_proxy "+site.URL+" {\n\ttransport hermes_resume\n}\n}\n")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(hinted(t, ctx, "http://"+listen))
		if err == nil {
			_ = res.Body.Close()
		}
		left <- err
	}()
	wants := func(method string) {
		t.Helper()
		select {
		case got := <-asked:
			if got != method {
				t.Fatalf("asked to %s, want %s", got, method)
			}
		case <-time.After(harness.Patience):
			t.Fatalf("never asked to %s", method)
		}
	}
	wants(http.MethodPost)
	leave()
	if err := <-left; err == nil {
		t.Fatal("there is an answer")
	}
	if !s.Await("handled request") {
		t.Fatal("the request goes on")
	}
	close(answer)
	wants(http.MethodDelete)
}

// hinted returns a request for a stream.
func hinted(t *testing.T, ctx context.Context, base string) *http.Request {
	t.Helper()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/events", strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	return q
}
