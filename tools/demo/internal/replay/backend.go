package replay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxRequest is the size in bytes of the largest request that is read.
const maxRequest = 10 << 20

// hermesModel is the model that Hermes itself offers; the backend takes it for
// the default scenario.
const hermesModel = "hermes-agent"

// A Backend is a legacy Hermes that replays recorded streams: the model of a
// request chooses the scenario. It serves POST /v1/chat/completions,
// GET /v1/models and GET /health.
type Backend struct {
	Scenarios []Scenario // those that can be chosen; the first is the default
	Speed     float64    // divides all delays: 2 is twice as fast, 0 waits not at all

	mu   sync.Mutex
	runs []*run // the replays under way
}

// The request headers with which the page steers a replay. Hermes knows
// neither of them.
const (
	// RunHeader names the run that a replay belongs to, for Kill.
	RunHeader = "X-Demo-Run"
	// SpeedHeader is a number from above 0 to 1: this replay only is slower.
	SpeedHeader = "X-Demo-Speed"
)

// errKilled is the cause of a context that Kill has ended.
var errKilled = errors.New("the run was killed")

// A run is a replay under way. One without a name cannot be killed.
type run struct {
	name   string
	cancel context.CancelCauseFunc
}

// begin adds a replay, which ends with ctx, when its run is killed, and at the
// latest with a call of end.
func (b *Backend) begin(ctx context.Context, name string) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	this := &run{name, cancel}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs = append(b.runs, this)
	return ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.runs = slices.DeleteFunc(b.runs, func(r *run) bool { return r == this })
		cancel(nil)
	}
}

// Kill cuts the connections of all replays of a run, as the death of the
// process would: no finish, no [DONE], no end of the body. It returns how many
// there were; 0 for an unknown run.
func (b *Backend) Kill(name string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.runs {
		if name != "" && r.name == name {
			r.cancel(errKilled)
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route := r.Method + " " + r.URL.Path
	switch route {
	case "POST /v1/chat/completions":
		b.complete(w, r)
	case "GET /v1/models":
		b.models(w)
	case "GET /health":
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "platform": hermesModel})
	default:
		refuse(w, http.StatusNotFound, "not_found", "there is no "+route+" here")
	}
}

// models lists the scenarios as models.
func (b *Backend) models(w http.ResponseWriter) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := []model{}
	for _, s := range b.Scenarios {
		list = append(list, model{ID: s.Name, Object: "model", Created: time.Now().Unix(), OwnedBy: "hermes"})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// complete answers a request for a completion.
func (b *Backend) complete(w http.ResponseWriter, r *http.Request) {
	body, err := readRequest(w, r)
	if err != nil {
		return
	}
	var req struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_json", "the request body is not the JSON of a chat completion")
		return
	}
	if !req.Stream {
		refuse(w, http.StatusBadRequest, "stream_only", `this backend replays streams: ask with "stream": true`)
		return
	}
	if req.Model == "" || req.Model == hermesModel {
		req.Model = b.Scenarios[0].Name
	}
	s, ok := find(b.Scenarios, req.Model)
	if !ok {
		refuse(w, http.StatusNotFound, "model_not_found",
			"there is no such model here: choose one of "+strings.Join(Names(b.Scenarios), ", "))
		return
	}
	b.replay(w, r, s)
}

// readRequest reads the body of a request. When that fails, the request has
// been refused.
func readRequest(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, "too_large", "the request body is too large")
	} else if err != nil {
		refuse(w, http.StatusBadRequest, "unreadable", "the request body ended early")
	}
	return body, err
}

// replay sends the frames of a scenario, each in a chunk of its own as Hermes
// does, until the client leaves or the run is killed.
func (b *Backend) replay(w http.ResponseWriter, r *http.Request, s Scenario) {
	ctx, end := b.begin(r.Context(), r.Header.Get(RunHeader))
	defer end()
	speed := b.Speed
	if f, err := strconv.ParseFloat(r.Header.Get(SpeedHeader), 64); err == nil && f > 0 && f <= 1 {
		speed *= f
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	if rc.Flush() != nil {
		return
	}
	for _, step := range s.Steps {
		if d := scale(step.Delay, speed); d > 0 {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
		if context.Cause(ctx) == errKilled { //nolint:errorlint // the very value is the signal
			panic(http.ErrAbortHandler)
		}
		if ctx.Err() != nil {
			return
		}
		if _, err := w.Write(step.Frame); err != nil || rc.Flush() != nil {
			return
		}
	}
	if s.Aborts {
		// The server closes the connection without the end of the body, as
		// the kernel does for a process that was killed.
		panic(http.ErrAbortHandler)
	}
}

// refuse answers with an error in the form of the OpenAI API.
func refuse(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{
		"message": message, "type": "invalid_request_error", "param": nil, "code": code,
	}})
}

// writeJSON answers with a JSON body.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	// The status is out: the client may have left by now.
	_ = json.NewEncoder(w).Encode(v)
}
