package caddymodule

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/approval"
)

// script is an agent that answers each POST and GET with a list of frames, by the path. Between
// them "?ID" waits for the answer to a request, and "!" lets the connection break.
type script struct {
	t *testing.T
	// frames are those of an answer. In them RUN is the id of the run.
	frames []string
	// split sends the frames in pieces of so many bytes, 0 for a write per frame.
	split int

	mu      sync.Mutex
	run     string
	pending map[string]chan string
	said    []string // "ID choice" of each answer
	paths   []string
	over    int // requests that have ended
}

// newScript returns an agent with runs whose ids begin with the text: the desk is the process's.
func newScript(t *testing.T, run string, frames ...string) (*script, string) {
	a := &script{t: t, frames: frames, run: run + rand.Text(), pending: map[string]chan string{}}
	for _, f := range frames {
		if id, ok := strings.CutPrefix(f, "?"); ok {
			a.pending[id] = make(chan string, 1)
		}
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return a, strings.TrimPrefix(server.URL, "http://")
}

func (a *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.paths = append(a.paths, r.Method+" "+r.URL.Path)
	a.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/approval") {
		var said struct {
			Choice string `json:"choice"`
			ID     string `json:"request_id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&said)
		a.mu.Lock()
		defer a.mu.Unlock()
		waits := a.pending[said.ID]
		if r.URL.Path != "/v1/runs/"+a.run+"/approval" || waits == nil {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error":{"code":"approval_not_pending"}}`)
			return
		}
		delete(a.pending, said.ID)
		a.said = append(a.said, said.ID+" "+said.Choice)
		waits <- said.Choice
		fmt.Fprint(w, `{"resolved": 1}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.over++
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	if !strings.Contains(string(body), "danger") && r.Method == http.MethodPost {
		_, _ = io.WriteString(w, chatFrame(`"role": "assistant"`)+chatFrame(`"content": "You said so."`)+chatEnd)
		return
	}
	waits := map[string]chan string{}
	a.mu.Lock()
	for id, c := range a.pending {
		waits[id] = c
	}
	a.mu.Unlock()
	for _, f := range a.frames {
		if id, ok := strings.CutPrefix(f, "?"); ok {
			if waits[id] == nil {
				continue
			}
			select {
			case <-waits[id]:
			case <-r.Context().Done():
				return
			}
			continue
		}
		if f == "!" {
			panic(http.ErrAbortHandler)
		}
		f = strings.ReplaceAll(f, "RUN", a.run)
		n := len(f)
		if a.split > 0 {
			n = a.split
		}
		for piece := range slices.Chunk([]byte(f), n) {
			_, _ = w.Write(piece)
			w.(http.Flusher).Flush()
		}
	}
}

// answers returns the answers that have come.
func (a *script) answers() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.said, ", ")
}

func chatFrame(delta string) string {
	return `data: {"id": "RUN", "object": "chat.completion.chunk", "created": 1, "model": "hermes-agent", "choices": [{"index": 0, "delta": {` + delta + `}, "finish_reason": null}]}` + "\n\n"
}

const (
	chatStop = `data: {"id": "RUN", "object": "chat.completion.chunk", "created": 1, "model": "hermes-agent", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}` + "\n\n"
	chatEnd  = chatStop + `data: {"id": "RUN", "object": "chat.completion.chunk", "created": 1, "model": "hermes-agent", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}}` + "\n\n" + "data: [DONE]\n\n"
)

func chatText(text string) string {
	b, _ := json.Marshal(text)
	return chatFrame(`"content": ` + string(b))
}

func chatTool(id, status string) string {
	return `event: hermes.tool.progress` + "\n" + `data: {"tool": "terminal", "emoji": "💻", "label": "rm ` + id + `", "toolCallId": "` + id + `", "status": "` + status + `"}` + "\n\n"
}

func chatAsk(id string) string {
	return "event: approval.request\n" + `data: {"command": "rm ` + id + `", "description": "recursive delete", "request_id": "req-` + id + `", "event": "approval.request", "run_id": "RUN", "choices": ["once", "session", "always", "deny"]}` + "\n\n"
}

// strictly reads a whole stream of chunks as openai-python does, which takes every event for a
// chunk, and returns its text and its finish reason.
func strictly(t *testing.T, all string) (text, finish string) {
	t.Helper()
	open, done, chunks, ended := map[string]int{}, false, 0, map[string]int{}
	in := bufio.NewScanner(strings.NewReader(all))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			continue
		}
		if done {
			t.Errorf("after [DONE]: %s", data)
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var c struct {
			ID, Object, Model  string
			Created            int64
			ToolCallID, Status string
			Choices            *[]struct {
				Index        int
				Delta        *struct{ Role, Content string }
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if strings.HasPrefix(data, `{"error":`) { // of an error finish
			continue
		}
		if c.Object != "chat.completion.chunk" || c.ID == "" || c.Model == "" || c.Choices == nil {
			t.Errorf("no chunk: %s", data)
			continue
		}
		chunks++
		for _, choice := range *c.Choices {
			if choice.Delta == nil {
				t.Errorf("no delta: %s", data)
				continue
			}
			if chunks == 1 && choice.Delta.Role != "assistant" {
				t.Errorf("the first chunk has no role: %s", data)
			}
			if text += choice.Delta.Content; finish != "" && (choice.Delta.Content != "" || choice.FinishReason != "") {
				t.Errorf("after the finish: %s", data)
			}
			if choice.FinishReason != "" {
				finish = choice.FinishReason
			}
		}
		switch c.Status {
		case "running":
			open[c.ToolCallID]++
		case "completed":
			ended[c.ToolCallID]++
		}
	}
	for id, n := range open {
		if n != 1 || ended[id] != 1 {
			t.Errorf("the tool %s has %d starts and %d ends", id, n, ended[id])
		}
	}
	if len(ended) != len(open) || !done || finish == "" {
		t.Errorf("the stream is not whole: %q, done %t, open %v, ended %v\n%s", finish, done, open, ended, all)
	}
	return text, finish
}

// held returns the text of an answer that asks for a reply, and its code.
func (s *approvalSite) held(t *testing.T, header ...string) (text, code string) {
	t.Helper()
	a := s.chat(agentKey, "danger", header...)
	code = a.until(codeIn)
	text, finish := strictly(t, a.rest())
	if finish != "stop" {
		t.Errorf("it ends with %q", finish)
	}
	return text, code
}

// TestTwoApprovalsOfOneAnswer, of tools at the same time and of one after the other: each reply gets
// a whole answer.
func TestTwoApprovalsOfOneAnswer(t *testing.T) {
	for name, frames := range map[string][]string{
		"parallel": {chatFrame(`"role": "assistant"`), chatText("Let me."), chatTool("a", "running"), chatTool("b", "running"), chatAsk("a"), chatAsk("b"),
			"?req-a", chatTool("a", "completed"), "?req-b", chatTool("b", "completed"), chatText("\n\nDone."), chatEnd},
		"one by one": {chatFrame(`"role": "assistant"`), chatText("Let me."), chatTool("a", "running"), chatAsk("a"), "?req-a", chatTool("a", "completed"),
			chatText("Next."), chatTool("b", "running"), chatAsk("b"), "?req-b", chatTool("b", "completed"), chatText("\n\nDone."), chatEnd},
	} {
		for _, split := range []int{0, 1, 7, 4096} {
			t.Run(fmt.Sprint(name, split), func(t *testing.T) {
				agent, upstream := newScript(t, "chatcmpl-", frames...)
				agent.split = split
				site := runApprovals(t, upstream, replied)
				text, first := site.held(t)
				if !strings.HasPrefix(text, "Let me.\n\n") || !strings.Contains(text, "rm a") {
					t.Errorf("%q", text)
				}
				b := site.chat(agentKey, "approve "+first)
				second := b.until(codeIn)
				if text, finish := strictly(t, b.rest()); !strings.Contains(text, "rm b") || finish != "stop" {
					t.Errorf("the second answer: %q, %q", text, finish)
				}
				text, finish := strictly(t, site.chat(agentKey, "deny "+second).rest())
				if text != "\n\nDone." || finish != "stop" || agent.answers() != "req-a once, req-b deny" {
					t.Errorf("the third answer: %q, %q, %s", text, finish, agent.answers())
				}
			})
		}
	}
}

// TestWhereAnAnswerIsSplit: text in front of the request, and what the two answers say.
func TestWhereAnAnswerIsSplit(t *testing.T) {
	for name, c := range map[string]struct{ before, options string }{
		"text":          {"Let me.", ""},
		"nothing":       {"", ""},
		"a fence":       {"Look:\n```sh\nrm", ""},
		"a tag":         {"<think>I must", ""}, // the tool ends the reasoning
		"a marker held": {"Let me.\n\n`💻 rm", ""},
		"a paragraph":   {"**Approval needed", ""},
		"status line":   {"Let me.", "status_line on"},
		"link":          {"Let me.", "approvals link https://hermes.example.com/hermes/approve text\n\t}\n\thermes_approvals {\n\t\tallow_always"},
		"progress":      {"Let me.", "progress unnamed"},
		"cards":         {"Let me.", "cards on"},
	} {
		t.Run(name, func(t *testing.T) {
			frames := []string{chatFrame(`"role": "assistant"`), chatTool("a", "running"), chatAsk("a"), "?req-a", chatTool("a", "completed"), chatText("So."), chatEnd}
			if c.before != "" {
				frames = slices.Insert(frames, 1, chatText(c.before))
			}
			agent, upstream := newScript(t, "chatcmpl-", frames...)
			site := runApprovals(t, upstream, strings.Replace(replied, "reply", "reply\n\t\t"+c.options, 1))
			said, code := site.held(t)
			if !strings.Contains(said, "reply `approve "+code) || !strings.HasSuffix(said, ": `rm a`") {
				t.Errorf("%q", said)
			}
			text, finish := strictly(t, site.chat(agentKey, "approve "+code).rest())
			if text != "So." || finish != "stop" || agent.answers() != "req-a once" {
				t.Errorf("%q, %q, %s", text, finish, agent.answers())
			}
		})
	}
}

