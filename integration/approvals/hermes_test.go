package approvals

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// An agent is a Hermes 0.22 that asks before it runs a command, as a real one was seen to. It keeps
// who has asked for what, who has answered, and what has run.
type agent struct {
	addr string

	mu      sync.Mutex
	scripts map[string]script // by the user's message
	runs    []*run
	bodies  []string // of all requests for an answer
}

// A script is what becomes of a request for a stream.
type script struct {
	says     string   // before the first command
	commands []string // each is asked about, and then runs or does not
	after    string   // is said after the last; what was answered is added

	expires chan struct{} // closed, the agent waits no longer for an answer; nil for never
	ends    chan struct{} // the agent ends its answer when it is closed; nil for at once
	dies    chan struct{} // closed, the agent breaks off while it waits; nil for never
}

// A run is one of the agent's.
type run struct {
	id, key, user, prompt string
	asked                 []*question
	over                  bool
}

// A question is about one command.
type question struct {
	id, command string
	waits       bool
	choices     []string // that were accepted: one at most
	ran         int
	died        bool // the agent has, before it ran or did not
	answered    chan string
}

// newAgent starts an agent. It ends with the test.
func newAgent(t testing.TB) *agent {
	t.Helper()
	a := &agent{scripts: map[string]script{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(a.serve)}}
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	a.addr = l.Addr().String()
	return a
}

// script has the agent follow a script when the user says something.
func (a *agent) script(prompt string, s script) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scripts[prompt] = s
}

func (a *agent) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !strings.HasPrefix(key, "key-") {
		problem(w, http.StatusUnauthorized, "invalid_api_key")
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/runs/")
	id, isApproval := strings.CutSuffix(rest, "/approval")
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions":
		a.chat(w, r, key, body)
	case r.Method == http.MethodPost && ok && isApproval:
		a.approve(w, key, id, body)
	default:
		problem(w, http.StatusNotFound, "not_found")
	}
}

// problem answers with an error of Hermes'.
func problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error": {"message": "%s", "type": "invalid_request_error", "param": null, "code": "%[1]s"}}`, code)
}

