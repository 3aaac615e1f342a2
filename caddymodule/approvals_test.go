package caddymodule

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/approval"
)

const dangerous = "rm -rf victim"

// asking022 is an agent that asks before each command, as Hermes 0.22 does in chats: it waits for
// the answer, in the stream of the chat, and knows the run by the id of the completion.
type asking022 struct {
	t    *testing.T
	name string // of its runs: the desk is the process's

	mu       sync.Mutex
	n        int
	requests []string               // the last message of each chat
	pending  map[string]chan string // by run: gets the choice
	over     map[string]bool        // by run
	ran      int                    // commands
}

const agentKey = "Bearer agent"

func newAsking022(t *testing.T) (*asking022, string) {
	a := &asking022{t: t, name: rand.Text(), pending: map[string]chan string{}, over: map[string]bool{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // a run may still ask
	return a, strings.TrimPrefix(server.URL, "http://")
}

func (a *asking022) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/agent")
	run, isApproval := strings.CutSuffix(strings.TrimPrefix(path, "/v1/runs/"), "/approval")
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), agentKey):
		a.fail(w, 401, "invalid_api_key")
	case isApproval:
		a.answer(w, r, run)
	case path == "/v1/chat/completions":
		a.chat(w, r)
	default:
		a.fail(w, 404, "")
	}
}

func (a *asking022) fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error": {"message": "…", "type": "invalid_request_error", "param": null, "code": %q}}`, code)
}

