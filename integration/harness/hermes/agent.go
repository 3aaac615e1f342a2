package hermes

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
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
)

// An Agent is a Hermes 0.22 as its clients see it: it answers chats, responses, sessions and runs,
// works on as many at once as its cap says, asks for approval, and keeps what it has heard.
//
// What it does for a request depends on the prompt, the last message of the user: it takes the steps
// of On, or answers as Answer says. Otherwise it says "bye", if the prompt begins with "slow" not
// before End.
type Agent struct {
	Addr    string
	Lingers time.Duration // for which it goes on when a client has left
	Origin  string        // of the page that may read answers, "" for none
	Silent  bool          // it answers no question about the state of a run
	Version string        // "" for 0.22, "0.19" or "0.13": what it tells of its sessions

	cap  int
	stop context.Context

	mu       sync.Mutex
	requests []*Request
	most     int // works at once of clients that were still there
	refused  int
	steps    map[string][]Step
	handlers map[string]http.HandlerFunc
	released bool // nothing is slow any more
	holds    map[string]chan struct{}
	leaving  map[string]bool
	refusing map[string]int // prompts, and how often still
	paths    []string       // of GET, but for sessions

	rows             map[string][]string // what sessions have stored
	rowID            int
	sessionQuestions []SessionQuestion
	sessionHandler   http.HandlerFunc
}

// A Request is one that the agent has taken, and not refused.
type Request struct {
	ID, Prompt, Key, Path string
	Header                http.Header
	Body                  string
	Session               string // of a chat, "" for none

	over, run bool
	ended     chan struct{} // closed when it is over
	events    []string      // of a run that asks
	asks      chan struct{} // closed when there is another event
	asked     []*question
}

// New starts an agent that works on so many requests at once, or on any number with 0, and refuses
// others as Hermes does. It ends with the test.
func New(t testing.TB, limit int) *Agent {
	t.Helper()
	stop, cancel := context.WithCancel(context.Background())
	a := &Agent{
		cap: limit, stop: stop, steps: map[string][]Step{}, handlers: map[string]http.HandlerFunc{},
		holds: map[string]chan struct{}{}, leaving: map[string]bool{}, refusing: map[string]int{},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(a.serve)}}
	srv.Start()
	t.Cleanup(func() {
		cancel()
		a.Release()
		srv.CloseClientConnections()
		srv.Close()
	})
	a.Addr = l.Addr().String()
	return a
}

// On has the agent take steps for a prompt.
func (a *Agent) On(prompt string, steps ...Step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps[prompt] = steps
}

// Answer has requests with a prompt answered without work.
func (a *Agent) Answer(prompt string, h http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handlers[prompt] = h
}

// Replies returns a handler that answers with a body. More header fields are name, value, name, value.
func Replies(status int, contentType, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// Refuse has the agent refuse a prompt so many times.
func (a *Agent) Refuse(prompt string, times int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusing[prompt] = times
}

// End ends the works on a prompt that is slow.
func (a *Agent) End(prompt string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end(a.hold(prompt))
}

// EndOne ends the first work that is under way on a prompt that is slow.
func (a *Agent) EndOne() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.requests {
		if !r.over && strings.HasPrefix(r.Prompt, "slow") {
			end(a.hold(r.Prompt))
			return
		}
	}
}

// end closes a channel that may be closed.
func end(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// hold returns what ends the works on a prompt that is slow. The mutex is held.
func (a *Agent) hold(prompt string) chan struct{} {
	if a.holds[prompt] == nil {
		a.holds[prompt] = make(chan struct{})
		if a.released {
			close(a.holds[prompt])
		}
	}
	return a.holds[prompt]
}

// Release ends all works, and lets none be slow from now on, but for one with steps of its own.
func (a *Agent) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = true
	for _, c := range a.holds {
		end(c)
	}
}

// Leaving says that the client of a prompt is about to leave: what the agent does for it counts no
// longer as work for a client.
func (a *Agent) Leaving(prompt string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving[prompt] = true
}

// Requests returns all requests that it has taken so far, in order.
func (a *Agent) Requests() (all []Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.requests {
		all = append(all, *r)
	}
	return all
}

// Heard returns their prompts.
func (a *Agent) Heard() (all []string) {
	for _, r := range a.Requests() {
		all = append(all, r.Prompt)
	}
	return all
}

// Has reports whether the agent has begun to work on a prompt.
func (a *Agent) Has(prompt string) bool { return slices.Contains(a.Heard(), prompt) }

// Of returns the first request with a prompt.
func (a *Agent) Of(t testing.TB, prompt string) Request {
	t.Helper()
	all := a.Requests()
	i := slices.IndexFunc(all, func(r Request) bool { return r.Prompt == prompt })
	if i < 0 {
		t.Fatalf("the agent has not heard %q", prompt)
	}
	return all[i]
}