// TestHeldAnswerThatBreaks: the answer to the reply says so.
func TestHeldAnswerThatBreaks(t *testing.T) {
	_, upstream := newScript(t, "chatcmpl-", chatFrame(`"role": "assistant"`), chatText("Let me."), chatTool("a", "running"), chatAsk("a"), "?req-a", "!")
	site := runApprovals(t, upstream, replied)
	_, code := site.held(t)
	for range 2 {
		all := site.chat(agentKey, "approve "+code).rest()
		if _, finish := strictly(t, all); finish != "error" || strings.Contains(all, `"stop"`) {
			t.Errorf("%q:\n%s", finish, all)
		}
	}
}

// TestRepeatsAroundASplit: what an SDK or a client with a key sends again has the same answer.
func TestRepeatsAroundASplit(t *testing.T) {
	key := rand.Text() // the storage is the process's
	for name, header := range map[string][][]string{
		"sdk": {{"X-Stainless-Retry-Count", "0"}, {"X-Stainless-Retry-Count", "1"}},
		"key": {{"Idempotency-Key", key}, {"Idempotency-Key", key}},
	} {
		t.Run(name, func(t *testing.T) {
			agent, upstream := newScript(t, "chatcmpl-", chatFrame(`"role": "assistant"`), chatText("Let me."), chatTool("a", "running"), chatAsk("a"), "?req-a",
				chatTool("a", "completed"), chatText("So."), chatEnd)
			site := runApprovals(t, upstream, replied)
			first, code := site.held(t, header[0]...)
			if again, same := site.held(t, header[1]...); again != first || same != code {
				t.Errorf("the repeat has %q, not %q", again, first)
			}
			answer := func(i int, choice string) string {
				h := slices.Clone(header[i])
				if name == "key" {
					h[1] = key + "r"
				}
				text, _ := strictly(t, site.chat(agentKey, choice+" "+code, h...).rest())
				return text
			}
			if a, b := answer(0, "approve"), answer(1, "approve"); a != "So." || b != a {
				t.Errorf("the reply has %q, its repeat %q", a, b)
			}
			agent.mu.Lock()
			defer agent.mu.Unlock()
			if want := []string{"POST /v1/chat/completions", "POST /v1/runs/" + agent.run + "/approval"}; !slices.Equal(agent.paths, want) {
				t.Errorf("the agent was asked %q", agent.paths)
			}
		})
	}
}

