package proxy_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// pathOf returns the path that a recording was made of.
func pathOf(file string) string {
	switch name := filepath.Base(file); {
	case strings.HasPrefix(name, "responses."):
		return "/v1/responses"
	case strings.HasPrefix(name, "runs."):
		return "/v1/runs/run_1/events"
	case strings.HasPrefix(name, "session."):
		return "/api/sessions/s1/chat/stream"
	}
	return chatPath
}

func TestRecordingsGoThroughAsTheEngineRepairsThem(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*/*.sse", "*/*/*.sse"} {
		found, err := filepath.Glob(filepath.Join("..", "testdata", "captures", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 50 {
		t.Fatalf("%d recordings, want all of them", len(files))
	}

	recordings := make(map[string][]byte)
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what is left unread resets the connection
		w.Header().Set("Content-Type", "text/event-stream")
		for _, frame := range bytes.SplitAfter(recordings[r.Header.Get("X-Recording")], []byte("\n\n")) {
			_, _ = w.Write(frame)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(back.Close)
	u, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	options := rewrite.Options{ParallelWindow: time.Hour} // however slow the machine is
	srv := guarded(t, u, proxy.Options{Rewrite: options}, false)

	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		recordings[file] = raw
	}
	for _, file := range files {
		raw, path := recordings[file], pathOf(file)
		engine := rewrite.New(&options, rewrite.Params{Active: path == chatPath})
		want := engine.Finish(engine.Feed(nil, raw, time.Now()), rewrite.CauseEOF)
		if path != chatPath {
			want = raw
		}

		r, err := http.NewRequestWithContext(patient(t), http.MethodPost, srv.URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Recording", file)
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the client was sent\n%s\nwant\n%s", file, got, want)
		}
	}
}
