package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// An agent is a Hermes that offers one model and answers with recordings. The
// last message says which, and what becomes of the tools in it:
//
//	play g0-v0.8.0/one_tool    a tool ends at once
//	hold g0-v0.8.0/one_tool    a tool ends, or is approved, when the test says so
//	slow g0-v0.8.0/one_tool    a tool takes a while
//	kill g0-v0.8.0/one_tool    as hold, and the agent is killed then
//
// or, for pictures, is a question of a user (see spoken).
// What is asked without a stream (titles, tags) gets an answer without one.
type agent struct {
	t     testing.TB
	model string
	up    *upstream.Server
	tapes map[string]hermes.Recording
	next  chan struct{} // ends a tool, or the agent
	left  chan struct{} // gets a value if the client has gone while a tool ran

	mu     sync.Mutex
	chats  []turn
	asides int // requests for titles and the like
}

// A turn is a request for a streamed answer.
type turn struct {
	header   http.Header
	body     []byte
	question string // of the user
	Stream   bool
	Messages []struct{ Role, Content string }
	Tools    []json.RawMessage // Open WebUI's own
}

// said is what the assistant has said before, according to the request.
func (q turn) said() []string {
	var all []string
	for _, m := range q.Messages {
		if m.Role == "assistant" {
			all = append(all, m.Content)
		}
	}
	return all
}

func newAgent(t testing.TB, model string) *agent {
	t.Helper()
	a := &agent{t: t, model: model, tapes: map[string]hermes.Recording{}, next: make(chan struct{}), left: make(chan struct{}, 1)}
	for _, r := range hermes.Recordings(t, hermes.Chats) {
		a.tapes[r.String()] = r
	}
	a.tapes[approval] = approvalTape(t)
	a.up = upstream.New(t, a.play)
	return a
}

func (a *agent) play(x *upstream.Exchange) {
	if x.Req.Method == http.MethodOptions {
		x.Header("200 OK", "Access-Control-Allow-Origin: *", "Access-Control-Allow-Headers: authorization,content-type", "Content-Length: 0", "", "")
		return
	}
	if strings.HasSuffix(x.Req.URL.Path, "/models") {
		list := fmt.Sprintf(`{"object": "list", "data": [{"id": %q, "object": "model", "created": 1795165766, "owned_by": "hermes"}]}`, a.model)
		x.Header("200 OK", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(list)), "Access-Control-Allow-Origin: *", "", list)
		return
	}
	q := turn{header: x.Req.Header, body: x.Body}
	if err := json.Unmarshal(x.Body, &q); err != nil || len(q.Messages) == 0 {
		a.t.Errorf("a request without messages: %v: %s", err, harness.Clip(string(x.Body)))
		upstream.AsJSON("400 Bad Request", `{"error": {"message": "no messages"}}`)(x)
		return
	}
	for _, m := range q.Messages { // the last may be an answer that is to go on
		if m.Role == "user" {
			q.question = m.Content
		}
	}
	ask := q.question
	if s := spoken(ask); s != "" {
		ask = s
	}
	how, name, _ := strings.Cut(ask, " ")
	if _, what, ok := strings.Cut(name, "/nonstream."); ok && how == "play" {
		a.playWhole(x, what)
		return
	}
	if !q.Stream {
		a.mu.Lock()
		a.asides++
		a.mu.Unlock()
		upstream.AsJSON("200 OK", suggestions)(x)
		return
	}
	r, ok := a.tapes[name]
	if !ok {
		a.t.Errorf("no recording %q", name)
		upstream.AsJSON("404 Not Found", `{"error": {"message": "no such recording"}}`)(x)
		return
	}
	a.mu.Lock()
	a.chats = append(a.chats, q)
	a.mu.Unlock()
	if x.Req.Header.Get("Origin") != "" {
		r.Header = strings.Replace(r.Header, "\r\n", "\r\nAccess-Control-Allow-Origin: *\r\n", 1)
	}
	x.Raw(r.Header)
	for _, frame := range upstream.ByFrame.Cut(r.Body) {
		x.Chunk(frame)
		if how == "play" || !startsTool(string(frame)) && !strings.HasPrefix(string(frame), "event: approval.request") {
			continue
		}
		if how == "slow" {
			x.Pause(time.Second)
			continue
		}
		if !x.Wait(a.next) {
			a.left <- struct{}{}
			return
		}
		if how == "kill" {
			x.Reset()
			return
		}
	}
	x.End()
}

// spoken says what a question of a user stands for, "" for nothing.
func spoken(question string) string {
	switch question {
	case "Which files are here?":
		return "hold g0-v0.8.0/one_tool"
	case "Where do we read events?":
		return "play g3-v0.20.3/parallel_tools"
	case "Do the tests pass?":
		return "hold g0-v0.8.0/crash_in_tool"
	}
	return ""
}

// playWhole answers with a recording of what Hermes 0.8 says without a stream.
func (a *agent) playWhole(x *upstream.Exchange, scenario string) {
	b, err := os.ReadFile(filepath.Join(hermes.Captures, "g0-v0.8.0", "nonstream."+scenario+".http"))
	if err != nil {
		a.t.Error(err)
		x.Fin()
		return
	}
	x.Raw(string(b))
}

// startsTool reports whether a frame is a marker or the running event of a tool.
func startsTool(frame string) bool {
	return strings.Contains(frame, "\"content\": \"\\n`") || strings.HasPrefix(frame, "event: hermes.tool.progress") && !strings.Contains(frame, `"completed"`)
}

// proceed lets the tool that runs end.
func (a *agent) proceed() {
	a.t.Helper()
	select {
	case a.next <- struct{}{}:
	case <-time.After(harness.Patience):
		a.t.Fatal("no tool runs that could end")
	}
}

// abandoned waits until the client has left while a tool ran.
func (a *agent) abandoned() {
	a.t.Helper()
	select {
	case <-a.left:
	case <-time.After(harness.Patience / 2):
		a.t.Error("the client has not left")
		a.proceed()
	}
}

// askedAside is how many titles and the like have been asked for.
func (a *agent) askedAside() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asides
}

// last is the latest request for a streamed answer.
func (a *agent) last() turn {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.chats) == 0 {
		a.t.Fatalf("%s has not been asked", a.model)
	}
	return a.chats[len(a.chats)-1]
}

// count is how many streamed answers have been asked for.
func (a *agent) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.chats)
}

// awaitCount waits until so many streamed answers have been asked for.
func (a *agent) awaitCount(n int) {
	a.t.Helper()
	for deadline := time.Now().Add(harness.Patience); a.count() < n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.t.Fatalf("%s has been asked %d times, want %d", a.model, a.count(), n)
		}
	}
}

// asked is how often a question of the user has been asked.
func (a *agent) asked(question string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, q := range a.chats {
		if q.question == question {
			n++
		}
	}
	return n
}

// unstreamed answers each of Open WebUI's own questions: for a title, for tags
// and for what the user may say next.
const suggestions = `{"id": "chatcmpl-1", "object": "chat.completion", "created": 1795164827, "model": "hermes-agent",
	"choices": [{"index": 0, "message": {"role": "assistant", "content": "{\"title\": \"Files and tests\", \"tags\": [\"General\"], \"follow_ups\": []}"}, "finish_reason": "stop"}],
	"usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}}`
