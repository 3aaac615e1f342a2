package replay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv, err := Listen("127.0.0.1:0", h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return srv.Addr
}

func ask(t *testing.T, addr, body string) *http.Response {
	t.Helper()
	resp, err := http.Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestBackendReplaysTheScenarioOfTheModel(t *testing.T) {
	addr := serve(t, &Backend{Scenarios: Scenarios()})
	today, err := recordings.ReadFile("recordings-v0.22.2/parallel.sse")
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string][]byte{
		"": today, "hermes-agent": today, "one_tool": recording(t, "g0-v0.8.0", "one_tool"), "crash_in_tool": recording(t, "g0-v0.8.0", "crash_in_tool"),
	} {
		resp := ask(t, addr, `{"model": "`+model+`", "stream": true}`)
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != string(want) {
			t.Errorf("model %q: %q, error %v", model, got, err)
		}
		if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
			t.Errorf("model %q: content type %q", model, ct)
		}
	}
}

func TestBackendKilledMidStreamTearsTheBody(t *testing.T) {
	addr := serve(t, &Backend{Scenarios: Scenarios()})
	got, err := io.ReadAll(ask(t, addr, `{"model": "kill", "stream": true}`).Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want unexpected EOF", err)
	}
	full := string(recording(t, "g0-v0.8.0", "one_tool"))
	if !strings.HasPrefix(full, string(got)) || strings.HasSuffix(string(got), "\n") {
		t.Errorf("got %q, want a torn beginning of the recording", got)
	}
}

func TestBackendWaitsAtTheSpeedThatWasAskedFor(t *testing.T) {
	for _, test := range []struct {
		speed float64
		want  time.Duration
	}{{0, 0}, {1, 1450 * time.Millisecond}, {2, 725 * time.Millisecond}, {0.5, 2900 * time.Millisecond}} {
		clock := new(fakeClock)
		addr := serve(t, &Backend{Scenarios: Scenarios(), Speed: test.speed, Clock: clock})
		if _, err := io.ReadAll(ask(t, addr, `{"model": "one_tool", "stream": true}`).Body); err != nil {
			t.Fatal(err)
		}
		var sum time.Duration
		for _, d := range clock.delays {
			sum += d
		}
		if sum != test.want {
			t.Errorf("speed %v: waited %v, want %v", test.speed, sum, test.want)
		}
	}
}

// stopClock lets a test see that a sleeper is woken by its context.
type stopClock struct{ asleep, woken chan struct{} }

func (stopClock) Now() time.Time { return time.Time{} }

func (c stopClock) Sleep(ctx context.Context, _ time.Duration) error {
	close(c.asleep)
	<-ctx.Done()
	close(c.woken)
	return ctx.Err()
}

func TestBackendStopsWhenTheClientLeaves(t *testing.T) {
	clock := stopClock{make(chan struct{}), make(chan struct{})}
	addr := serve(t, &Backend{Scenarios: Scenarios(), Speed: 1, Clock: clock})
	ctx, leave := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- readStream(ctx, "http://"+addr, "one_tool", func(Frame) {}) }()
	<-clock.asleep
	leave()
	<-clock.woken
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}

func TestBackendListsScenariosAsModels(t *testing.T) {
	resp, err := http.Get("http://" + serve(t, &Backend{Scenarios: Scenarios()}) + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Object string
		Data   []struct{ ID, Object string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if list.Object != "list" || !slices.Equal(ids, Names(Scenarios())) {
		t.Errorf("object %q, models %v", list.Object, ids)
	}
}

func TestBackendRefusesWithAnOpenAIError(t *testing.T) {
	backend := &Backend{Scenarios: Scenarios()}
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
			w := httptest.NewRecorder()
			backend.ServeHTTP(w, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
			var answer struct{ Error StreamError }
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			if w.Code != test.status || answer.Error.Code != test.code || !strings.Contains(answer.Error.Message, test.message) {
				t.Errorf("status %d, error %+v", w.Code, answer.Error)
			}
		})
	}
}
