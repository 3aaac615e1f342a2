package caddymodule

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	dangerous = "rm -rf victim"
	agentKey  = "Bearer agent"
)

// asking022 is an agent that asks before it runs a command, as Hermes 0.22 does: in the stream, whose run it
// knows by an id. It does what its frames say if a chat says "danger", and repeats any other last message.
type asking022 struct {
	t    *testing.T
	name string // its runs begin with it: the desk is the process's
	// frames are those of an answer. In them RUN is the id of the run and SAID the last answer. "?ID" waits
	// for the answer to a request.
	frames []string

	mu      sync.Mutex
	n       int
	paths   []string
	pending map[string]chan string // by run and request
	over    map[string]bool        // by run
	said    []string               // "ID choice" of each answer
}

// newAsking022 starts an agent, with the frames of one command if none are given.
func newAsking022(t *testing.T, frames ...string) (*asking022, string) {
	if frames == nil {
		frames = []string{chatFrame(`"role": "assistant"`), chatText("Let me remove it."), chatTool("victim", "running"), chatAsk("victim"),
			"?req-victim", chatTool("victim", "completed"), chatText("\n\nSo it is: SAID."), chatEnd}
	}
	a := &asking022{t: t, name: "chatcmpl-" + rand.Text(), frames: frames, pending: map[string]chan string{}, over: map[string]bool{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // a run may still ask
	return a, strings.TrimPrefix(server.URL, "http://")
}

func (a *asking022) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	path := strings.TrimPrefix(r.URL.Path, "/agent")
	a.mu.Lock()
	a.paths = append(a.paths, r.Method+" "+path)
	a.mu.Unlock()
	run, isAnswer := strings.CutSuffix(strings.TrimPrefix(path, "/v1/runs/"), "/approval")
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), agentKey):
		w.WriteHeader(http.StatusUnauthorized)
	case isAnswer:
		a.answer(w, run, body)
	case r.Method == http.MethodGet:
		a.stream(w, r, strings.TrimSuffix(run, "/events"), a.frames)
	default:
		a.mu.Lock()
		a.n++
		run := fmt.Sprint(a.name, "-", a.n)
		a.mu.Unlock()
		frames := a.frames
		if !strings.Contains(string(body), "danger") {
			var chat struct{ Messages []struct{ Content string } }
			if err := json.Unmarshal(body, &chat); err != nil {
				a.t.Error(err)
			}
			frames = []string{chatFrame(`"role": "assistant"`), chatText("You said " + chat.Messages[len(chat.Messages)-1].Content), chatEnd}
		}
		a.stream(w, r, run, frames)
	}
}

