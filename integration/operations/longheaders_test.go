package operations

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	"google.golang.org/protobuf/proto"
)

// TestHeadersOfUpstreamStayShort: none of them reaches a file or a log line uncut
// (contract section 7), neither in an answer nor in an error that quotes it.
func TestHeadersOfUpstreamStayShort(t *testing.T) {
	sidecar.NeedsMemory(t)
	const large, limit = 1 << 20, 16 << 10
	long := strings.Repeat("\x01x", large/2) // four times as long, quoted
	text := strings.Repeat("x", large)
	body := "\r\nTransfer-Encoding: chunked\r\n\r\n"
	good := string(hermes.Recorded(t, "g3-v0.20.3/one_tool").Body)
	stream := func(header string) upstream.Script {
		return func(x *upstream.Exchange) {
			x.Raw("HTTP/1.1 200 OK\r\n" + header + body)
			x.Chunk([]byte(good))
			x.End()
		}
	}
	raw := func(s string) upstream.Script {
		return func(x *upstream.Exchange) { x.Raw(s); x.Fin() }
	}
	scripts := upstream.Router{
		"type":      stream("Content-Type: text/event-stream; x=" + text),
		"encoding":  stream("Content-Type: text/event-stream\r\nContent-Encoding: " + text),
		"other":     stream("Content-Type: text/event-stream\r\nX-Hermes-Completed: " + text),
		"malformed": raw("HTTP/1.1 200 OK\r\n" + long + "\r\n\r\n"),
		"name":      raw("HTTP/1.1 200 OK\r\n" + long + ": x\r\n\r\n"),
		"status":    raw("HTTP/1.1 " + long + "\r\n\r\n"),
		"version":   raw(long + " 200 OK\r\n\r\n"),
		"length":    raw("HTTP/1.1 200 OK\r\nContent-Length: " + text + "\r\n\r\n"),
		"transfer":  raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + text + "\r\n\r\n"),
		"trailer":   raw("HTTP/1.1 200 OK\r\nTrailer: " + text + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		"bad chunk": raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream" + body + text + "\r\n"),
		"bad trailer": raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTrailer: X" + body + "3\r\nabc\r\n0\r\n" +
			text + "\r\n\r\n"),
	}
	up := upstream.New(t, scripts.Play)
	spans := newCollector(t)
	dir := filepath.Join(t.TempDir(), "recordings")
	w := watch(t, up, "", "tracing\n\thermes {\n\t\trecord "+dir+"\n\t\trecord_max 1GB\n\t}", spans.environment()...)

	paths := []string{"/v1/chat/completions", "/v1/responses", "/v1/runs/run_1/events", "/v1/models", "/api/sessions/s/chat/stream"}
	for name := range scripts {
		for _, path := range paths {
			req, err := http.NewRequest(http.MethodPost, "http://"+w.site+path, strings.NewReader(`{"stream":true,"messages":[]}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Play", name)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				continue // an answer that is torn, or whose header is too long for this client
			}
			_, _ = io.Copy(io.Discard, res.Body) // likewise
			res.Body.Close()
		}
	}
	_, list := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK)
	if len(list) > 100<<10 {
		t.Errorf("the admin API lists %d bytes", len(list))
	}
	for range len(scripts) * len(paths) {
		if size := proto.Size(<-spans.spans); size > limit {
			t.Errorf("a span has %d bytes", size)
		}
	}
	w.named("http.handlers.hermes", "upstream_aborted")
	w.named("http.log.error", "malformed")
	lines := 0
	for line := range strings.SplitSeq(w.Log.String(), "\n") {
		lines++
		if len(line) > limit {
			t.Errorf("a log line has %d bytes: %.300s", len(line), line)
		}
	}
	if lines < len(scripts) {
		t.Errorf("%d log lines", lines)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing is recorded: %v", err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || filepath.Ext(f.Name()) == ".json" && info.Size() > limit {
			t.Errorf("%s has %d bytes, %v", f.Name(), info.Size(), err)
		}
	}
}
