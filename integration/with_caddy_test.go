package integration

import (
	"compress/gzip"
	"io"
	"path/filepath"
	"testing"
)

// The encode directive compresses what the sidecar has repaired, the error
// finish included, whichever of the two comes first in the Caddyfile.
func TestEncodeCompressesTheRepairedStream(t *testing.T) {
	scripts := router{
		"good": replay(recorded(t, "g0-v0.8.0/labels"), byFrame),
		"cut": func(x *exchange) {
			x.events()
			x.frame(role)
			x.frame(delta("content", "hi"))
			x.torn([]byte(role[:9]))
		},
	}
	up := newUpstream(t, scripts.play)
	for _, order := range []string{"hermes\n\tencode gzip", "encode gzip\n\thermes"} {
		base, _ := caddyWith(t, "\t"+order+"\n\treverse_proxy "+up.addr)
		c := newClient(t, base)
		for name := range scripts {
			want := c.play(name).all()
			r := c.play(name, "Accept-Encoding", "gzip")
			if r.Header.Get("Content-Encoding") != "gzip" {
				t.Fatalf("Content-Encoding %q", r.Header.Get("Content-Encoding"))
			}
			z, err := gzip.NewReader(r.in)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(z); string(got) != want || err != nil {
				t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, got, want)
			}
		}
	}
}

// handle_errors has no word in a stream that has begun, and cannot break the
// JSON of one that has not. On other paths errors are its own.
func TestHandleErrorsStaysOutOfStreams(t *testing.T) {
	up := newUpstream(t, router{
		"cut":     func(x *exchange) { x.events(); x.frame(role); x.frame(delta("content", "hi")); x.reset() },
		"nothing": (*exchange).fin,
	}.play)
	base, _ := caddyWith(t, "\thermes\n\treverse_proxy "+up.addr+"\n\thandle_errors {\n\t\trespond \"<html>error page</html>\"\n\t}")
	c := newClient(t, base)
	c.play("cut").answer().checkError(t, "upstream_aborted")
	if e := checkJSON(t, c.play("nothing"), 502, up.addr); e.Code != "upstream_aborted" {
		t.Errorf("code %q", e.Code)
	}
	r := c.post("/v1/models", "X-Play", "nothing")
	if body := r.all(); r.StatusCode != 502 || body != "<html>error page</html>" {
		t.Errorf("%s: %q", r.Status, body)
	}
}

// Other handlers that answer with an event stream are repaired as well.
func TestStreamsOfOtherHandlersAreRepaired(t *testing.T) {
	needsModule(t, "http.handlers.file_server")
	r := recorded(t, "g0-v0.8.0/one_tool")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "answer.sse"), r.body)
	base, _ := caddyWith(t, "\troot "+dir+"\n\thermes\n\theader Content-Type text/event-stream\n\trewrite * /answer.sse\n\tmethod GET\n\tfile_server")
	a := newClient(t, base).chat().answer()
	a.checkGood(t)
	if len(a.starts) != 1 || a.content != "Let me check.\n\nThere are 3 files." {
		t.Errorf("starts %v, content %q", a.starts, a.content)
	}
}
