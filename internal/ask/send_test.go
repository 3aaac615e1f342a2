package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const upstreamKey = "http.reverse_proxy.upstream.hostport"

// upstreamOf names the upstream as package telemetry does.
func upstreamOf(r *http.Request) string {
	name, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString(upstreamKey)
	return name
}

// chatRequest returns a client's request that Caddy handles.
func chatRequest(path, upstream string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"messages":[]}`))
	r.Header = http.Header{
		"Authorization": {"Bearer secret"}, "Content-Type": {"application/json"}, "Idempotency-Key": {"k"}, "X-Forwarded-User": {"ada"},
	}
	repl := caddy.NewReplacer()
	repl.Set(upstreamKey, upstream)
	repl.Set("http.auth.user.id", "ada")
	return caddyhttp.PrepareRequest(r, repl, httptest.NewRecorder(), nil)
}

// said answers a request with a status and Hermes' code of an error.
func said(w http.ResponseWriter, status int, code string) error {
	w.WriteHeader(status)
	_, err := fmt.Fprintf(w, `{"error": {"message": "…", "type": "x", "param": null, "code": %q}}`, code)
	return err
}

func send(t *testing.T, next Next) (desk.Result, error) {
	t.Helper()
	client := chatRequest("/v1/chat/completions", "a:1")
	s := sender{behalf.New(client, *client.URL, next, upstreamOf)}
	return s.send(t.Context(), rewrite.ApprovalRequest{RunID: "chatcmpl-1", RequestID: "r1"}, desk.Once)
}

// TestAnswersOfUpstream: each becomes a result, as Hermes 0.22 answers.
func TestAnswersOfUpstream(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   desk.Result
		fails  bool
	}{
		{200, "", desk.Accepted, false},
		{409, "approval_not_pending", desk.AlreadyAnswered, false},
		{409, "approval_not_active", desk.TooLate, false},
		{404, "run_not_found", desk.TooLate, false},
		{400, "invalid_approval_choice", desk.Refused, true},
		{401, "", desk.Refused, true},
		{502, "", desk.Refused, true},
		{302, "", desk.Refused, true},
	} {
		got, err := send(t, func(w http.ResponseWriter, r *http.Request) error {
			r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set(upstreamKey, "a:1")
			w.WriteHeader(http.StatusProcessing)
			return said(w, c.status, c.code)
		})
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%d %s: %v, %v; want %v", c.status, c.code, got, err, c.want)
		}
	}
}

// TestAnswersAreTheClientsOwn: with its credentials, placeholders and address, and nothing of its
// request's body.
func TestAnswersAreTheClientsOwn(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions":                  "/v1/runs/run_1/approval",
		"/agent/v1/chat/completions?a=b":        "/agent/v1/runs/run_1/approval?a=b",
		"/v1/runs/run_1/events":                 "/v1/runs/run_1/approval",
		"/a/api/sessions/s%2F1/chat/stream":     "", // no session of Hermes' has a slash
		"/a/api/sessions/session-1/chat/stream": "/a/v1/runs/run_1/approval",
	} {
		client := chatRequest(path, "a:1")
		var got *http.Request
		var body []byte
		s := sender{behalf.New(client, *client.URL, func(w http.ResponseWriter, r *http.Request) error {
			got = r
			body, _ = io.ReadAll(r.Body)
			return nil
		}, upstreamOf)}
		client.Header.Set("Authorization", "another") // what becomes of the client's request later is no matter
		result, err := s.send(t.Context(), rewrite.ApprovalRequest{RunID: "run_1", RequestID: `r"1`}, desk.Session)
		if want == "" {
			if result != desk.Refused || err == nil || got != nil {
				t.Errorf("%s: %v, %v, sent %v", path, result, err, got)
			}
			continue
		}
		if err == nil { // next has written nothing
			t.Errorf("%s: %v", path, result)
		}
		var sent map[string]string
		if err := json.Unmarshal(body, &sent); err != nil || sent["choice"] != "session" || sent["request_id"] != `r"1` || len(sent) != 2 {
			t.Errorf("%s: body %s", path, body)
		}
		h := got.Header
		if got.Method != "POST" || got.URL.RequestURI() != want || got.RequestURI != want || got.RemoteAddr != client.RemoteAddr || got.Host != client.Host ||
			got.ContentLength != int64(len(body)) || h.Get("Authorization") != "Bearer secret" || h.Get("X-Forwarded-User") != "ada" ||
			h.Get("Idempotency-Key") != "" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: sent %v %v %v", path, got.Method, got.RequestURI, h)
		}
		if user, _ := got.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("http.auth.user.id"); user != "ada" {
			t.Errorf("placeholders of the client's request are lost: %q", user)
		}
	}
}

// TestNoOtherPathIsAsked: what upstream calls its run is no way out of the API.
func TestNoOtherPathIsAsked(t *testing.T) {
	for _, run := range []string{"", "../x", "a/b", "a?b", "a%2fb", "é", strings.Repeat("a", 257)} {
		if p := approvalPath("/v1/chat/completions", run); p != "" {
			t.Errorf("%q: %s", run, p)
		}
	}
	for _, path := range []string{"/", "/v1/responses", "/v1/runs/run_1/approval"} {
		if p := approvalPath(path, "run_1"); p != "" {
			t.Errorf("%s: %s", path, p)
		}
	}
}

// TestAnotherUpstreamIsTriedAgain: a balancer may choose one that does not know the run.
func TestAnotherUpstreamIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		right int // the try that reaches the upstream that asked
		want  desk.Result
		tries int
	}{{1, desk.Accepted, 1}, {10, desk.Accepted, 10}, {11, desk.Refused, 10}} {
		tries := 0
		got, err := send(t, func(w http.ResponseWriter, r *http.Request) error {
			repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
			if tries++; tries == c.right {
				repl.Set(upstreamKey, "a:1")
				return nil200(w)
			}
			repl.Set(upstreamKey, "b:1")
			return said(w, 404, "run_not_found")
		})
		if got != c.want || tries != c.tries || (err != nil) != (c.want == desk.Refused) {
			t.Errorf("%v, %v after %d tries, want %v after %d", got, err, tries, c.want, c.tries)
		}
	}
}

func nil200(w http.ResponseWriter) error {
	return json.NewEncoder(w).Encode(map[string]int{"resolved": 1})
}

// TestAnswersThatDoNotReachUpstream are refused, so that the ticket waits on.
func TestAnswersThatDoNotReachUpstream(t *testing.T) {
	for name, next := range map[string]Next{
		"error": func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(502, errors.New("refused")) },
		"abort": func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) },
		"panic": func(http.ResponseWriter, *http.Request) error { panic("so") },
		"abort after the header": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(200)
			panic(http.ErrAbortHandler)
		},
		"nothing": func(http.ResponseWriter, *http.Request) error { return nil },
	} {
		if got, err := send(t, next); got != desk.Refused || err == nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestAnswerEndsWithItsTime, not with the client that was asked.
func TestAnswerEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := chatRequest("/v1/chat/completions", "a:1")
		ctx, leave := context.WithCancel(r.Context())
		s := sender{behalf.New(r.WithContext(ctx), *r.URL, func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return r.Context().Err()
		}, upstreamOf)}
		leave()
		limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		began := time.Now()
		got, err := s.send(limit, rewrite.ApprovalRequest{RunID: "run_1", RequestID: "r"}, desk.Once)
		if took := time.Since(began); got != desk.Refused || err == nil || took != 30*time.Second {
			t.Errorf("%v, %v after %v", got, err, took)
		}
	})
}