func (a *asking022) answer(w http.ResponseWriter, r *http.Request, run string) {
	var said struct {
		Choice string `json:"choice"`
		ID     string `json:"request_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	pending, over := a.pending[run], a.over[run]
	switch {
	case over:
		a.fail(w, 409, "approval_not_active")
	case pending == nil && !over && !strings.HasPrefix(run, "chatcmpl-"):
		a.fail(w, 404, "run_not_found")
	case pending == nil || said.ID != "req-"+run:
		a.fail(w, 409, "approval_not_pending")
	default:
		delete(a.pending, run)
		pending <- said.Choice
		fmt.Fprint(w, `{"object": "hermes.run.approval_response", "resolved": 1}`)
	}
}

func (a *asking022) chat(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	a.n++
	id := fmt.Sprintf("chatcmpl-%s-%d", a.name, a.n)
	last := asked.Messages[len(asked.Messages)-1].Content
	a.requests = append(a.requests, last)
	choice := make(chan string, 1)
	if last == "danger" {
		a.pending[id] = choice
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.pending, id)
		a.over[id] = true
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	frame := func(lines ...string) {
		_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n\n")
		w.(http.Flusher).Flush()
	}
	chunk := func(delta, finish, more string) {
		frame(fmt.Sprintf(`data: {"id": %q, "object": "chat.completion.chunk", "created": 1, "model": "hermes-agent", "choices": [{"index": 0, "delta": {%s}, "finish_reason": %s}]%s}`, id, delta, finish, more))
	}
	tool := func(more string) {
		frame("event: hermes.tool.progress", fmt.Sprintf(`data: {"tool": "terminal", "toolCallId": "call_%s", %s}`, id, more))
	}
	chunk(`"role": "assistant"`, "null", "")
	if last == "danger" {
		chunk(`"content": "Let me remove it."`, "null", "")
		tool(fmt.Sprintf(`"emoji": "💻", "label": %q, "status": "running"`, dangerous))
		frame("event: approval.request", fmt.Sprintf(`data: {"command": %q, "description": "recursive delete", "request_id": "req-%s", "event": "approval.request", "run_id": %q, "choices": ["once", "session", "always", "deny"]}`, dangerous, id, id))
		said := "deny"
		select {
		case said = <-choice:
		case <-r.Context().Done():
			return
		}
		if said != "deny" && said != "timeout" {
			a.mu.Lock()
			a.ran++
			a.mu.Unlock()
		}
		tool(`"status": "completed"`)
		chunk(fmt.Sprintf(`"content": "\n\nSo it is: %s."`, said), "null", "")
	} else {
		chunk(fmt.Sprintf(`"content": "You said %s"`, last), "null", "")
	}
	chunk("", `"stop"`, `, "usage": {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}`)
	frame("data: [DONE]")
}

// timeout lets the agent give up on the run that asks.
func (a *asking022) timeout() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, pending := range a.pending {
		delete(a.pending, id)
		a.over[id] = true
		pending <- "timeout"
	}
}

// commands returns how many have run.
func (a *asking022) commands() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ran
}

// asked returns the last messages of the chats that have reached the agent.
func (a *asking022) asked() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.requests, ", ")
}

// approvalSite is a Caddy that runs a Caddyfile with a site on a socket.
type approvalSite struct {
	t      *testing.T
	addr   string
	client *http.Client
	log    string
}

// again sends a request again that has no answer: the server before a reload may accept a connection,
// and close it unread.
type again struct{ http.Transport }

func (a *again) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		res, err := a.Transport.RoundTrip(r)
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return res, err
		}
		if r.GetBody != nil {
			r.Body, _ = r.GetBody()
		}
	}
}

// runApprovals runs the directives in front of the agent.
func runApprovals(t *testing.T, upstream, directives string) *approvalSite {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	s := &approvalSite{t: t, addr: "unix/" + socket, log: filepath.Join(dir, "log"), client: &http.Client{Transport: &again{http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}}
	t.Cleanup(s.client.CloseIdleConnections)
	t.Cleanup(func() { _ = caddy.Stop() })
	s.load(upstream, directives)
	return s
}

// load loads a configuration with other directives.
func (s *approvalSite) load(upstream, directives string) {
	s.t.Helper()
	config, err := adapt(fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\tstorage file_system %s\n\tlog {\n\t\toutput file %s\n\t\tlevel DEBUG\n\t}\n}\nhttp:// {\n\tbind %s\n\tlog\n\t%s\n\treverse_proxy %s\n}\n",
		filepath.Dir(s.log), s.log, s.addr, directives, upstream))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := caddy.Load([]byte(config), true); err != nil {
		s.t.Fatal(err)
	}
	s.client.CloseIdleConnections() // of the server before, which closes them
}

// logged returns the log so far.
func (s *approvalSite) logged() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// answerOf is a stream that is read.
type answerOf struct {
	t    *testing.T
	in   *bufio.Reader
	body io.Closer
	all  strings.Builder
	res  *http.Response
}

// chat sends a chat whose last message is the text, as the client with the key.
func (s *approvalSite) chat(key, text string, header ...string) *answerOf {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"stream": true, "messages": []any{
		map[string]string{"role": "assistant", "content": "x\n\n`🔐 Approval needed` reply `approve 3333-3333` or `deny 3333-3333`: `ls`"},
		map[string]string{"role": "user", "content": text},
	}})
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://caddy/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return &answerOf{t: s.t, in: bufio.NewReader(res.Body), body: res.Body, res: res}
}

// whole sends a chat whose only message is the text, and that asks for no stream, and returns the
// text of the answer, which has to be good.
func (s *approvalSite) whole(key, text string) string {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"messages": []any{map[string]string{"role": "user", "content": text}}})
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://caddy/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", key)
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Object  string
		Choices []struct {
			Message      struct{ Role, Content string }
			FinishReason string `json:"finish_reason"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" ||
		answer.Object != "chat.completion" || len(answer.Choices) != 1 || answer.Choices[0].FinishReason != "stop" || answer.Choices[0].Message.Role != "assistant" {
		s.t.Fatalf("%v %v, %+v", err, res.Header, answer)
	}
	return answer.Choices[0].Message.Content
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

// click opens the page of a link and presses a button, as a browser does, and returns the title of
// the page that follows.
func (s *approvalSite) click(link string, c approval.Choice) string {
	s.t.Helper()
	path := strings.TrimPrefix(link, "https://hermes.example.com")
	do := func(r *http.Request, err error) string {
		if err != nil {
			s.t.Fatal(err)
		}
		res, err := s.client.Do(r)
		if err != nil {
			s.t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		_, title, _ := strings.Cut(string(b), "<h1>")
		title, _, _ = strings.Cut(title, "</h1>")
		return title
	}
	do(http.NewRequest(http.MethodGet, "http://caddy"+path, nil))
	r, err := http.NewRequest(http.MethodPost, "http://caddy"+path, strings.NewReader("choice="+string(c)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://hermes.example.com")
	return do(r, err)
}

const (
	linked  = "hermes_approvals\n\thermes {\n\t\tapprovals link https://hermes.example.com/hermes/approve\n\t}"
	replied = "hermes_resume {\n\t\talways chat 10s\n\t}\n\thermes {\n\t\tapprovals reply\n\t}"
	// linkIn and codeIn find what the client is to use.
	linkIn = `"hermes_approval_url":"(https://hermes\.example\.com/hermes/approve/[A-Za-z0-9_-]{22})"`
	codeIn = "approve ([2-9A-Z]{4}-[2-9A-Z]{4})`"
)

// TestLinkRunsTheTool: the answer that asked goes on, also across a reload.
func TestLinkRunsTheTool(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, linked)
	for name, choice := range map[string]approval.Choice{"once": approval.Once, "deny": approval.Deny} {
		before := agent.commands()
		a := site.chat(agentKey, "danger")
		link := a.until(linkIn)
		site.load(upstream, linked+"\n\theader X-Other 1")
		if title, want := site.click(link, choice), map[string]string{"once": "Approved", "deny": "Denied"}[name]; title != want {
			t.Fatalf("the page says %q, want %q", title, want)
		}
		if text := a.text(); text != "Let me remove it.\n\nSo it is: "+name+"." {
			t.Errorf("%q", text)
		}
		if ran := agent.commands() - before; ran != map[string]int{"once": 1}[name] {
			t.Errorf("%d commands have run", ran)
		}
		if title := site.click(link, approval.Once); title != "Already answered" {
			t.Errorf("again: %q", title)
		}
		checkApprovalLog(t, site, link[strings.LastIndexByte(link, '/')+1:])
	}
}

// TestAnswersOfGroupedRoutes: of a group of routes after hermes, such as handle blocks, only the first that
// matches handles a request. An answer is another request. Its path is beside the one that the client asked for,
// not the one that upstream gets.
func TestAnswersOfGroupedRoutes(t *testing.T) {
	const where = "route {\n\t\thermes_approvals\n\t\t%s\n\t\thermes {\n\t\t\tapprovals link https://hermes.example.com/hermes/approve\n\t\t}\n\t\thandle /v1/* {\n\t\t\trewrite * /agent{path}\n\t\t\treverse_proxy %s\n\t\t}\n\t\thandle {\n\t\t\trespond 200\n\t\t}\n\t}"
	for _, queue := range []string{"", "hermes_queue"} {
		agent, upstream := newAsking022(t)
		site := runApprovals(t, "127.0.0.1:1", fmt.Sprintf(where, queue, upstream))
		a := site.chat(agentKey, "danger")
		if title := site.click(a.until(linkIn), approval.Once); title != "Approved" {
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
	log := site.logged()
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

// TestReplyRunsTheTool in the next message, whose answer is the rest, also across a reload. Nobody
// else's message does, and none but the reply.
func TestReplyRunsTheTool(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, replied)
	a := site.chat(agentKey, "danger")
	code := a.until(codeIn)
	if text := a.text(); !strings.Contains(text, dangerous) || strings.Contains(text, "So it is") {
		t.Errorf("the answer that asks says %q", text)
	}
	site.load(upstream, replied+"\n\theader X-Other 1")
	if text := site.chat(agentKey, "approve").text(); text != "You said approve" {
		t.Errorf("a word is answered by %q", text)
	}
	for _, other := range []string{"Please approve " + code, "> approve " + code, "approve " + code + "?", strings.ToLower(code)} {
		if text := site.chat(agentKey, other).text(); !strings.Contains(text, "reply `approve "+code+"` or `deny "+code+"` and nothing else") {
			t.Errorf("%q is answered by %q", other, text)
		}
	}
	for _, words := range []string{"approve " + code, "yes, " + code} { // what asks for no stream
		if text := site.whole(agentKey, words); !strings.Contains(text, "approve "+code+"` or `deny "+code+"` and nothing else, in a request that asks for a stream") {
			t.Errorf("%q is answered by %q", words, text)
		}
	}
	if text := site.chat(agentKey+"2", "approve "+code).text(); text != "You said approve" {
		t.Errorf("another client's reply is answered by %q", text)
	}
	if agent.commands() != 0 {
		t.Fatal("a command has run")
	}
	if text := site.chat(agentKey, " Approve `"+strings.ReplaceAll(code, "-", "–")+"`.\n").text(); text != "\n\nSo it is: once." {
		t.Errorf("the reply is answered by %q", text)
	}
	if agent.commands() != 1 {
		t.Errorf("%d commands have run", agent.commands())
	}
	again := site.chat(agentKey, "approve "+code).text()
	if again != sentenceOfTheSecond+"\n\nSo it is: once." || agent.commands() != 1 {
		t.Errorf("the second reply is answered by %q, and %d commands have run", again, agent.commands())
	}
	if got := agent.asked(); got != "danger, approve, approve" {
		t.Errorf("the agent was asked %s", got)
	}
	// What waits no more may be talked about, without the code.
	if text := site.chat(agentKey, "what was "+code+" about?").text(); text != "You said what was … about?" {
		t.Errorf("talk about it is answered by %q", text)
	}
	checkApprovalLog(t, site, code)
}

const sentenceOfTheSecond = "This request was answered before.\n\n"

// TestFiveWrongRepliesDeny, of the same client; those of another count nothing.
func TestFiveWrongRepliesDeny(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, replied)
	a := site.chat(agentKey, "danger")
	code := a.until(codeIn)
	a.text()
	for range 7 {
		site.chat(agentKey+"2", "approve 2222-2222").text()
	}
	for range 5 {
		site.chat(agentKey, "approve 2222-2222").text()
	}
	if text := site.chat(agentKey, "approve "+code).text(); !strings.Contains(text, "So it is: deny.") || agent.commands() != 0 {
		t.Errorf("the reply is answered by %q, and %d commands have run", text, agent.commands())
	}
}

// TestLateReply: the agent has given up, and the client gets the rest, which says so.
func TestLateReply(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, replied)
	a := site.chat(agentKey, "danger")
	code := a.until(codeIn)
	a.text()
	agent.timeout()
	if text := site.chat(agentKey, "approve "+code).text(); text != "This reply came too late: the agent does not wait for it any more.\n\n\n\nSo it is: timeout." {
		t.Errorf("%q", text)
	}
	if agent.commands() != 0 {
		t.Error("a command has run")
	}
}

// TestReplyNeedsResume: without it the answer does not end.
func TestReplyNeedsResume(t *testing.T) {
	_, upstream := newAsking022(t)
	site := runApprovals(t, upstream, "hermes_approvals\n\thermes {\n\t\tapprovals reply\n\t\tapprovals link https://hermes.example.com/hermes/approve text\n\t}")
	a := site.chat(agentKey, "danger")
	link := a.until(linkIn)
	if title := site.click(link, approval.Session); title != "Approved" {
		t.Fatal(title)
	}
	if text := a.text(); strings.Contains(text, "reply `") || !strings.Contains(text, link) || !strings.Contains(text, "So it is: session.") {
		t.Errorf("%q", text)
	}
	if !strings.Contains(site.logged(), "the answer cannot wait for a reply without its client") {
		t.Error("the log does not say why there is no code")
	}
}

// TestUsersOfOneKey are told apart by a placeholder. One without a name is not asked.
func TestUsersOfOneKey(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, "hermes_resume {\n\t\talways chat 10s\n\t}\n\thermes {\n\t\tapprovals reply\n\t\tapprovals by {header.X-User}\n\t}")
	a := site.chat(agentKey, "danger", "X-User", "ada")
	code := a.until(codeIn)
	a.text()
	for _, user := range []string{"bob", ""} {
		if text := site.chat(agentKey, "approve "+code, "X-User", user).text(); text != "You said approve" {
			t.Errorf("%q may answer: %q", user, text)
		}
	}
	if text := site.chat(agentKey, "deny "+code, "X-User", "ada").text(); text != "\n\nSo it is: deny." {
		t.Errorf("%q", text)
	}
	unknown := site.chat(agentKey, "danger")
	unknown.until("approval.request")
	agent.timeout()
	if all := unknown.rest(); strings.Contains(all, "hermes_approval_") {
		t.Errorf("a client without a name is asked:\n%s", all)
	}
	if !strings.Contains(site.logged(), `"by":"ada"`) {
		t.Error("the log does not say who")
	}
}

// TestWhatWaitsIsListed, without the command and the ticket.
func TestWhatWaitsIsListed(t *testing.T) {
	_, upstream := newAsking022(t)
	site := runApprovals(t, upstream, linked+"\n\thermes_streams /streams")
	a := site.chat(agentKey, "danger")
	link := a.until(linkIn)
	list := func() string {
		res, err := site.client.Get("http://caddy/streams")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := list(); !strings.Contains(got, `"waiting_approvals":[{"tool":"terminal","seconds":`) || strings.Contains(got, dangerous) || strings.Contains(got, link[len(link)-22:]) {
		t.Errorf("listed: %s", got)
	}
	if title := site.click(link, approval.Once); title != "Approved" {
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
		bodies = append(bodies, regexp.MustCompile(`chatcmpl-\w+-\d+`).ReplaceAllString(site.chat(agentKey, "hello").rest(), "chatcmpl"))
	}
	if bodies[0] != bodies[1] {
		t.Errorf("%s\nwant\n%s", bodies[1], bodies[0])
	}
}