func (a *asking022) answer(w http.ResponseWriter, run string, body []byte) {
	var said struct {
		Choice string `json:"choice"`
		ID     string `json:"request_id"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := run + " " + said.ID
	switch waits := a.pending[key]; {
	case a.over[run]:
		http.Error(w, `{"error": {"code": "approval_not_active"}}`, http.StatusConflict)
	case waits == nil:
		http.Error(w, `{"error": {"code": "approval_not_pending"}}`, http.StatusConflict)
	default:
		delete(a.pending, key)
		a.said = append(a.said, said.ID+" "+said.Choice)
		waits <- said.Choice
		fmt.Fprint(w, `{"object": "hermes.run.approval_response", "resolved": 1}`)
	}
}

func (a *asking022) stream(w http.ResponseWriter, r *http.Request, run string, frames []string) {
	waits, said := map[string]chan string{}, ""
	a.mu.Lock()
	for _, f := range frames {
		if id, ok := strings.CutPrefix(f, "?"); ok {
			key := run + " " + id
			if a.pending[key] == nil {
				a.pending[key] = make(chan string, 1)
			}
			waits[f] = a.pending[key]
		}
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for _, f := range frames {
		if waits[f] == nil {
			_, _ = io.WriteString(w, strings.NewReplacer("RUN", run, "SAID", said).Replace(f))
			w.(http.Flusher).Flush()
			continue
		}
		select {
		case said = <-waits[f]:
		case <-r.Context().Done():
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over[run] = true
}

// timeout lets the agent give up on the runs that ask.
func (a *asking022) timeout() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, waits := range a.pending {
		run, _, _ := strings.Cut(key, " ")
		delete(a.pending, key)
		a.over[run] = true
		waits <- "timeout"
	}
}

// answers returns the answers that have come.
func (a *asking022) answers() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.said, ", ")
}

// commands returns how many have run.
func (a *asking022) commands() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, said := range a.said {
		if !strings.HasSuffix(said, " deny") {
			n++
		}
	}
	return n
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
	return `event: hermes.tool.progress` + "\n" + `data: {"tool": "terminal", "emoji": "💻", "label": "rm -rf ` + id + `", "toolCallId": "` + id + `", "status": "` + status + `"}` + "\n\n"
}

func chatAsk(id string) string {
	return "event: approval.request\n" + `data: {"command": "rm -rf ` + id + `", "description": "recursive delete", "request_id": "req-` + id + `", "event": "approval.request", "run_id": "RUN", "choices": ["once", "session", "always", "deny"]}` + "\n\n"
}

// approvalSite is a Caddy with a site in front of an agent.
type approvalSite struct {
	*caddytest.Site
	t *testing.T
}

const loggedAtDebug = "log {\n output file LOG\n level DEBUG\n}"

// runApprovals runs the directives in front of the agent.
func runApprovals(t *testing.T, upstream, directives string) *approvalSite {
	t.Helper()
	return &approvalSite{caddytest.NewSite(t, loggedAtDebug, "log\n"+directives+"\nreverse_proxy "+upstream), t}
}

// load loads a configuration with other directives.
func (s *approvalSite) load(upstream, directives string) {
	s.t.Helper()
	s.Load(loggedAtDebug, "log\n"+directives+"\nreverse_proxy "+upstream)
}

// answerOf is a stream that is read.
type answerOf struct {
	t   *testing.T
	in  *bufio.Reader
	res *http.Response
	all strings.Builder
}

// send sends a request of JSON with the agent's key.
func (s *approvalSite) send(method, path, body string, header ...string) *answerOf {
	s.t.Helper()
	if !slices.Contains(header, "Authorization") {
		header = append(header, "Authorization", agentKey)
	}
	if !slices.Contains(header, "Content-Type") {
		header = append(header, "Content-Type", "application/json")
	}
	res, err := s.Send(s.t.Context(), method, path, body, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	return &answerOf{t: s.t, in: bufio.NewReader(res.Body), res: res}
}

// chat sends a chat whose last message is the text.
func (s *approvalSite) chat(text string, header ...string) *answerOf {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"stream": true, "messages": []any{
		map[string]string{"role": "assistant", "content": "x\n\n`🔐 Approval needed` reply `approve 3333-3333` or `deny 3333-3333`: `ls`"},
		map[string]string{"role": "user", "content": text},
	}})
	return s.send(http.MethodPost, "/v1/chat/completions", string(body), header...)
}

// held returns the text of an answer that asks for a reply, and its code.
func (s *approvalSite) held(header ...string) (text, code string) {
	s.t.Helper()
	a := s.chat("danger", header...)
	code = a.until(codeIn)
	return a.text(), code
}

// click opens the page of a link and presses a button, as a browser does, and returns the title of
// the page that follows.
func (s *approvalSite) click(link string, c rewrite.ApprovalChoice) string {
	s.t.Helper()
	path := strings.TrimPrefix(link, "https://hermes.example.com")
	s.send(http.MethodGet, path, "").rest()
	page := s.send(http.MethodPost, path, "choice="+string(c), "Content-Type", "application/x-www-form-urlencoded", "Origin", "https://hermes.example.com").rest()
	_, title, _ := strings.Cut(page, "<h1>")
	title, _, _ = strings.Cut(title, "</h1>")
	return title
}

// until reads until the pattern is there, and returns what it finds: all, or the first group.
func (a *answerOf) until(pattern string) string {
	a.t.Helper()
	p := regexp.MustCompile(pattern)
	for {
		if m := p.FindStringSubmatch(a.all.String()); m != nil {
			return m[len(m)-1]
		}
		line, err := a.in.ReadString('\n')
		a.all.WriteString(line)
		if err != nil {
			a.t.Fatalf("%v instead of %s after\n%s", err, pattern, a.all.String())
		}
	}
}

// rest reads to the end, and returns all.
func (a *answerOf) rest() string {
	a.t.Helper()
	b, err := io.ReadAll(a.in)
	if err != nil {
		a.t.Fatal(err)
	}
	a.all.Write(b)
	return a.all.String()
}

// text returns the text of the answer, read to its end, which has to be good.
func (a *answerOf) text() string {
	a.t.Helper()
	var text strings.Builder
	all := a.rest()
	running := 0
	for line := range strings.Lines(all) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		var chunk struct {
			Status  string
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
			a.t.Fatalf("%v in %s", err, line)
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
		}
		switch chunk.Status {
		case "running":
			running++
		case "completed":
			running--
		}
	}
	if !strings.Contains(all, `"finish_reason":"stop"`) && !strings.Contains(all, `"finish_reason": "stop"`) || !strings.Contains(all, "data: [DONE]\n") || running != 0 {
		a.t.Errorf("the answer is not whole, %d tools are open:\n%s", running, all)
	}
	return text.String()
}

const (
	linked  = "hermes_approvals\n\thermes {\n\t\tapprovals link https://hermes.example.com/hermes/approve\n\t}"
	replied = "hermes_resume {\n\t\talways chat 10s\n\t}\n\thermes {\n\t\tapprovals reply\n\t}"
	// linkIn and codeIn find what the client is to use.
	linkIn = `"hermes_approval_url":"(https://hermes\.example\.com/hermes/approve/[A-Za-z0-9_-]{22})"`
	codeIn = "approve ([2-9A-Z]{4}-[2-9A-Z]{4})`"
)

// TestQuestionsSurviveReloads: the answer that asked goes on, and so does the rest of one that has ended for a
// reply. The log has neither tickets nor codes.
func TestQuestionsSurviveReloads(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, linked)
	a := site.chat("danger")
	link := a.until(linkIn)
	site.load(upstream, linked+"\n\theader X-Other 1")
	if title := site.click(link, desk.Once); title != "Approved" {
		t.Fatalf("the page says %q", title)
	}
	if text := a.text(); text != "Let me remove it.\n\nSo it is: once." || agent.commands() != 1 {
		t.Errorf("%q, and %d commands have run", text, agent.commands())
	}
	checkApprovalLog(t, site, link[strings.LastIndexByte(link, '/')+1:])

	site.load(upstream, replied)
	said, code := site.held()
	if !strings.Contains(said, dangerous) || strings.Contains(said, "So it is") {
		t.Errorf("the answer that asks says %q", said)
	}
	site.load(upstream, replied+"\n\theader X-Other 1")
	if text := site.chat("approve " + code).text(); text != "\n\nSo it is: once." || agent.commands() != 2 {
		t.Errorf("the reply is answered by %q, and %d commands have run", text, agent.commands())
	}
	if text := site.chat("approve " + code).text(); text != "This request was answered before.\n\n\n\nSo it is: once." || agent.commands() != 2 {
		t.Errorf("the second reply is answered by %q, and %d commands have run", text, agent.commands())
	}
	checkApprovalLog(t, site, code)
}

