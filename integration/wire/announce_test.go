package wire

import (
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// An answer that the sidecar examines has its version, once: also behind a second sidecar, and when
// hermes_resume repeats it. announce off leaves it out.
func TestExaminedAnswersHaveTheVersion(t *testing.T) {
	up := upstream.New(t, upstream.Router{
		"stream": upstream.Replay(hermes.Recorded(t, "g4-transcribed/plain"), upstream.ByFrame),
		"empty":  func(x *upstream.Exchange) { x.Events(); x.End() },
		"JSON":   upstream.AsJSON("200 OK", `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}]}`),
		"models": upstream.AsJSON("200 OK", `{"data":[]}`),
	}.Play)
	inner, outer, quiet := harness.FreePort(t), harness.FreePort(t), harness.FreePort(t)
	site := func(listen, before, hermes, to string) string {
		return sidecar.OnLoopback(listen) + before + "\thermes" + hermes + "\n\treverse_proxy " + to + "\n}\n"
	}
	s := sidecar.RunCaddyfile(t, t.TempDir(), "{\n\tadmin off\n}\n"+
		site(inner, "\thermes_resume\n", "", up.Addr)+site(outer, "", "", inner)+site(quiet, "", " {\n\t\tannounce off\n\t}", up.Addr))
	started := regexp.MustCompile(`"msg":"hermes sidecar","version":"([^"]+)"`).FindStringSubmatch(s.Log.String())
	if started == nil {
		t.Fatalf("no version in\n%s", s.Log)
	}
	for listen, version := range map[string][]string{inner: started[1:], outer: started[1:], quiet: nil} {
		c := client.New(t, "http://"+listen)
		want := func(what string, r *client.Reply, status int, want []string) {
			t.Helper()
			if got := r.Header.Values("X-Hermes-Sidecar"); !slices.Equal(got, want) || r.StatusCode != status {
				t.Errorf("%s: %d, %q; want %d, %q", what, r.StatusCode, got, status, want)
			}
			r.All()
		}
		want("a stream", c.Play("stream"), http.StatusOK, version)
		want("another stream", c.Post("/v1/responses", "X-Play", "stream"), http.StatusOK, version)
		want("an answer", c.Play("JSON"), http.StatusOK, version)
		want("an error", c.Play("empty"), http.StatusBadGateway, version)
		want("a list", c.Send(http.MethodGet, "/v1/models", nil, "X-Play", "models"), http.StatusOK, nil)
		key := "key of " + listen
		want("a stream that is kept", c.Play("stream", "Idempotency-Key", key), http.StatusOK, version)
		again := c.Play("stream", "Idempotency-Key", key)
		if replayed := again.Header.Get("Idempotency-Replayed") != ""; replayed == (listen == quiet) {
			t.Errorf("replayed: %v", replayed)
		}
		want("again", again, http.StatusOK, version)
	}
}
