package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv, err := listen("127.0.0.1:0", h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return srv.Addr
}

// answered returns what a backend without delays answers.
func answered(method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	new(backend).ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func TestBackendReplaysTheScenarioOfTheModel(t *testing.T) {
	today, err := recordings.ReadFile("recordings/v0.22.2/parallel.sse")
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{
		"": string(today), "hermes-agent": string(today), "one_tool": recording(t, "g0-v0.8.0", "one_tool"), "crash_in_tool": recording(t, "g0-v0.8.0", "crash_in_tool"),
	} {
		w := answered("POST", "/v1/chat/completions", `{"model": "`+model+`", "stream": true}`)
		if ct := w.Header().Get("Content-Type"); w.Body.String() != want || ct != "text/event-stream" {
			t.Errorf("model %q: %s, %q", model, ct, w.Body)
		}
	}
}

// The doctor believes what /health says: without a version this would be a Hermes before 0.17.
func TestBackendNamesItsRelease(t *testing.T) {
	want := `{"platform":"hermes-agent","status":"ok","version":"0.22.2"}`
	if got := strings.TrimSpace(answered("GET", "/health", "").Body.String()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBackendListsScenariosAsModels(t *testing.T) {
	var list struct {
		Object string
		Data   []struct{ ID, Object string }
	}
	if err := json.Unmarshal(answered("GET", "/v1/models", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if list.Object != "list" || strings.Join(ids, ", ") != allNames() {
		t.Errorf("object %q, models %v", list.Object, ids)
	}
}

func TestBackendRefusesWithAnOpenAIError(t *testing.T) {
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		code, message            string
	}{
		{"unknown model", "POST", "/v1/chat/completions", `{"model": "gpt", "stream": true}`, 404, "model_not_found", "one_tool"},
		{"no stream", "POST", "/v1/chat/completions", `{"model": "plain"}`, 400, "stream_only", `"stream": true`},
		{"no json", "POST", "/v1/chat/completions", `model=plain`, 400, "invalid_json", "JSON"},
		{"too large", "POST", "/v1/chat/completions", `{"x":"` + strings.Repeat("x", maxRequest) + `"}`, 413, "too_large", "too large"},
		{"unknown path", "POST", "/v1/responses", `{}`, 404, "not_found", "POST /v1/responses"},
		{"wrong method", "GET", "/v1/chat/completions", "", 404, "not_found", "GET /v1/chat/completions"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := answered(test.method, test.path, test.body)
			var answer struct{ Error streamError }
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			if w.Code != test.status || answer.Error.Code != test.code || !strings.Contains(answer.Error.Message, test.message) {
				t.Errorf("status %d, error %+v", w.Code, answer.Error)
			}
		})
	}
}

// replayed answers a request for one_tool in the time of a synctest bubble, and returns
// how long that took and what aborted it.
func replayed(ctx context.Context, b *backend, header ...string) (took time.Duration, stream string, aborted any) {
	r := httptest.NewRequestWithContext(ctx, "POST", "/v1/chat/completions", strings.NewReader(`{"model": "one_tool", "stream": true}`))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w, began := httptest.NewRecorder(), time.Now()
	defer func() {
		took, stream, aborted = time.Since(began), w.Body.String(), recover()
	}()
	b.ServeHTTP(w, r)
	return
}

func TestBackendWaitsAtTheSpeedThatWasAskedFor(t *testing.T) {
	const whole = 1450 * time.Millisecond
	for _, test := range []struct {
		speed  float64
		header string
		want   time.Duration
	}{
		{0, "", 0}, {1, "", whole}, {2, "", whole / 2}, {0.5, "", whole * 2}, {1, "0.25", whole * 4},
		{1, "2", whole}, {1, "0", whole}, {1, "-1", whole}, {1, "NaN", whole}, {1, "slow", whole},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &backend{speed: test.speed}
			if took, _, aborted := replayed(t.Context(), b, speedHeader, test.header); took != test.want || aborted != nil {
				t.Errorf("speed %v, %q: waited %v, want %v; %v", test.speed, test.header, took, test.want, aborted)
			}
		})
	}
}

func TestBackendStopsWhenTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), firstDelay+1)
		defer cancel()
		if took, stream, _ := replayed(ctx, &backend{speed: 1}); took != firstDelay+1 || strings.Count(stream, "data: ") != 1 {
			t.Errorf("%v: %q", took, stream)
		}
	})
}

func TestKillCutsTheConnectionsOfOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{speed: 1}
		var all sync.WaitGroup
		for _, run := range []string{"a", "a", "b", ""} {
			all.Go(func() {
				_, stream, aborted := replayed(t.Context(), b, runHeader, run)
				if killed := run == "a"; (aborted == http.ErrAbortHandler) != killed || strings.HasSuffix(stream, "[DONE]\n\n") == killed {
					t.Errorf("%q: %v, %q", run, aborted, stream)
				}
			})
		}
		synctest.Wait()
		for run, want := range map[string]int{"": 0, "c": 0, "a": 2} {
			if n := b.kill(run); n != want {
				t.Errorf("killed %d of run %q, want %d", n, run, want)
			}
		}
		all.Wait()
		b.runs.Range(func(r, _ any) bool {
			t.Errorf("%v is remembered", r)
			return true
		})
	})
}

func TestOnlyLoopbackAddressesAreListenedOn(t *testing.T) {
	for addr, want := range map[string]bool{
		":8642": false, "0.0.0.0:8642": false, "[::]:8642": false, "192.0.2.1:8642": false, "example.com:8642": false, "8642": false, "": false,
		"127.0.0.1:8642": true, "127.1.2.3:0": true, "[::1]:8642": true,
	} {
		if err := checkLoopback(addr); (err == nil) != want {
			t.Errorf("%q: %v", addr, err)
		}
	}
}