// TestAnswersOfGroupedRoutes: of a group of routes after hermes, such as handle blocks, only the first that
// matches handles a request. An answer is another request. Its path is beside the one that the client asked for,
// not the one that upstream gets.
func TestAnswersOfGroupedRoutes(t *testing.T) {
	const where = "route {\n\t\thermes_approvals\n\t\t%s\n\t\thermes {\n\t\t\tapprovals link https://hermes.example.com/hermes/approve\n\t\t}\n\t\thandle /v1/* {\n\t\t\trewrite * /agent{path}\n\t\t\treverse_proxy %s\n\t\t}\n\t\thandle {\n\t\t\trespond 200\n\t\t}\n\t}"
	for _, queue := range []string{"", "hermes_queue"} {
		agent, upstream := newAsking022(t)
		site := runApprovals(t, "127.0.0.1:1", fmt.Sprintf(where, queue, upstream))
		a := site.chat("danger")
		if title := site.click(a.until(linkIn), desk.Once); title != "Approved" {
			t.Errorf("%q: %q", queue, title)
		}
		if agent.commands() == 0 { // it waits for an answer
			agent.timeout()
		}
		if text := a.text(); !strings.Contains(text, "So it is: once.") {
			t.Errorf("%q: %q", queue, text)
		}
	}
}

