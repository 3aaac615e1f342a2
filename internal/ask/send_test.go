package ask

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestAnswersOfUpstream: each becomes a result, as Hermes 0.22 answers.
func TestAnswersOfUpstream(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   desk.Result
	}{
		{200, "", desk.Accepted},
		{409, "approval_not_pending", desk.AlreadyAnswered},
		{409, "approval_not_active", desk.TooLate},
		{404, "run_not_found", desk.TooLate},
		{400, "invalid_approval_choice", desk.Refused},
		{401, "", desk.Refused},
		{502, "", desk.Refused},
		{302, "", desk.Refused},
		{0, "", desk.Refused},
	} {
		got, err := resultOf(behalf.Response{Status: c.status, Body: []byte(`{"error": {"message": "…", "code": "` + c.code + `"}}`)})
		if got != c.want || (err != nil) != (c.want == desk.Refused) {
			t.Errorf("%d %s: %v, %v; want %v", c.status, c.code, got, err, c.want)
		}
	}
}

// TestAnswerIsSent to the run, with the request's id. One that does not reach upstream is refused, so that the
// ticket waits on.
func TestAnswerIsSent(t *testing.T) {
	for _, fails := range []error{nil, errors.New("connection refused")} {
		got := ""
		s := behalf.New(chat(func(w http.ResponseWriter, r *http.Request) error {
			body, _ := io.ReadAll(r.Body)
			got = r.Method + " " + r.RequestURI + " " + string(body)
			if fails == nil {
				w.WriteHeader(http.StatusOK)
			}
			return fails
		}), caddytest.Upstream)
		result, err := send(t.Context(), s, rewrite.ApprovalRequest{RunID: "run_1", RequestID: `r"1`}, desk.Session)
		if want := `POST /v1/runs/run_1/approval {"choice":"session","request_id":"r\"1"}`; got != want || !errors.Is(err, fails) || (result == desk.Accepted) != (err == nil) {
			t.Errorf("sent %s, want %s: %v, %v", got, want, result, err)
		}
		if result, err := send(t.Context(), s, rewrite.ApprovalRequest{RunID: "../x", RequestID: "1"}, desk.Once); result != desk.Refused || err == nil {
			t.Errorf("to no run: %v, %v", result, err)
		}
	}
}

// TestPathOfAnswers: it is beside the one that asks, and what upstream calls its run is no way out of the API.
func TestPathOfAnswers(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions":                  "/v1/runs/run_1/approval",
		"/agent/v1/chat/completions":            "/agent/v1/runs/run_1/approval",
		"/v1/runs/run_1/events":                 "/v1/runs/run_1/approval",
		"/a/api/sessions/session-1/chat/stream": "/a/v1/runs/run_1/approval",
		"/a/api/sessions/s/1/chat/stream":       "", // no session of Hermes' has a slash
		"/":                                     "",
		"/v1/responses":                         "",
		"/v1/runs/run_1/approval":               "",
	} {
		if got := approvalPath(path, "run_1"); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for _, run := range []string{"", "../x", "a/b", "a?b", "a%2fb", "é", strings.Repeat("a", 257)} {
		if got := approvalPath("/v1/chat/completions", run); got != "" {
			t.Errorf("%q: %s", run, got)
		}
	}
}
