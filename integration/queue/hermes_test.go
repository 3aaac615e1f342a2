package queue

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// An agent is a Hermes that works on so many requests at once and refuses more, as a real one does.
// It keeps what it has heard, and how much of it at once.
type agent struct {
	addr string
	cap  int // works at once, 0 for any number

	mu       sync.Mutex
	works    []*work
	most     int // works at once of clients that were still there
	all      int // works at once, with those whose client has left
	refused  int // requests, by the cap or by answers
	lingers  time.Duration
	answers  map[string]http.HandlerFunc // by the prompt, instead of work
	released bool                        // nothing is slow any more
	holds    map[string]chan struct{}
	leaving  map[string]bool
	refusing map[string]int // prompts, and how often still
	gets     []string       // paths that were asked for with GET
	origin   string         // of the page that may read answers, "" for none
	silent   bool           // no GET of a run is answered with its state
	reading  int            // requests whose body has not come whole
}

// A work is a request that the agent has taken.
type work struct {
	id, prompt, key, path string
	header                http.Header
	body                  string
	over, left, run       bool
	ended                 chan struct{} // closed when it is over
}

// newAgent starts an agent that ends with the test.
func newAgent(t testing.TB, limit int) *agent {
	t.Helper()
	a := &agent{cap: limit, answers: map[string]http.HandlerFunc{}, holds: map[string]chan struct{}{}, leaving: map[string]bool{}, refusing: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(a.serve)}}
	srv.Start()
	t.Cleanup(func() {
		a.release()
		srv.CloseClientConnections()
		srv.Close()
	})
	a.addr = l.Addr().String()
	return a
}

// end ends the works whose prompt begins with "slow" and that text.
func (a *agent) end(prompt string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.hold(prompt)
	select {
	case <-c:
	default:
		close(c)
	}
}

// hold returns what ends the works with a prompt. The mutex is held.
func (a *agent) hold(prompt string) chan struct{} {
	if a.holds[prompt] == nil {
		a.holds[prompt] = make(chan struct{})
		if a.released {
			close(a.holds[prompt])
		}
	}
	return a.holds[prompt]
}

// release ends all works, and lets none be slow from now on.
func (a *agent) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.released {
		return
	}
	a.released = true
	for _, c := range a.holds {
		select {
		case <-c:
		default:
			close(c)
		}
	}
}

// holdsAgain ends what release has begun.
func (a *agent) holdsAgain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = false
}

// answer has requests with a prompt answered without work.
func (a *agent) answer(prompt string, h http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[prompt] = h
}

// leaves says that the client of a prompt is about to leave: what the agent does for it counts no
// longer as work for a client.
func (a *agent) leaves(prompt string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving[prompt] = true
}

// heard returns the prompts of all works so far, in order.
func (a *agent) heard() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.works {
		all = append(all, w.prompt)
	}
	return all
}

// has reports whether the agent has begun to work on a prompt.
func (a *agent) has(prompt string) bool { return slices.Contains(a.heard(), prompt) }

// of returns the first work with a prompt.
func (a *agent) of(t testing.TB, prompt string) *work {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.works {
		if w.prompt == prompt {
			return w
		}
	}
	t.Fatalf("the agent has not heard %q", prompt)
	return nil
}

// running returns how many works are under way.
func (a *agent) running() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, all := a.count()
	return all
}

// refusals returns how many requests the agent has refused.
func (a *agent) refusals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// mostAtOnce returns the highest number of works at once of clients that were there.
func (a *agent) mostAtOnce() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most
}

func (a *agent) count() (there, all int) {
	for _, w := range a.works {
		if !w.over {
			all++
			if !a.leaving[w.prompt] {
				there++
			}
		}
	}
	return there, all
}