// Until waits until the agent has begun to work on the prompts.
func (a *Agent) Until(t testing.TB, prompts ...string) {
	t.Helper()
	for _, p := range prompts {
		harness.Until(t, "the agent works on "+p, func() bool { return a.Has(p) })
	}
}

// IsOver reports whether all works on a prompt are over.
func (a *Agent) IsOver(prompt string) bool {
	return !slices.ContainsFunc(a.Requests(), func(r Request) bool { return r.Prompt == prompt && !r.over })
}

// Running returns how many works are under way.
func (a *Agent) Running() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, all := a.count()
	return all
}

// Refusals returns how many requests the agent has refused.
func (a *Agent) Refusals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// MostAtOnce returns the highest number of works at once of clients that were there.
func (a *Agent) MostAtOnce() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most
}

// Paths returns what was asked for with GET.
func (a *Agent) Paths() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.paths)
}

// count counts the works whose clients are there, and all. The mutex is held.
func (a *Agent) count() (there, all int) {
	for _, r := range a.requests {
		if !r.over {
			all++
			if !a.leaving[r.Prompt] {
				there++
			}
		}
	}
	return there, all
}

func (a *Agent) serve(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" && !a.allows(w, r, origin) {
		return
	}
	body, err := read(r)
	path, run := strings.CutPrefix(r.URL.Path, "/v1/runs/")
	switch id, approval := strings.CutSuffix(path, "/approval"); {
	case err != nil:
	case r.Method == http.MethodPost && run && approval:
		a.approve(w, r.Header.Get("Authorization"), id, body)
	case r.Method == http.MethodPost:
		a.post(w, r, body)
	case strings.Contains(r.URL.Path, sessionsPath) && strings.HasSuffix(r.URL.Path, "/messages"):
		a.sessions(w, r)
	default:
		a.get(w, r, path)
	}
}

// allows answers a preflight, and one of a page that may not ask, and otherwise allows it to read.
func (a *Agent) allows(w http.ResponseWriter, r *http.Request, origin string) (asks bool) {
	if origin != a.Origin {
		w.WriteHeader(http.StatusForbidden)
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Vary", "Origin")
	if r.Method == http.MethodOptions {
		w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key")
		return false
	}
	return true
}

// read reads the body of a request.
func read(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		if unzip, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(unzip)
		}
	}
	return body, err
}

// post answers a request that begins a run.
func (a *Agent) post(w http.ResponseWriter, r *http.Request, body []byte) {
	var q struct {
		Stream   bool
		Messages []struct {
			Content json.RawMessage
		}
		Input, Message string
	}
	if err := json.Unmarshal(body, &q); err != nil {
		problem(w, http.StatusBadRequest, "invalid_json")
		return
	}
	prompt := q.Input + q.Message
	if n := len(q.Messages); n > 0 {
		json.Unmarshal(q.Messages[n-1].Content, &prompt)
	}
	a.mu.Lock()
	handler := a.handlers[prompt]
	a.mu.Unlock()
	if handler != nil {
		handler(w, r)
		return
	}
	me, steps := a.begin(r, prompt, string(body))
	switch {
	case me == nil:
		w.Header().Set("Retry-After", "1")
		Replies(http.StatusTooManyRequests, "application/json", `{"error": {"message": "Too many concurrent runs (max `+strconv.Itoa(a.cap)+`)", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"}}`)(w, r)
	case me.run:
		go (&answer{agent: a, over: a.stop, req: me}).play(steps)
		Replies(http.StatusAccepted, "application/json", `{"run_id": "`+me.ID+`", "status": "started"}`)(w, r)
	default:
		(&answer{form: formOf(r.URL.Path, q.Stream), agent: a, w: w, over: r.Context(), req: me}).play(steps)
	}
}

// play is an answer from its beginning to its end. Its work is over before the client is told so.
func (a *answer) play(steps []Step) {
	if a.w != nil {
		a.w.Header().Set("Content-Type", a.contentType)
	}
	a.stores("user", ASCII(a.req.Prompt), "")
	if a.begin != nil {
		a.begin(a)
	}
	good := Play(a, steps...)
	if good {
		a.stores("assistant", ASCII(a.unstored()), `"finish_reason": "stop"`)
	}
	a.agent.ends(a.req, !good)
	if good && a.end != nil {
		a.end(a)
	}
}