// approve answers POST /v1/runs/{run_id}/approval.
func (a *agent) approve(w http.ResponseWriter, key, id string, body []byte) {
	var answer struct {
		Choice    string
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(body, &answer) != nil || !slices.Contains([]string{"once", "session", "always", "deny"}, answer.Choice) {
		problem(w, http.StatusBadRequest, "invalid_approval_choice")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.runs, func(r *run) bool { return r.id == id && r.key == key })
	if i < 0 {
		problem(w, http.StatusNotFound, "run_not_found")
		return
	}
	if a.runs[i].over {
		problem(w, http.StatusConflict, "approval_not_active")
		return
	}
	for _, q := range a.runs[i].asked {
		if q.waits && (answer.RequestID == "" || q.id == answer.RequestID) {
			q.waits = false
			q.choices = append(q.choices, answer.Choice)
			q.answered <- answer.Choice
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"object": "hermes.run.approval_response", "run_id": "%s", "choice": "%s", "request_id": "%s", "resolved": 1}`, id, answer.Choice, q.id)
			return
		}
	}
	problem(w, http.StatusConflict, "approval_not_pending")
}

// chat answers a chat.
func (a *agent) chat(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	var q struct {
		Stream   bool
		Messages []struct{ Role, Content string }
	}
	if json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		problem(w, http.StatusBadRequest, "invalid_request")
		return
	}
	a.mu.Lock()
	a.bodies = append(a.bodies, string(body))
	prompt := q.Messages[len(q.Messages)-1].Content
	s, known := a.scripts[prompt]
	me := &run{id: "chatcmpl-" + hexOf(29), key: key, user: r.Header.Get("X-User"), prompt: prompt}
	a.runs = append(a.runs, me)
	a.mu.Unlock()
	if !known {
		s.says = "Well."
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		me.over = true
	}()
	if !q.Stream { // Hermes asks nothing in such an answer
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id": "%s", "object": "chat.completion", "created": 1795164799, "model": "hermes-agent", "choices": [{"index": 0, "message": {"role": "assistant", "content": %s}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}}`,
			me.id, hermes.ASCII(s.says))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	a.stream(&hermes.Frames{W: w, ID: me.id}, r, me, s)
}

// stream is an answer with its commands.
func (a *agent) stream(f *hermes.Frames, r *http.Request, me *run, s script) {
	f.Delta("role", "assistant")
	if s.says != "" {
		f.Delta("content", s.says)
	}
	var did []string
	for i, command := range s.commands {
		choice, ok := a.ask(f, r, me, s, i, command)
		if !ok {
			return
		}
		did = append(did, choice)
	}
	if s.ends != nil {
		select {
		case <-s.ends:
		case <-r.Context().Done():
			return
		}
	}
	if s.after != "" {
		f.Delta("content", "\n\n"+s.after+strings.Join(did, ","))
	}
	f.Write(hermes.One(`data: {` + f.Head() + `, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}}`)...)
	f.Write("data: [DONE]")
}

// ask asks about a command, and runs it if it may.
func (a *agent) ask(f *hermes.Frames, r *http.Request, me *run, s script, i int, command string) (choice string, ok bool) {
	q := &question{id: hexOf(32), command: command, waits: true, answered: make(chan string, 1)}
	call := fmt.Sprintf("call_%s_%d", me.id[9:17], i)
	f.Write("event: hermes.tool.progress", fmt.Sprintf(`data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": %s, "toolCallId": "%s", "status": "running"}`, hermes.ASCII(firstOf(command)), call))
	a.mu.Lock()
	me.asked = append(me.asked, q)
	a.mu.Unlock()
	f.Write("event: approval.request", fmt.Sprintf(`data: {"command": %s, "pattern_key": "recursive delete", "pattern_keys": ["recursive delete"], "description": "recursive delete", `+
		`"allow_permanent": true, "allow_session": true, "request_id": "%s", "event": "approval.request", "run_id": "%s", "timestamp": 1795385820.82, "session_id": "api-b1f7fa361c19eefe", `+
		`"choices": ["once", "session", "always", "deny"]}`, hermes.ASCII(command), q.id, me.id))
	keepalive := time.NewTicker(100 * time.Millisecond)
	defer keepalive.Stop()
	for choice == "" {
		select {
		case choice = <-q.answered:
		case <-s.expires:
			choice = a.expire(q)
		case <-keepalive.C:
			f.Write(": keepalive")
		case <-s.dies:
			a.gone(q)
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			a.gone(q)
			return "", false
		}
	}
	if choice != "deny" && choice != "expired" {
		a.mu.Lock()
		q.ran++
		a.mu.Unlock()
	}
	f.Write("event: hermes.tool.progress", fmt.Sprintf(`data: {"tool": "terminal", "toolCallId": "%s", "status": "completed"}`, call))
	return choice, true
}

// expire ends the time for an answer, unless one has come.
func (a *agent) expire(q *question) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !q.waits {
		return <-q.answered
	}
	q.waits = false
	return "expired"
}

// gone drops a question whose run is over.
func (a *agent) gone(q *question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q.waits, q.died = false, true
}

// firstOf is a command as the label of a tool shows it.
func firstOf(command string) string {
	r := []rune(strings.Join(strings.Fields(command), " "))
	if len(r) > 40 {
		return string(r[:37]) + "..."
	}
	return string(r)
}

// A record is what became of a question.
type record struct {
	key, user, prompt, command string
	choices                    []string
	ran                        int
	died                       bool
}

// records returns all that was asked so far, in order.
func (a *agent) records() (all []record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.runs {
		for _, q := range r.asked {
			all = append(all, record{r.key, r.user, r.prompt, q.command, slices.Clone(q.choices), q.ran, q.died})
		}
	}
	return all
}

// sent returns the bodies of all requests for an answer.
func (a *agent) sent() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.bodies)
}

// wantRan wants a command to have run so many times, in all runs.
func (a *agent) wantRan(t testing.TB, command string, n int) {
	t.Helper()
	got := 0
	for _, r := range a.records() {
		if r.command == command {
			got += r.ran
		}
	}
	if got != n {
		t.Errorf("%q has run %d times, want %d: %+v", command, got, n, a.records())
	}
}

// hexOf returns n random hexadecimal digits.
func hexOf(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[rand.IntN(16)]
	}
	return string(b)
}
