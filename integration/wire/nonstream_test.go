package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// wholes reads the recorded answers that were not streamed, as scripts.
func wholes(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(hermes.Captures, "*", "nonstream.*.http"))
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	all := map[string][]byte{}
	for _, p := range paths {
		all[filepath.Base(filepath.Dir(p))+"/"+strings.TrimSuffix(filepath.Base(p), ".http")] = []byte(asCRLF(t, p))
	}
	return all
}

// Answers that were not streamed: what a legacy agent's failure is for certain
// is answered as modern Hermes answers it, and all else passes byte for byte.
func TestAnswersThatAreNotStreamed(t *testing.T) {
	all := wholes(t)
	scripts := upstream.Router{}
	for name, b := range all {
		scripts[name] = func(x *upstream.Exchange) { x.Raw(string(b)) }
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Options{"zero_usage": "pass"})))
	failures := 0
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			head, body, _ := bytes.Cut(b, []byte("\r\n\r\n"))
			r := c.Of(t).Play(name)
			got := r.All()
			if !strings.HasSuffix(name, "nonstream.failed_result") || bytes.HasPrefix(head, []byte("HTTP/1.1 502")) {
				if got != string(body) || !bytes.HasPrefix(head, []byte("HTTP/1.1 "+r.Status)) {
					t.Errorf("%s\n%s\nwant\n%s", r.Status, got, b)
				}
				return
			}
			failures++
			e := checkWhole(t, r, got)
			if e.Message != "API call failed after 3 retries: Error code: 401 - invalid api key" {
				t.Errorf("message %q", e.Message)
			}
			if had := bytes.Contains(head, []byte("Session-Id")); had != (r.Header.Get("X-Hermes-Session-Id") != "") || r.Header.Get("X-Hermes-Completed") != "false" || r.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("header %v", r.Header)
			}
		})
	}
	if failures < 3 {
		t.Errorf("saw %d failures only", failures)
	}
}

// checkWhole wants the error that modern Hermes answers with.
func checkWhole(t testing.TB, r *client.Reply, body string) strict.APIError {
	t.Helper()
	var got struct {
		Error struct {
			strict.APIError
			Hermes strict.HermesBlock `json:"hermes"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	e := got.Error
	if r.StatusCode != http.StatusBadGateway || e.Code != "agent_incomplete" || e.Type != "server_error" || !e.Hermes.Failed {
		t.Errorf("%s\n%s", r.Status, body)
	}
	return e.APIError
}

// Text with a usage of zero passes with a warning where it is not streamed, for a
// status would lose it. Real usage in such an answer decides about streams.
func TestUsageIsKnownAcrossStreamsAndAnswers(t *testing.T) {
	plain := string(wholes(t)["g0-v0.8.0/nonstream.plain"])
	_, body, _ := strings.Cut(plain, "\r\n\r\n")
	zero := strings.Replace(body, "1234, \"completion_tokens\": 56, \"total_tokens\": 1290", "0, \"completion_tokens\": 0, \"total_tokens\": 0", 1)
	scripts := upstream.Router{
		"zero": upstream.AsJSON("200 OK", zero), "plain": upstream.AsJSON("200 OK", body),
		"crash": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/crash_after_text"), upstream.Whole),
	}
	base, s := sidecar.Serve(t, upstream.New(t, scripts.Play), nil)
	c := client.New(t, base)
	c.Play("crash").Answer().CheckGood(t)
	c.Play("plain").All()
	c.Play("crash").Answer().CheckError(t, "agent_crashed")
	if got := c.Play("zero").All(); got != zero {
		t.Errorf("got %s", got)
	}
	if !s.Says("answer passed with text") {
		t.Error("it may have been a failure: want a warning")
	}
}
