package clients

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// A wire is an answer of Hermes that is read while it comes.
type wire struct {
	*http.Response
	t    testing.TB
	read strings.Builder
	err  error // at the end, nil for a clean one
}

// chatOf is the body of a chat request.
func chatOf(prompt string) string {
	return `{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":` + hermes.Quoted(prompt) + `}]}`
}

// post sends a JSON body with Hermes' key; get sends none. The answer is left at the end of
// the test, or after harness.Patience.
func (h *hermesLab) post(t testing.TB, url, body string) *wire {
	return h.send(t, http.MethodPost, url, body)
}

func (h *hermesLab) get(t testing.TB, url string) *wire { return h.send(t, http.MethodGet, url, "") }

func (h *hermesLab) send(t testing.TB, method, url, body string) *wire {
	ctx, leave := context.WithTimeout(context.Background(), harness.Patience)
	t.Cleanup(leave)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		panic(err) // of the test's own
	}
	req.Header.Set("Authorization", "Bearer "+hermesKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("%s: %v", url, err)
		res = &http.Response{Status: err.Error(), Body: http.NoBody}
	}
	return &wire{Response: res, t: t}
}

// until reads on to a text.
func (w *wire) until(text string) {
	w.t.Helper()
	b := make([]byte, 4<<10)
	for !strings.Contains(w.read.String(), text) {
		n, err := w.Body.Read(b)
		w.read.Write(b[:n])
		if err != nil {
			w.t.Fatalf("no %q, but %s: %v", text, w.read.String(), err)
		}
	}
}

// rest reads to the end, however it comes, and returns all that has come.
func (w *wire) rest() string {
	_, w.err = io.Copy(&w.read, w.Body)
	w.Body.Close()
	return w.read.String()
}

// frame reads on to the end of a named event and returns its data.
func (w *wire) frame(name string) string {
	w.t.Helper()
	w.until("event: " + name + "\n")
	_, behind, _ := strings.Cut(w.read.String(), "event: "+name+"\ndata: ")
	for !strings.Contains(behind, "\n\n") {
		w.until(behind + "\n\n")
		_, behind, _ = strings.Cut(w.read.String(), "event: "+name+"\ndata: ")
	}
	data, _, _ := strings.Cut(behind, "\n\n")
	return data
}

// json reads an answer to its end and decodes it, and reports whether it is a success.
func (w *wire) json(v any) bool {
	body := w.rest()
	return w.StatusCode < 300 && json.Unmarshal([]byte(body), v) == nil
}