// TestTicketsOfRunsAndSessions: the link is in the event, and the answer reaches the run.
func TestTicketsOfRunsAndSessions(t *testing.T) {
	runEvent := func(name, more string) string {
		return `data: {"event": "` + name + `", "run_id": "RUN", "timestamp": 1.5` + more + "}\n\n"
	}
	sessionEvent := func(name, more string) string {
		return "event: " + name + "\n" + `data: {"x": 1` + more + `, "session_id": "s1", "run_id": "RUN", "seq": 3, "ts": 2.5}` + "\n\n"
	}
	const ask = `, "command": "rm -rf victim", "description": "d", "request_id": "r1", "choices": ["once", "deny"]`
	for name, c := range map[string]struct {
		method, path string
		frames       []string
	}{
		"a run": {http.MethodGet, "/v1/runs/RUN/events", []string{runEvent("tool.started", `, "tool": "terminal"`), runEvent("approval.request", ask), "?r1",
			runEvent("approval.responded", `, "choice": "once", "request_id": "r1", "resolved": 1`), runEvent("tool.completed", `, "tool": "terminal"`),
			runEvent("run.completed", `, "output": "ok"`), ": stream closed\n\n"}},
		"a session": {http.MethodPost, "/api/sessions/s1/chat/stream", []string{sessionEvent("run.started", ""), sessionEvent("tool.started", `, "tool_name": "terminal"`),
			sessionEvent("approval.request", ask), "?r1", sessionEvent("tool.completed", `, "tool_name": "terminal"`),
			sessionEvent("run.completed", ""), sessionEvent("done", "")}},
	} {
		for _, front := range []string{"", "hermes_resume {\n\t\talways runs sessions 10s\n\t}\n\t"} {
			t.Run(name+fmt.Sprint(front != ""), func(t *testing.T) {
				agent, upstream := newScript(t, "run_", c.frames...)
				site := runApprovals(t, upstream, front+linked)
				stream := func() *answerOf {
					r, err := http.NewRequestWithContext(t.Context(), c.method, "http://caddy"+strings.Replace(c.path, "RUN", agent.run, 1), strings.NewReader(`{"message": "danger"}`))
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Authorization", agentKey)
					r.Header.Set("Content-Type", "application/json")
					res, err := site.client.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { res.Body.Close() })
					return &answerOf{t: t, in: bufio.NewReader(res.Body), body: res.Body, res: res}
				}
				a := stream()
				link := a.until(linkIn)
				if c.method == http.MethodGet { // read again
					b := stream()
					if again := b.until(linkIn); again != link {
						t.Errorf("read again, the link is %s, not %s", again, link)
					}
					b.body.Close()
				}
				if title := site.click(link, approval.Once); title != "Approved" {
					t.Fatalf("the page says %q", title)
				}
				if all := a.rest(); !strings.Contains(all, "run.completed") || strings.Count(all, "hermes_approval_url") != 1 {
					t.Errorf("%s", all)
				}
				if agent.answers() != "r1 once" {
					t.Errorf("answered: %s", agent.answers())
				}
				if title := site.click(link, approval.Once); title != "Already answered" {
					t.Errorf("again: %q", title)
				}
				checkApprovalLog(t, site, link[len(link)-22:])
			})
		}
	}
}