// begin takes a request, unless too many are under way.
func (a *Agent) begin(r *http.Request, prompt, body string) (*Request, []Step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, all := a.count(); a.cap > 0 && all >= a.cap || a.refusing[prompt] > 0 {
		a.refusing[prompt]--
		a.refused++
		return nil, nil
	}
	kind := map[string]string{"/v1/chat/completions": "chatcmpl-", "/v1/responses": "resp_"}[r.URL.Path]
	me := &Request{
		ID: cmp.Or(kind, "run_") + hexOf(29), Prompt: prompt, Key: r.Header.Get("Authorization"), Path: r.URL.Path,
		Header: r.Header.Clone(), Body: body, run: r.URL.Path == "/v1/runs", ended: make(chan struct{}), asks: make(chan struct{}),
	}
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		me.Session = sessionOf(r, []byte(body))
	}
	a.requests = append(a.requests, me)
	there, _ := a.count()
	a.most = max(a.most, there)
	steps, ok := a.steps[prompt]
	if !ok {
		steps = []Step{Says("bye")}
		if strings.HasPrefix(prompt, "slow") {
			steps = []Step{Waits(a.hold(prompt)), Says("bye")}
		}
	}
	return me, steps
}

// ends ends a work; of one whose client has left, a while later. Until then it counts as work for a client,
// unless Leaving was called before.
func (a *Agent) ends(r *Request, left bool) {
	if left && a.Lingers > 0 {
		time.AfterFunc(a.Lingers, func() { a.isOver(r) })
		return
	}
	a.isOver(r)
}

// isOver says that a work is over.
func (a *Agent) isOver(r *Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !r.over {
		r.over = true
		close(r.ended)
	}
}

// get answers what asks about a run, or for the models.
func (a *Agent) get(w http.ResponseWriter, r *http.Request, path string) {
	id, events := strings.CutSuffix(path, "/events")
	a.mu.Lock()
	a.paths = append(a.paths, r.URL.Path)
	key := r.Header.Get("Authorization")
	i := slices.IndexFunc(a.requests, func(r *Request) bool { return r.run && r.ID == id && r.Key == key })
	var run Request
	if i >= 0 {
		run = *a.requests[i]
	}
	a.mu.Unlock()
	switch {
	case r.URL.Path == "/v1/models":
		Replies(http.StatusOK, "application/json", `{"object": "list", "data": [{"id": "hermes-agent", "object": "model", "created": 1795165766, "owned_by": "hermes", "permission": [], "root": "hermes-agent", "parent": null}]}`)(w, r)
	case r.URL.Path == "/health":
		Replies(http.StatusOK, "application/json", `{"status": "ok", "platform": "hermes-agent"}`)(w, r)
	case i < 0:
		problem(w, http.StatusNotFound, "run_not_found")
	case events:
		a.events(run, w, r)
	case a.Silent:
		problem(w, http.StatusInternalServerError, "internal_error")
	default:
		status := map[bool]string{false: "running", true: "completed"}[run.over]
		Replies(http.StatusOK, "application/json", fmt.Sprintf(`{"object": "hermes.run", "run_id": "%s", "status": "%s", "created_at": 1795164799.1, "updated_at": 1795164799.1, "session_id": "%[1]s", "model": "hermes-agent", "last_event": "message.delta"}`, run.ID, status))(w, r)
	}
}

// events answers GET /v1/runs/{run_id}/events.
func (a *Agent) events(r Request, w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	write(w, ": open")
	data := func(id int, event, more string) {
		write(w, "id: "+strconv.Itoa(id), fmt.Sprintf(`data: {"event": "%s", "run_id": "%s", "timestamp": 1795466037.7, %s"seq": %d}`, event, r.ID, more, id))
	}
	data(0, "message.delta", `"delta": "hi", `)
	n := 0
	for {
		events, over, more := a.since(r.ID, n)
		for _, e := range events {
			n++
			write(w, "id: "+strconv.Itoa(n), e)
		}
		if over {
			break
		}
		select {
		case <-more:
		case <-r.ended:
		case <-q.Context().Done():
			return
		}
	}
	data(n+1, "run.completed", `"output": "hi", "usage": {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}, `)
	write(w, ": stream closed")
}

// keep adds an event to those of a run.
func (a *Agent) keep(r *Request, event string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.events = append(r.events, event)
	close(r.asks)
	r.asks = make(chan struct{})
}

// since returns the events of a run but for the first n, whether these are all, and what tells that there
// are more.
func (a *Agent) since(id string, n int) (events []string, over bool, more <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.requests[slices.IndexFunc(a.requests, func(r *Request) bool { return r.ID == id })]
	return slices.Clone(r.events[n:]), r.over, r.asks
}

// problem answers with an error of Hermes'.
func problem(w http.ResponseWriter, status int, code string) {
	Replies(status, "application/json", fmt.Sprintf(`{"error": {"message": "%s", "type": "invalid_request_error", "param": null, "code": "%[1]s"}}`, code))(w, nil)
}

// hexOf returns n random hexadecimal digits.
func hexOf(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[rand.IntN(16)]
	}
	return string(b)
}
