package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxRequest is the size in bytes of the largest request that is read.
const maxRequest = 10 << 20

// hermesModel is the model that Hermes itself offers; the backend takes it for
// the first scenario.
const hermesModel = "hermes-agent"

// The request headers with which the page steers a replay. Hermes knows
// neither of them.
const (
	// runHeader names the run that a replay belongs to, for kill.
	runHeader = "X-Demo-Run"
	// speedHeader is a number above 0 and up to 1 that slows down this replay only.
	speedHeader = "X-Demo-Speed"
)

// A backend is a Hermes that replays recorded streams: the model of a request chooses the
// scenario. It serves POST /v1/chat/completions, GET /v1/models and GET /health.
type backend struct {
	speed float64  // divides all delays: 2 is twice as fast, 0 waits not at all
	runs  sync.Map // the *http.Request of each replay under way, with its context.CancelCauseFunc
}

// kill cuts the connections of all replays of a run, as the death of the
// process would: no finish, no [DONE], no end of the body. It returns how many
// there were; 0 for an unknown run.
func (b *backend) kill(run string) (n int) {
	b.runs.Range(func(r, cancel any) bool {
		if run != "" && r.(*http.Request).Header.Get(runHeader) == run {
			cancel.(context.CancelCauseFunc)(http.ErrAbortHandler)
			n++
		}
		return true
	})
	return n
}

// ServeHTTP implements http.Handler.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch route := r.Method + " " + r.URL.Path; route {
	case "POST /v1/chat/completions":
		b.complete(w, r)
	case "GET /v1/models":
		list := []map[string]any{}
		for _, s := range scenarios() {
			list = append(list, map[string]any{"id": s.Name, "object": "model", "created": time.Now().Unix(), "owned_by": "hermes"})
		}
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
	case "GET /health":
		version := strings.TrimPrefix(scenarios()[0].Release, "v") // of what Hermes' own model plays
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "platform": hermesModel, "version": version})
	default:
		refuse(w, http.StatusNotFound, "not_found", "there is no "+route+" here")
	}
}

// complete answers a request for a completion.
func (b *backend) complete(w http.ResponseWriter, r *http.Request) {
	body, err := readRequest(w, r)
	if err != nil {
		return
	}
	var req struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_json", "the request body is not a chat completion request in JSON")
		return
	}
	if !req.Stream {
		refuse(w, http.StatusBadRequest, "stream_only", `this backend only replays streams: send "stream": true`)
		return
	}
	if req.Model == "" || req.Model == hermesModel {
		req.Model = scenarios()[0].Name
	}
	chosen, err := choose([]string{req.Model})
	if err != nil {
		refuse(w, http.StatusNotFound, "model_not_found", "unknown model: choose one of "+allNames())
		return
	}
	b.replay(w, r, chosen[0])
}

// readRequest reads the body of a request. If that fails, it has answered the request with an
// error.
func readRequest(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		refuse(w, http.StatusRequestEntityTooLarge, "too_large", "the request body is too large")
	} else if err != nil {
		refuse(w, http.StatusBadRequest, "unreadable", "the request body ended early")
	}
	return body, err
}

// replay sends the frames of a scenario, each in a chunk of its own as Hermes
// does, until the client leaves or the run is killed.
func (b *backend) replay(w http.ResponseWriter, r *http.Request, s scenario) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	b.runs.Store(r, cancel)
	defer b.runs.Delete(r)
	speed := b.speed
	if f, err := strconv.ParseFloat(r.Header.Get(speedHeader), 64); err == nil && f > 0 && f <= 1 {
		speed *= f
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	if rc.Flush() != nil {
		return
	}
	for _, step := range s.steps {
		select {
		case <-time.After(scale(step.delay, speed)):
		case <-ctx.Done():
		}
		if errors.Is(context.Cause(ctx), http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		if ctx.Err() != nil {
			return
		}
		if _, err := w.Write(step.frame); err != nil || rc.Flush() != nil {
			return
		}
	}
	if s.aborts() {
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

// listen starts a server for h at addr, the host and port of a loopback address; others are
// refused. Port 0 means any free port; the Addr of the server has the actual one.
func listen(addr string, h http.Handler) (*http.Server, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another program, perhaps by Hermes itself", addr)
	}
	if err != nil {
		return nil, err
	}
	srv := &http.Server{
		Addr:              ln.Addr().String(),
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() { _ = srv.Serve(ln) }() // until it is closed
	return srv, nil
}

// checkLoopback returns an error unless addr is the host and port of a
// loopback address: the demo has no business on a network.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: write it as %s: %w", addr, backendAddr, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("address %q is not a loopback address: the demo listens on 127.0.0.1 only", addr)
	}
	return nil
}