func (a *agent) serve(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" { // as Hermes does
		if origin != a.origin {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Vary", "Origin")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key")
			return
		}
	}
	a.mu.Lock()
	a.reading++
	a.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	a.mu.Lock()
	a.reading--
	a.mu.Unlock()
	if err != nil {
		return
	}
	if r.Header.Get("Content-Encoding") == "gzip" { // as Hermes' server does
		if unzip, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(unzip)
		}
	}
	if r.Method == http.MethodPost {
		a.post(w, r, body)
		return
	}
	a.mu.Lock()
	a.gets = append(a.gets, r.URL.Path)
	a.mu.Unlock()
	id, events := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/runs/"), "/events")
	run := a.run(id, r.Header.Get("Authorization"))
	switch {
	case run == nil:
		problem(w, http.StatusNotFound, "run_not_found", "")
	case events:
		a.events(w, r, run)
	case a.silent:
		problem(w, http.StatusInternalServerError, "internal_error", "")
	default:
		a.mu.Lock()
		status := map[bool]string{false: "running", true: "completed"}[run.over]
		a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object": "hermes.run", "run_id": "%s", "status": "%s", "created_at": 1795164799.1, "updated_at": 1795164799.1, "session_id": "%[1]s", "model": "hermes-agent", "last_event": "message.delta"}`, run.id, status)
	}
}

// run returns the run with an id, nil if there is none of that key.
func (a *agent) run(id, key string) *work {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.works {
		if w.run && w.id == id && w.key == key {
			return w
		}
	}
	return nil
}

