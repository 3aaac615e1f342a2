package configuration

import (
	"compress/gzip"
	"io"
	"path/filepath"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The encode directive compresses what the sidecar has repaired, the error
// finish included, whichever of the two comes first in the Caddyfile.
func TestEncodeCompressesTheRepairedStream(t *testing.T) {
	scripts := upstream.Router{
		"good": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/labels"), upstream.ByFrame),
		"cut": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Torn([]byte(hermes.Role[:9]))
		},
	}
	up := upstream.New(t, scripts.Play)
	for _, order := range []string{"hermes\n\tencode gzip", "encode gzip\n\thermes"} {
		base, _ := sidecar.ServeCaddyfile(t, "\t"+order+"\n\treverse_proxy "+up.Addr)
		c := client.New(t, base)
		for name := range scripts {
			want := c.Play(name).All()
			r := c.Play(name, "Accept-Encoding", "gzip")
			if r.Header.Get("Content-Encoding") != "gzip" {
				t.Fatalf("Content-Encoding %q", r.Header.Get("Content-Encoding"))
			}
			z, err := gzip.NewReader(r.In)
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
	up := upstream.New(t, upstream.Router{
		"cut": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Reset()
		},
		"nothing": (*upstream.Exchange).Fin,
	}.Play)
	base, _ := sidecar.ServeCaddyfile(t, "\thermes\n\treverse_proxy "+up.Addr+"\n\thandle_errors {\n\t\trespond \"<html>error page</html>\"\n\t}")
	c := client.New(t, base)
	c.Play("cut").Answer().CheckError(t, "upstream_aborted")
	if e := client.CheckJSON(t, c.Play("nothing"), 502, up.Addr); e.Code != "upstream_aborted" {
		t.Errorf("code %q", e.Code)
	}
	r := c.Post("/v1/models", "X-Play", "nothing")
	if body := r.All(); r.StatusCode != 502 || body != "<html>error page</html>" {
		t.Errorf("%s: %q", r.Status, body)
	}
}

// Other handlers that answer with an event stream are repaired as well.
func TestStreamsOfOtherHandlersAreRepaired(t *testing.T) {
	sidecar.NeedsModule(t, "http.handlers.file_server")
	r := hermes.Recorded(t, "g0-v0.8.0/one_tool")
	dir := t.TempDir()
	harness.WriteFile(t, filepath.Join(dir, "answer.sse"), r.Body)
	base, _ := sidecar.ServeCaddyfile(t, "\troot "+dir+"\n\thermes\n\theader Content-Type text/event-stream\n\trewrite * /answer.sse\n\tmethod GET\n\tfile_server")
	client.New(t, base).Chat().CheckRepaired(t)
}