// address returns the address of the stream of the answer.
func (a *answerOf) address() string { return a.res.Header.Get("Content-Location") }

// TestHeldAnswersTakeNoMore: with as many answers that wait for a reply as may be, the next one says
// that nobody can answer, or has its link in the text, and goes on in the same answer.
func TestHeldAnswersTakeNoMore(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, withRoom(2))
	var codes []string
	for range 2 {
		a := site.chat(agentKey, "danger")
		codes = append(codes, a.until(codeIn))
		a.text()
	}
	third := site.chat(agentKey, "danger")
	third.until("approval.request")
	agent.timeout()
	const nobody = "\n\n`🔐 Approval needed` nobody can answer here now, so the command does not run: `" + dangerous + "`\n\n"
	if text := third.text(); strings.Contains(text, "approve") || !strings.Contains(text, nobody) || !strings.HasSuffix(text, "So it is: timeout.") {
		t.Errorf("%q", text)
	}
	for _, code := range codes {
		if text := site.chat(agentKey, "approve "+code).text(); !strings.HasSuffix(text, "So it is: timeout.") {
			t.Errorf("%q", text)
		}
	}
	a := site.chat(agentKey, "danger")
	code := a.until(codeIn) // there is room again
	a.text()
	if text := site.chat(agentKey, "approve "+code).text(); text != "\n\nSo it is: once." {
		t.Errorf("%q", text)
	}
}