// checkApprovalLog wants the two lines of an approval, and no secret anywhere in the log.
func checkApprovalLog(t *testing.T, site *approvalSite, secrets ...string) {
	t.Helper()
	log := site.Logged()
	for _, want := range []string{`"msg":"approval asked"`, `"msg":"approval answered"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
	for _, secret := range append(secrets, dangerous, agentKey) {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// TestReplyNeedsResume: without it the answer does not end.
func TestReplyNeedsResume(t *testing.T) {
	_, upstream := newAsking022(t)
	site := runApprovals(t, upstream, "hermes_approvals\n\thermes {\n\t\tapprovals reply\n\t\tapprovals link https://hermes.example.com/hermes/approve text\n\t}")
	a := site.chat("danger")
	link := a.until(linkIn)
	if title := site.click(link, desk.Session); title != "Approved" {
		t.Fatal(title)
	}
	if text := a.text(); strings.Contains(text, "reply `") || !strings.Contains(text, link) || !strings.Contains(text, "So it is: session.") {
		t.Errorf("%q", text)
	}
	if !strings.Contains(site.Logged(), "the answer cannot wait for a reply without its client") {
		t.Error("the log does not say why there is no code")
	}
}

// TestUsersOfOneKey are told apart by a placeholder. One without a name is not asked.
func TestUsersOfOneKey(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, "hermes_resume {\n\t\talways chat 10s\n\t}\n\thermes {\n\t\tapprovals reply\n\t\tapprovals by {header.X-User}\n\t}")
	_, code := site.held("X-User", "ada")
	if text := site.chat("deny "+code, "X-User", "ada").text(); text != "\n\nSo it is: deny." {
		t.Errorf("%q", text)
	}
	unknown := site.chat("danger")
	unknown.until("approval.request")
	agent.timeout()
	if all := unknown.rest(); strings.Contains(all, "hermes_approval_") {
		t.Errorf("a client without a name is asked:\n%s", all)
	}
	if !strings.Contains(site.Logged(), `"by":"ada"`) {
		t.Error("the log does not say who")
	}
}

// TestWhatWaitsIsListed, without the command and the ticket.
func TestWhatWaitsIsListed(t *testing.T) {
	_, upstream := newAsking022(t)
	site := runApprovals(t, upstream, linked+"\n\thermes_streams /streams")
	a := site.chat("danger")
	link := a.until(linkIn)
	list := func() string { return site.send(http.MethodGet, "/streams", "").rest() }
	if got := list(); !strings.Contains(got, `"waiting_approvals":[{"tool":"terminal","seconds":`) || strings.Contains(got, dangerous) || strings.Contains(got, link[len(link)-22:]) {
		t.Errorf("listed: %s", got)
	}
	if title := site.click(link, desk.Once); title != "Approved" {
		t.Fatal(title)
	}
	a.text()
	if got := list(); strings.Contains(got, "waiting_approvals") {
		t.Errorf("listed after its end: %s", got)
	}
}

// TestAgentThatNeverAsks has the same bytes with all of it on.
func TestAgentThatNeverAsks(t *testing.T) {
	_, upstream := newAsking022(t)
	var bodies []string
	for _, directives := range []string{"hermes", strings.Replace(linked, "approve\n", "approve text\n\t\tapprovals reply\n", 1)} {
		site := runApprovals(t, upstream, directives)
		bodies = append(bodies, regexp.MustCompile(`chatcmpl-\w+-\d+`).ReplaceAllString(site.chat("hello").rest(), "chatcmpl"))
	}
	if bodies[0] != bodies[1] {
		t.Errorf("%s\nwant\n%s", bodies[1], bodies[0])
	}
}