// problem answers with an error of Hermes'.
func problem(w http.ResponseWriter, status int, code, message string) {
	kind := "invalid_request_error"
	if status == http.StatusTooManyRequests {
		kind = "rate_limit_error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error": {"message": "%s", "type": "%s", "param": null, "code": "%s"}}`, message, kind, code)
}

// begin takes a request, unless too many are under way.
func (a *agent) begin(r *http.Request, prompt, body string) *work {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, all := a.count(); a.cap > 0 && all >= a.cap || a.refusing[prompt] > 0 {
		a.refusing[prompt]--
		a.refused++
		return nil
	}
	n := strconv.Itoa(len(a.works))
	w := &work{id: "chatcmpl-" + n, prompt: prompt, key: r.Header.Get("Authorization"), path: r.URL.Path, header: r.Header.Clone(), body: body, ended: make(chan struct{})}
	a.works = append(a.works, w)
	there, all := a.count()
	a.most, a.all = max(a.most, there), max(a.all, all)
	return w
}

// over ends a work; of one whose client has left, a while later.
func (a *agent) over(w *work, left bool) {
	a.mu.Lock()
	w.left, a.leaving[w.prompt] = left, a.leaving[w.prompt] || left
	lingers := a.lingers
	a.mu.Unlock()
	end := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !w.over {
			w.over = true
			close(w.ended)
		}
	}
	if left && lingers > 0 {
		time.AfterFunc(lingers, end)
		return
	}
	end()
}

// post answers a request that begins a run.
func (a *agent) post(w http.ResponseWriter, r *http.Request, body []byte) {
	var q struct {
		Stream   bool
		Messages []struct {
			Content json.RawMessage
		}
		Input, Message string
	}
	if err := json.Unmarshal(body, &q); err != nil {
		problem(w, http.StatusBadRequest, "invalid_json", err.Error())
		return
	}
	prompt := q.Input + q.Message
	if n := len(q.Messages); n > 0 {
		json.Unmarshal(q.Messages[n-1].Content, &prompt)
	}
	a.mu.Lock()
	other := a.answers[prompt]
	a.mu.Unlock()
	if other != nil {
		other(w, r)
		return
	}
	me := a.begin(r, prompt, string(body))
	if me == nil {
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusTooManyRequests, "rate_limit_exceeded", "Too many concurrent runs (max "+strconv.Itoa(a.cap)+")")
		return
	}
	a.mu.Lock()
	hold := a.hold(prompt)
	if !strings.HasPrefix(prompt, "slow") {
		hold = closed
	}
	a.mu.Unlock()
	f := &hermes.Frames{W: w, ID: me.id}
	wait := func() bool { return a.work(r, me, hold) }
	switch {
	case r.URL.Path == "/v1/runs":
		a.mu.Lock()
		me.run, me.id = true, "run_"+strings.TrimPrefix(me.id, "chatcmpl-")
		a.mu.Unlock()
		go func() {
			<-hold
			a.over(me, false)
		}()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"run_id": "%s", "status": "started"}`, me.id)
	case strings.HasSuffix(r.URL.Path, "/chat/stream"):
		w.Header().Set("Content-Type", "text/event-stream")
		tail := `"session_id": "s1", "run_id": "` + me.id + `", "seq": %d, "ts": 1795327604.7}`
		f.Event("run.started", `{"user_message": {"role": "user", "content": "hi"}, `+tail, 1)
		f.Event("message.started", `{"message": {"id": "msg_1", "role": "assistant"}, `+tail, 2)
		if !wait() {
			return
		}
		f.Event("assistant.delta", `{"message_id": "msg_1", "delta": "bye", `+tail, 3)
		f.Event("assistant.completed", `{"message_id": "msg_1", "content": "bye", "completed": true, "partial": false, "interrupted": false, `+tail, 4)
		f.Event("run.completed", `{"message_id": "msg_1", "completed": true, "partial": false, "interrupted": false, `+tail, 5)
		f.Event("done", `{`+tail, 6)
	case r.URL.Path == "/v1/responses" && q.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		response := `"response": {"id": "resp_1", "object": "response", "created_at": 1795164799, "status": "%s", "model": "hermes-agent", "output": []}, "sequence_number": %d}`
		f.Event("response.created", `{"type": "response.created", `+response, "in_progress", 0)
		if !wait() {
			return
		}
		f.Event("response.completed", `{"type": "response.completed", `+response, "completed", 1)
	case r.URL.Path == "/v1/responses":
		if wait() {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id": "resp_1", "object": "response", "created_at": 1795164799, "status": "completed", "model": "hermes-agent", "output": [], "usage": {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}}`)
		}
	case q.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Hermes-Session-Id", "api-0123456789abcdef")
		f.Delta("role", "assistant")
		if !wait() {
			return
		}
		f.Delta("content", "bye")
		f.Write(hermes.One(`data: {` + f.Head() + `, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}}`)...)
		f.Write("data: [DONE]")
	default:
		if wait() {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id": "%s", "object": "chat.completion", "created": 1795164799, "model": "hermes-agent", "choices": [{"index": 0, "message": {"role": "assistant", "content": "bye"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}}`, me.id)
		}
	}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// work works until it may end. It ends before the client is told so, and reports whether the client
// is still there.
func (a *agent) work(r *http.Request, me *work, hold <-chan struct{}) bool {
	select {
	case <-hold:
		a.over(me, false)
		return true
	case <-r.Context().Done():
		a.over(me, true)
		return false
	}
}

// events answers GET /v1/runs/{run_id}/events.
func (a *agent) events(w http.ResponseWriter, r *http.Request, run *work) {
	w.Header().Set("Content-Type", "text/event-stream")
	f := &hermes.Frames{W: w, ID: run.id}
	f.Write(": open")
	data := func(id int, event, more string) {
		f.Write("id: "+strconv.Itoa(id), fmt.Sprintf(`data: {"event": "%s", "run_id": "%s", "timestamp": 1795466037.7, %s"seq": %d}`, event, run.id, more, id))
	}
	data(0, "message.delta", `"delta": "hi", `)
	select {
	case <-run.ended:
	case <-r.Context().Done():
		return
	}
	data(1, "run.completed", `"output": "hi", "usage": {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}, `)
	f.Write(": stream closed")
}

// until waits until the agent has begun to work on the prompts.
func (a *agent) until(t testing.TB, prompts ...string) {
	t.Helper()
	for _, p := range prompts {
		harness.Until(t, "the agent works on "+p, func() bool { return a.has(p) })
	}
}