// TestClientThatLeavesAroundASplit: what it was asked it can still answer.
func TestClientThatLeavesAroundASplit(t *testing.T) {
	for name, until := range map[string]string{"before": "running", "at": "hermes_approval_code", "after": `"stop"`} {
		t.Run(name, func(t *testing.T) {
			agent, upstream := newAsking022(t)
			site := runApprovals(t, upstream, replied)
			a := site.chat(agentKey, "danger")
			a.until(until)
			a.body.Close()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://caddy"+a.address(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", agentKey)
			res, err := site.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			again := &answerOf{t: t, in: bufio.NewReader(res.Body), body: res.Body, res: res}
			code := again.until(codeIn)
			strictly(t, again.rest())
			b := site.chat(agentKey, "approve "+code)
			b.until("running")
			b.body.Close()
			if text := site.chat(agentKey, "approve "+code).text(); !strings.HasSuffix(text, "So it is: once.") || agent.commands() != 1 {
				t.Errorf("%q, and %d commands have run", text, agent.commands())
			}
		})
	}
}

// TestHeldAnswersLeaveNothing when nobody replies: their runs end, and what waits.
func TestHeldAnswersLeaveNothing(t *testing.T) {
	agent, upstream := newAsking022(t)
	const n = 100
	site := runApprovals(t, upstream, withRoom(n)+"\n\thermes_streams /streams")
	before := runtime.NumGoroutine()
	for i := range n {
		a := site.chat(agentKey+fmt.Sprint(i), "danger")
		a.until(codeIn)
		a.text()
	}
	agent.timeout()
	const idle = 3 * 32 // connections to upstream that are kept, and what serves them
	for end, list := time.Now().Add(time.Minute), "waiting_approvals"; strings.Contains(list, "waiting_approvals") || runtime.NumGoroutine() > before+idle+20; {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, before it were %d; listed: %s", runtime.NumGoroutine(), before, list)
		}
		res, err := site.client.Get("http://caddy/streams")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		list = string(b)
	}
}

// withRoom has room for n answers without a client.
func withRoom(n int) string {
	return strings.Replace(replied, "{\n", fmt.Sprintf("{\n\t\tmax_detached %d\n", n), 1)
}

// TestApprovalsAreLoggedOnceASecond, whether their clients are asked or not: an agent may ask as often
// as it likes. The first ones are all there, and at the level debug all of them are.
func TestApprovalsAreLoggedOnceASecond(t *testing.T) {
	const n = 20000
	var refused, asked strings.Builder
	for i := range n {
		refused.WriteString(chatAsk(fmt.Sprint("r", i)))
		tool := fmt.Sprint("a", i)
		asked.WriteString(chatTool(tool, "running") + chatAsk(tool) + chatTool(tool, "completed"))
	}
	for name, c := range map[string]struct {
		asks, directives string
		says             string
		level            string
	}{
		"refused": {refused.String(), linked, "the client was not asked", "warn"},
		"asked":   {asked.String(), linked, "approval asked", "info"},
		"without a user": {refused.String(), strings.Replace(linked, "hermes {", "hermes {\n\t\tapprovals by {header.X-User}", 1),
			"the client was not asked", "warn"},
		"no reply": {asked.String(), strings.Replace(replied, "\n\t\talways chat 10s", "", 1),
			"the answer cannot wait for a reply", "warn"},
	} {
		t.Run(name, func(t *testing.T) {
			_, upstream := newScript(t, "chatcmpl-", chatFrame(`"role": "assistant"`), c.asks, chatText("Done."), chatEnd)
			site := runApprovals(t, upstream, c.directives)
			began := time.Now()
			a := site.chat(agentKey, "danger")
			if all := a.rest(); !strings.Contains(all, "Done.") {
				t.Fatal("the answer is not whole")
			}
			levels := map[string]int{}
			for line := range strings.Lines(site.logged()) {
				if strings.Contains(line, c.says) {
					levels[line[strings.Index(line, `"level":"`)+9:][:len(c.level)]]++
				}
			}
			if most := 20 + int(time.Since(began)/time.Second) + 1; levels[c.level] < 20 || levels[c.level] > most {
				t.Errorf("%d lines at the level %s, want 20 to %d", levels[c.level], c.level, most)
			}
			if levels["debug"[:len(c.level)]] == 0 {
				t.Errorf("the others are not there at the level debug: %v", levels)
			}
		})
	}
}