// TestParallelApprovals: of two tools that wait at the same time each is a reply's, which gets a whole answer.
func TestParallelApprovals(t *testing.T) {
	agent, upstream := newAsking022(t, chatFrame(`"role": "assistant"`), chatText("Let me."), chatTool("a", "running"), chatTool("b", "running"), chatAsk("a"), chatAsk("b"),
		"?req-a", chatTool("a", "completed"), "?req-b", chatTool("b", "completed"), chatText("\n\nDone."), chatEnd)
	site := runApprovals(t, upstream, replied)
	text, first := site.held()
	if !strings.HasPrefix(text, "Let me.\n\n") || !strings.Contains(text, "rm -rf a") {
		t.Errorf("%q", text)
	}
	b := site.chat("approve " + first)
	second := b.until(codeIn)
	if text := b.text(); !strings.Contains(text, "rm -rf b") {
		t.Errorf("the second answer: %q", text)
	}
	if text := site.chat("deny " + second).text(); text != "\n\nDone." || agent.answers() != "req-a once, req-b deny" {
		t.Errorf("the third answer: %q, %s", text, agent.answers())
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
			agent, upstream := newAsking022(t, chatFrame(`"role": "assistant"`), chatText("Let me."), chatTool("a", "running"), chatAsk("a"), "?req-a",
				chatTool("a", "completed"), chatText("So."), chatEnd)
			site := runApprovals(t, upstream, replied)
			first, code := site.held(header[0]...)
			if again, same := site.held(header[1]...); again != first || same != code {
				t.Errorf("the repeat has %q, not %q", again, first)
			}
			answer := func(i int, choice string) string {
				h := slices.Clone(header[i])
				if name == "key" {
					h[1] = key + "r"
				}
				return site.chat(choice+" "+code, h...).text()
			}
			if a, b := answer(0, "approve"), answer(1, "approve"); a != "So." || b != a {
				t.Errorf("the reply has %q, its repeat %q", a, b)
			}
			agent.mu.Lock()
			defer agent.mu.Unlock()
			if want := []string{"POST /v1/chat/completions", "POST /v1/runs/" + agent.name + "-1/approval"}; !slices.Equal(agent.paths, want) {
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
				agent, upstream := newAsking022(t, c.frames...)
				site := runApprovals(t, upstream, front+linked)
				agent.name = "run_" + rand.Text()
				stream := func() *answerOf {
					return site.send(c.method, strings.Replace(c.path, "RUN", agent.name, 1), `{"message": "danger"}`)
				}
				a := stream()
				link := a.until(linkIn)
				if c.method == http.MethodGet { // read again
					b := stream()
					if again := b.until(linkIn); again != link {
						t.Errorf("read again, the link is %s, not %s", again, link)
					}
					b.res.Body.Close()
				}
				if title := site.click(link, desk.Once); title != "Approved" {
					t.Fatalf("the page says %q", title)
				}
				if all := a.rest(); !strings.Contains(all, "run.completed") || strings.Count(all, "hermes_approval_url") != 1 {
					t.Errorf("%s", all)
				}
				if agent.answers() != "r1 once" {
					t.Errorf("answered: %s", agent.answers())
				}
				if title := site.click(link, desk.Once); title != "Already answered" {
					t.Errorf("again: %q", title)
				}
				checkApprovalLog(t, site, link[len(link)-22:])
			})
		}
	}
}

// TestHeldAnswersTakeNoMore: with as many answers that wait for a reply as may be, the next one says
// that nobody can answer, or has its link in the text, and goes on in the same answer.
func TestHeldAnswersTakeNoMore(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, withRoom(2))
	var codes []string
	for range 2 {
		_, code := site.held()
		codes = append(codes, code)
	}
	third := site.chat("danger")
	third.until("approval.request")
	agent.timeout()
	const nobody = "\n\n`🔐 Approval needed` nobody can answer here now, so the command does not run: `" + dangerous + "`\n\n"
	if text := third.text(); strings.Contains(text, "approve") || !strings.Contains(text, nobody) || !strings.HasSuffix(text, "So it is: timeout.") {
		t.Errorf("%q", text)
	}
	for _, code := range codes {
		if text := site.chat("approve " + code).text(); !strings.HasSuffix(text, "So it is: timeout.") {
			t.Errorf("%q", text)
		}
	}
	_, code := site.held() // there is room again
	if text := site.chat("approve " + code).text(); text != "\n\nSo it is: once." {
		t.Errorf("%q", text)
	}
}

