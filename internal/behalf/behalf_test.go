package behalf

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

// asked returns a client's request, which next answers as upstream a:1.
func asked(url string, next Next) *http.Request {
	r := caddytest.Request(http.MethodPost, url, `{"input":"hello"}`,
		"Authorization", "Bearer secret", "Content-Type", "application/json", "Idempotency-Key", "k", "X-Forwarded-User", "ada")
	caddytest.AnswerBy(r, "a:1")
	caddytest.Replacer(r).Set("http.auth.user.id", "ada")
	return r.WithContext(Begin(r, next))
}

// TestRequestsAreTheClientsOwn: with its credentials, placeholders and address, and nothing of its
// request's body. What becomes of the client's request later is no matter.
func TestRequestsAreTheClientsOwn(t *testing.T) {
	for method, body := range map[string]string{http.MethodGet: "", http.MethodPost: `{"choice":"once"}`} {
		var got *http.Request
		var sent []byte
		r := asked("http://agent/p/work/v1/runs?a=b", func(_ http.ResponseWriter, r *http.Request) (err error) {
			got = r
			sent, err = io.ReadAll(r.Body)
			return err
		})
		r.URL.Path = "/agent" + r.URL.Path
		s := New(r, caddytest.Upstream)
		r.Header.Set("Authorization", "another")
		kind := ""
		var own []byte
		if body != "" {
			kind, own = "application/json", []byte(body)
		}
		if said, err := s.Send(t.Context(), method, s.Path()+"/run_1", own); said.Status != 0 || err != nil {
			t.Errorf("%s: %v, %v", method, said, err)
		}
		h := got.Header
		if got.Method != method || got.RequestURI != "/p/work/v1/runs/run_1?a=b" || got.URL.RequestURI() != got.RequestURI || got.Host != "agent" || got.RemoteAddr != r.RemoteAddr ||
			h.Get("Authorization") != "Bearer secret" || h.Get("X-Forwarded-User") != "ada" || h.Get("Idempotency-Key") != "" || h.Get("Content-Type") != kind ||
			got.ContentLength != int64(len(body)) || string(sent) != body {
			t.Errorf("sent %s %s %v with %q", got.Method, got.RequestURI, h, sent)
		}
		if user, _ := caddytest.Replacer(got).GetString("http.auth.user.id"); user != "ada" {
			t.Errorf("placeholders of the client's request are lost: %q", user)
		}
	}
}

// TestReportIsBounded: upstream may say as much as it likes.
func TestReportIsBounded(t *testing.T) {
	s := New(asked("/v1/runs", func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusProcessing)
		for range 100 {
			if n, err := w.Write(make([]byte, 1000)); n != 1000 || err != nil {
				t.Error(n, err)
			}
		}
		return nil
	}), caddytest.Upstream)
	if said, err := s.Send(t.Context(), http.MethodGet, "/v1/runs/run_1", nil); said.Status != http.StatusOK || len(said.Body) != 16<<10 || err != nil {
		t.Errorf("%d, %d bytes, %v", said.Status, len(said.Body), err)
	}
}

// TestAnotherUpstreamIsTriedAgain: a balancer may choose one that does not know the run.
func TestAnotherUpstreamIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		right int // the try that reaches the upstream that answers the client
		tries int
		want  error
	}{{1, 1, nil}, {10, 10, nil}, {11, 10, ErrElsewhere}} {
		tries := 0
		s := New(asked("/v1/runs", func(w http.ResponseWriter, r *http.Request) error {
			if tries++; tries != c.right {
				caddytest.AnswerBy(r, "b:1")
				w.WriteHeader(http.StatusNotFound)
				return nil
			}
			_, err := io.WriteString(w, "{}")
			return err
		}), caddytest.Upstream)
		if said, err := s.Send(t.Context(), http.MethodPost, "/v1/runs/run_1/approval", []byte("{}")); !errors.Is(err, c.want) || (err == nil) != (said.Status == http.StatusOK) || tries != c.tries {
			t.Errorf("%v, %v after %d tries, want %v after %d", said, err, tries, c.want, c.tries)
		}
	}
}

// TestRequestsThatAreNotAnswered have an error, or no status.
func TestRequestsThatAreNotAnswered(t *testing.T) {
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
		if said, err := New(asked("/v1/runs", next), caddytest.Upstream).Send(t.Context(), http.MethodGet, "/v1/runs/run_1", nil); err == nil && (name != "nothing" || said.Status != 0) {
			t.Errorf("%s: %v, %v", name, said, err)
		}
	}
}

// TestAnswerEndsWithItsTime, not with the client that was asked.
func TestAnswerEndsWithItsTime(t *testing.T) {
	for name, deaf := range map[string]bool{"an error": false, "no error": true} {
		synctest.Test(t, func(t *testing.T) {
			r := asked("/v1/runs", func(_ http.ResponseWriter, r *http.Request) error {
				<-r.Context().Done()
				if deaf {
					return nil
				}
				return r.Context().Err()
			})
			ctx, leave := context.WithCancel(r.Context())
			s := New(r.WithContext(ctx), caddytest.Upstream)
			leave()
			limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			began := time.Now()
			if said, err := s.Send(limit, http.MethodGet, "/v1/runs/run_1", nil); err == nil || time.Since(began) != 30*time.Second {
				t.Errorf("%s: %v, %v after %v", name, said, err, time.Since(began))
			}
		})
	}
}