// TestCommandThatCannotBeShown can only be denied, by the page and by a reply, and the event offers
// nothing else.
func TestCommandThatCannotBeShown(t *testing.T) {
	both := strings.Replace(linked, "hermes {", "hermes_resume {\n\t\talways chat 10s\n\t}\n\thermes {\n\t\tapprovals reply", 1)
	for _, command := range []string{"null", `""`, "7", `{"command": "ls"}`} {
		ask := strings.Replace(chatAsk("a"), `"rm a"`, command, 1)
		agent, upstream := newScript(t, "chatcmpl-", chatFrame(`"role": "assistant"`), chatText("Let me."), chatTool("a", "running"), ask, "?req-a",
			chatTool("a", "completed"), chatText("So."), chatEnd)
		site := runApprovals(t, upstream, both)
		a := site.chat(agentKey, "danger")
		link, code := a.until(linkIn), a.until("deny ([2-9A-Z]{4}-[2-9A-Z]{4})`")
		if all := a.rest(); strings.Contains(all, "`approve ") || strings.Contains(all, `"once"`) || !strings.Contains(all, `"hermes_choices": ["deny"]`) {
			t.Errorf("%s is offered: %s", command, all)
		}
		if title := site.click(link, approval.Once); title != "May this command run?" || agent.answers() != "" {
			t.Errorf("%s: the page says %q, and answers %q", command, title, agent.answers())
		}
		if all := site.chat(agentKey, "approve "+code).rest(); !strings.Contains(all, "approval_refused") || agent.answers() != "" {
			t.Errorf("%s: approved, it says %s", command, all)
		}
		if text, _ := strictly(t, site.chat(agentKey, "deny "+code).rest()); text != "So." || agent.answers() != "req-a deny" {
			t.Errorf("%s: denied, it says %q, and answers %q", command, text, agent.answers())
		}
	}
}

// TestCardsSayWhatBecameOfCommands: what waits, and what was denied or expired, does not look as if it had
// run, whichever way was taken.
func TestCardsSayWhatBecameOfCommands(t *testing.T) {
	const output = `"output":[{"type":"input_text","text":"%s"}]`
	says := func(name, all, want string) {
		t.Helper()
		if got := strings.Count(all, `"type":"function_call_output"`); got != 1 || !strings.Contains(all, fmt.Sprintf(output, want)) {
			t.Errorf("%s: want one row that says %q in\n%s", name, want, all)
		}
	}
	agent, upstream := newAsking022(t)
	both := strings.Replace(linked, "hermes {", "hermes_resume {\n\t\talways chat 10s\n\t}\n\thermes {\n\t\tcards on\n\t\tstatus_line on", 1)
	site := runApprovals(t, upstream, both)
	for choice, want := range map[approval.Choice]string{approval.Once: "completed", approval.Deny: "Error: denied"} {
		a := site.chat(agentKey, "danger")
		if title := site.click(a.until(linkIn), choice); title == "" {
			t.Error("no page")
		}
		says("link, "+string(choice), a.rest(), want)
	}
	a := site.chat(agentKey, "danger")
	a.until(linkIn)
	agent.timeout()
	says("a link that nobody has clicked", a.rest(), "Error: expired")

	site.load(upstream, strings.Replace(both, "status_line on", "status_line on\n\t\tapprovals reply", 1))
	for verb, want := range map[string]string{"approve": "completed", "deny": "Error: denied", "timeout": "Error: expired"} {
		a := site.chat(agentKey, "danger")
		code := a.until(codeIn)
		all := a.rest()
		says("the answer that asks", all, "Error: waits for approval")
		if !strings.Contains(all, `"name":"Approval needed: `+dangerous+`"`) || !strings.Contains(all, `"hidden":true`) {
			t.Errorf("the row and the status line: %s", all)
		}
		if verb == "timeout" {
			agent.timeout()
			verb = "deny"
		}
		says("the rest, "+want, site.chat(agentKey, verb+" "+code).rest(), want)
	}
}