// TestClientThatLeavesAroundASplit: what it was asked it can still answer.
func TestClientThatLeavesAroundASplit(t *testing.T) {
	for name, until := range map[string]string{"before": "running", "at": "hermes_approval_code", "after": `"stop"`} {
		t.Run(name, func(t *testing.T) {
			agent, upstream := newAsking022(t)
			site := runApprovals(t, upstream, replied)
			a := site.chat("danger")
			a.until(until)
			a.res.Body.Close()
			again := site.send(http.MethodGet, a.res.Header.Get("Content-Location"), "")
			code := again.until(codeIn)
			again.text()
			b := site.chat("approve " + code)
			b.until("running")
			b.res.Body.Close()
			if text := site.chat("approve " + code).text(); !strings.HasSuffix(text, "So it is: once.") || agent.commands() != 1 {
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
		site.held("Authorization", agentKey+fmt.Sprint(i))
	}
	agent.timeout()
	const idle = 3 * 32 // connections to upstream that are kept, and what serves them
	for end, list := time.Now().Add(time.Minute), "waiting_approvals"; strings.Contains(list, "waiting_approvals") || runtime.NumGoroutine() > before+idle+20; {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, before it were %d; listed: %s", runtime.NumGoroutine(), before, list)
		}
		list = site.send(http.MethodGet, "/streams", "").rest()
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
			_, upstream := newAsking022(t, chatFrame(`"role": "assistant"`), c.asks, chatText("Done."), chatEnd)
			site := runApprovals(t, upstream, c.directives)
			began := time.Now()
			a := site.chat("danger")
			if all := a.rest(); !strings.Contains(all, "Done.") {
				t.Fatal("the answer is not whole")
			}
			levels := map[string]int{}
			for line := range strings.Lines(site.Logged()) {
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
		ask := strings.Replace(chatAsk("a"), `"rm -rf a"`, command, 1)
		agent, upstream := newAsking022(t, chatFrame(`"role": "assistant"`), chatText("Let me."), chatTool("a", "running"), ask, "?req-a",
			chatTool("a", "completed"), chatText("So."), chatEnd)
		site := runApprovals(t, upstream, both)
		a := site.chat("danger")
		link, code := a.until(linkIn), a.until("deny ([2-9A-Z]{4}-[2-9A-Z]{4})`")
		if all := a.rest(); strings.Contains(all, "`approve ") || strings.Contains(all, `"once"`) || !strings.Contains(all, `"hermes_choices": ["deny"]`) {
			t.Errorf("%s is offered: %s", command, all)
		}
		if title := site.click(link, desk.Once); title != "May this command run?" || agent.answers() != "" {
			t.Errorf("%s: the page says %q, and answers %q", command, title, agent.answers())
		}
		if all := site.chat("approve " + code).rest(); !strings.Contains(all, "approval_refused") || agent.answers() != "" {
			t.Errorf("%s: approved, it says %s", command, all)
		}
		if text := site.chat("deny " + code).text(); text != "So." || agent.answers() != "req-a deny" {
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
	for choice, want := range map[rewrite.ApprovalChoice]string{desk.Once: "completed", desk.Deny: "Error: denied"} {
		a := site.chat("danger")
		if title := site.click(a.until(linkIn), choice); title == "" {
			t.Error("no page")
		}
		says("link, "+string(choice), a.rest(), want)
	}
	a := site.chat("danger")
	a.until(linkIn)
	agent.timeout()
	says("a link that nobody has clicked", a.rest(), "Error: expired")

	site.load(upstream, strings.Replace(both, "status_line on", "status_line on\n\t\tapprovals reply", 1))
	for verb, want := range map[string]string{"approve": "completed", "deny": "Error: denied", "timeout": "Error: expired"} {
		a := site.chat("danger")
		code := a.until(codeIn)
		all := a.rest()
		says("the answer that asks", all, "Error: waits for approval")
		if !strings.Contains(all, `"name":"Approval needed: `+dangerous+`"`) || !strings.Contains(all, `"hidden":true`) {
			t.Errorf("the row and the status line: %s", all)
		}
		if verb == "timeout" {
			agent.timeout()
			for limit := time.Now().Add(caddytest.Patience); hermesapp.OfProcess().Desk.Stats().Waiting > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatal("the command still waits")
				}
			}
			verb = "deny"
		}
		says("the rest, "+want, site.chat(verb+" "+code).rest(), want)
	}
}
