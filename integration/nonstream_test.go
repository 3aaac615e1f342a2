package integration

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// wholes reads the recorded answers that were not streamed, as scripts.
func wholes(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(captures, "*", "nonstream.*.http"))
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
	scripts := router{}
	for name, b := range all {
		scripts[name] = func(x *exchange) { x.raw(string(b)) }
	}
	c := newClient(t, first(serve(t, newUpstream(t, scripts.play), options{"zero_usage": "pass"})))
	failures := 0
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			head, body, _ := bytes.Cut(b, []byte("\r\n\r\n"))
			r := c.of(t).play(name)
			got := r.all()
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
func checkWhole(t testing.TB, r *reply, body string) apiError {
	t.Helper()
	var got struct {
		Error struct {
			apiError
			Hermes hermesBlock `json:"hermes"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	e := got.Error
	if r.StatusCode != http.StatusBadGateway || e.Code != "agent_incomplete" || e.Type != "server_error" || !e.Hermes.Failed {
		t.Errorf("%s\n%s", r.Status, body)
	}
	return e.apiError
}

// Text with a usage of zero passes with a warning where it is not streamed, for a
// status would lose it. Real usage in such an answer decides about streams.
func TestUsageIsKnownAcrossStreamsAndAnswers(t *testing.T) {
	plain := string(wholes(t)["g0-v0.8.0/nonstream.plain"])
	_, body, _ := strings.Cut(plain, "\r\n\r\n")
	zero := strings.Replace(body, "1234, \"completion_tokens\": 56, \"total_tokens\": 1290", "0, \"completion_tokens\": 0, \"total_tokens\": 0", 1)
	scripts := router{
		"zero": asJSON("200 OK", zero), "plain": asJSON("200 OK", body),
		"crash": replay(recorded(t, "g0-v0.8.0/crash_after_text"), whole),
	}
	base, s := serve(t, newUpstream(t, scripts.play), nil)
	c := newClient(t, base)
	c.play("crash").answer().checkGood(t)
	c.play("plain").all()
	c.play("crash").answer().checkError(t, "agent_crashed")
	if got := c.play("zero").all(); got != zero {
		t.Errorf("got %s", got)
	}
	if !s.log.wait("answer passed with text", s.exited) {
		t.Error("it may have been a failure: want a warning")
	}
}
