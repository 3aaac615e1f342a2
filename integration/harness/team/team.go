// Package team has the users of an Open WebUI as the sidecar sees them: requests with the headers that Open WebUI
// sends, and browsers with its cookie. Check wants of a configuration what such users need, all of it together.
package team

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// The keys: that with which Open WebUI asks, and Hermes' own.
const (
	WebUIKey  = "webui-0123456789abcdef0123456789abcdef"
	HermesKey = "hermes-0123456789abcdef0123456789abcdef"
)

// Runs is how many runs hermes_queue lets Hermes have at once.
const Runs = 8

// A Site is a sidecar with an agent behind it and an Open WebUI beside it.
type Site struct {
	*hermes.Agent
	API  string // the URL that Open WebUI asks, without /v1
	Chat string // the URL at which users open it
}

// OpenWebUI starts what stands in for an Open WebUI in front of browsers, and returns its address. It says who is
// signed in, and answers every other request with its path.
func OpenWebUI(t testing.TB) (addr string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/auths/" {
			fmt.Fprint(w, "Open WebUI: "+r.URL.Path)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		cookie, err := r.Cookie("token")
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"detail":"Not authenticated"}`)
			return
		}
		fmt.Fprintf(w, `{"token":%q,"token_type":"Bearer","id":%[1]q,"email":"a@example.com","name":"A","role":"user","profile_image_url":"/user.png"}`, cookie.Value)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A User is one of Open WebUI, by the id that it has there.
type User string

// The users of these tests.
const (
	Alice User = "6f1c2a9e-5f0b-4d55-9c1e-0a2b3c4d5e6f"
	Bob   User = "0b9d8c7a-1e2f-4a3b-8c4d-5e6f7a8b9c0d"
)

// header is what Open WebUI sends for a user in a chat.
func (u User) header(chat string) []string {
	return []string{
		"Authorization", "Bearer " + WebUIKey, "X-OpenWebUI-Auth-Type", "jwt", "X-OpenWebUI-User-Name", "A", "X-OpenWebUI-User-Email", "a@example.com",
		"X-OpenWebUI-User-Role", "user", "X-OpenWebUI-User-Id", string(u), "X-OpenWebUI-Chat-Id", chat,
	}
}

// A message is one of a chat.
type message map[string]any

// body is a request for an answer to a prompt, after what was said before.
func body(prompt string, before ...message) string {
	b, _ := json.Marshal(map[string]any{"stream": true, "model": "hermes-agent", "messages": append(before, message{"role": "user", "content": prompt})})
	return string(b)
}

// A Reply is an answer, of which each event has an id of hermes_resume.
type Reply struct{ *client.Reply }

var idLine = regexp.MustCompile(`(?m)^id: stream_[\w-]{22}/\d+\n`)

// Frame reads an event without its id.
func (r Reply) Frame(t testing.TB) strict.Event {
	t.Helper()
	raw := ""
	for {
		line, err := r.In.ReadString('\n')
		if err != nil {
			t.Fatalf("instead of a frame: %v", err)
		}
		if raw += idLine.ReplaceAllString(line, ""); line == "\n" {
			break
		}
	}
	e, err := strict.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Answer reads and decodes the rest of an answer, after the frames that were read.
func (r Reply) Answer(t testing.TB, before string) *strict.Answer {
	t.Helper()
	return strict.Decode(t, before+idLine.ReplaceAllString(r.All(), ""))
}

// Asks sends a prompt in a chat.
func (s *Site) Asks(t testing.TB, u User, chat, prompt string, before ...message) Reply {
	t.Helper()
	r := client.New(t, s.API).Send(http.MethodPost, "/v1/chat/completions", strings.NewReader(body(prompt, before...)), u.header(chat)...)
	return Reply{r}
}

// Check wants of a site what users of an Open WebUI need.
func (s *Site) Check(t *testing.T) {
	for _, scene := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"cards and memory", s.cardsAndMemory},
		{"lost answer", s.lostAnswer},
		{"queue", s.queue},
		{"approval", s.approval},
		{"strangers", s.strangers},
		{"browsers", s.browsers},
	} {
		t.Run(scene.name, scene.run)
	}
}

// A card says what the tool was given and what it returned. The agent is told of it in the next turn, and whose
// the request is. It gets nothing of Open WebUI's.
func (s *Site) cardsAndMemory(t *testing.T) {
	const prompt = "where do we read events?"
	s.On(prompt, hermes.Says("Let me look."), hermes.Uses(hermes.Call{ID: "call_1", Name: "terminal", Label: "grep ReadEvent", Args: `{"command": "grep ReadEvent"}`, Result: `{"output": "stream.go:4"}`}), hermes.Says("\n\nIn stream.go."))
	a := s.Asks(t, Alice, "a chat", prompt).Answer(t, "")
	a.CheckGood(t)
	all := ""
	for _, e := range a.Events {
		all += e.Raw
	}
	for _, want := range []string{`"type":"response.output_item.added"`, `grep ReadEvent`, `stream.go:4`, `"type":"function_call_output"`} {
		if !strings.Contains(strings.ReplaceAll(all, `": "`, `":"`), want) {
			t.Errorf("no %s in %s", want, all)
		}
	}
	first := s.Of(t, prompt)
	s.Asks(t, Alice, "a chat", "and who calls it?", message{"role": "user", "content": prompt}, message{"role": "assistant", "content": strings.TrimSpace(a.Content)}).Answer(t, "").CheckGood(t)
	all2 := s.Requests()
	second := all2[len(all2)-1]
	if !strings.Contains(second.Body, "these tools ran") || !strings.Contains(second.Body, "grep ReadEvent") {
		t.Errorf("the agent is not told what it did: %s", second.Body)
	}
	for _, r := range []hermes.Request{first, second} {
		if r.Key != "Bearer "+HermesKey || r.Header.Get("X-Hermes-Session-Key") != string(Alice) || !strings.Contains(r.Body, "Conversation space: ") {
			t.Errorf("the agent is asked with %v: %s", r.Header, r.Body)
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Openwebui-") || name == "Api-Key" || name == "X-Hermes-Session-Id" {
				t.Errorf("the agent gets %s", name)
			}
		}
	}
}

// asked is how often the agent has begun to work on a prompt.
func (s *Site) asked(prompt string) (n int) {
	for _, heard := range s.Heard() {
		if heard == prompt {
			n++
		}
	}
	return n
}

// The same request in the same chat brings the answer whose connection broke, to the user who asked alone. After a
// whole answer it runs the agent again.
func (s *Site) lostAnswer(t *testing.T) {
	const prompt = "slow: make it anew"
	lost := s.Asks(t, Alice, "a chat", prompt)
	s.Until(t, prompt)
	id := lost.Header.Get("X-Hermes-Stream")
	lost.Leave()
	again := s.Asks(t, Alice, "a chat", prompt)
	if got := again.Header.Get("X-Hermes-Stream"); id == "" || got != id {
		t.Errorf("the stream is %q, then %q", id, got)
	}
	others := map[User]int{Alice: http.StatusOK, Bob: http.StatusNotFound}
	for u, want := range others {
		if r := client.New(t, s.API).Send(http.MethodHead, "/v1/chat/completions/"+id, nil, u.header("a chat")...); r.StatusCode != want {
			t.Errorf("%s asks for the stream: %s", u, r.Status)
		}
	}
	s.End(prompt)
	if a := again.Answer(t, ""); a.Content != "bye" || s.asked(prompt) != 1 {
		t.Errorf("the answer is %q, and the agent was asked %d times", a.Content, s.asked(prompt))
	}
	s.Asks(t, Alice, "a chat", prompt).Answer(t, "").CheckGood(t)
	s.Asks(t, Alice, "another chat", prompt).Answer(t, "").CheckGood(t)
	if n := s.asked(prompt); n != 3 {
		t.Errorf("the agent was asked %d times, want 3", n)
	}
	if r := client.New(t, s.API).Send(http.MethodDelete, "/v1/chat/completions/"+id, nil, Bob.header("a chat")...); r.StatusCode != http.StatusNotFound {
		t.Errorf("another user ends the stream: %s", r.Status)
	}
}

// One user with more requests than there are places holds up nobody else by more than a turn.
func (s *Site) queue(t *testing.T) {
	var all []Reply
	prompt := func(i int) string { return fmt.Sprint("slow: of many ", i) }
	ask := func(u User, prompt string) Reply {
		r := s.Asks(t, u, prompt, prompt)
		all = append(all, r)
		return r
	}
	for i := range Runs {
		ask(Alice, prompt(i))
	}
	for i := range Runs {
		s.Until(t, prompt(i))
	}
	for i := Runs; i < Runs+2; i++ {
		if e := ask(Alice, prompt(i)).Frame(t); e.Event == nil || !strings.HasPrefix(e.Event.Data.Description, "Waiting in line") {
			t.Fatalf("it is told %q", e.Raw)
		}
	}
	const hers = "slow: of one"
	if e := ask(Bob, hers).Frame(t); e.Event == nil || e.Event.Data.Description != "Waiting in line: you are next" {
		t.Errorf("another user is told %q", e.Raw)
	}
	s.End(prompt(0))
	s.Until(t, hers)
	if s.Has(prompt(Runs)) {
		t.Error("the user with many requests had the next turn")
	}
	for i := range Runs + 2 {
		s.End(prompt(i))
	}
	s.End(hers)
	for _, r := range all {
		r.All()
	}
}

// approval is answered on the page by the user for whom the agent asks, and by nobody else.
func (s *Site) approval(t *testing.T) {
	const prompt, command = "clean up", "rm -rf victim"
	s.On(prompt, hermes.Says("Let me."), hermes.Asks(hermes.Command{Text: command}), hermes.Reports("Done: "))
	r := s.Asks(t, Alice, "a chat", prompt)
	link := regexp.MustCompile(regexp.QuoteMeta(s.Chat) + `/hermes/approve/[\w-]{22}`)
	page, raw := "", ""
	for page == "" {
		e := r.Frame(t)
		raw += e.Raw
		if e.Chunk != nil && len(e.Choices) > 0 { // the text, which users see
			page = link.FindString(e.Choices[0].Delta.Content)
		}
	}
	for _, u := range []User{"", Bob} {
		want := map[User]int{"": http.StatusUnauthorized, Bob: http.StatusNotFound}[u]
		if status, said := s.browse(t, u, http.MethodGet, page); status != want || strings.Contains(said, "victim") {
			t.Errorf("%q opens the page: %d %s", u, status, said)
		}
		if status, said := s.browse(t, u, http.MethodPost, page); status != want {
			t.Errorf("%q answers: %d %s", u, status, said)
		}
	}
	s.WantRan(t, command, 0)
	if status, said := s.browse(t, Alice, http.MethodGet, page); status != http.StatusOK || !strings.Contains(said, command) {
		t.Errorf("the page: %d %s", status, said)
	}
	if status, said := s.browse(t, Alice, http.MethodPost, page); status != http.StatusOK {
		t.Errorf("the answer: %d %s", status, said)
	}
	if a := r.Answer(t, raw); !strings.HasSuffix(a.Content, "Done: once") {
		t.Errorf("the answer ends with %q", a.Content)
	}
	s.WantRan(t, command, 1)
	if a := s.Of(t, prompt); !slices.Equal(a.Header.Values("X-Hermes-Session-Key"), []string{string(Alice)}) {
		t.Errorf("asked with %v", a.Header)
	}
}

// browse opens a page with a user's cookie, or answers "once" on it with POST.
func (s *Site) browse(t testing.TB, u User, method, page string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequest(method, page, strings.NewReader(map[string]string{http.MethodPost: "choice=once"}[method]))
	if err != nil {
		t.Fatal(err)
	}
	if u != "" {
		req.AddCookie(&http.Cookie{Name: "token", Value: string(u)})
	}
	if method == http.MethodPost {
		at, _ := url.Parse(s.Chat)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", at.Scheme+"://"+at.Host)
	}
	res, err := harness.Persist(func() (*http.Response, error) { return http.DefaultClient.Do(req) })
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// Who has no key gets nothing, and no user reaches what Hermes has of others.
func (s *Site) strangers(t *testing.T) {
	n := len(s.Requests())
	for _, key := range []string{"", "Bearer ", "Bearer " + WebUIKey + "0", "Bearer " + HermesKey} {
		r := client.New(t, s.API).Chat("Authorization", key, "X-OpenWebUI-User-Id", string(Alice))
		if e := client.CheckJSON(t, r, http.StatusUnauthorized, "127.0.0.1"); e.Code != "invalid_api_key" {
			t.Errorf("%q: %+v", key, e)
		}
	}
	for _, path := range []string{"/api/sessions", "/api/sessions/s/chat/stream", "/v1/runs", "/v1/responses", "/v1/runs/r/approval", "/p/other/v1/chat/completions"} {
		if r := client.New(t, s.API).Post(path, Alice.header("a chat")...); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
	if got := len(s.Requests()); got != n {
		t.Errorf("the agent was asked %d times", got-n)
	}
	if r := client.New(t, s.API).Send(http.MethodGet, "/v1/models", nil, Alice.header("")...); r.StatusCode != http.StatusOK || !strings.Contains(r.All(), "hermes-agent") {
		t.Errorf("models: %s", r.Status)
	}
}

// Browsers get Open WebUI.
func (s *Site) browsers(t *testing.T) {
	if status, said := s.browse(t, Alice, http.MethodGet, s.Chat+"/c/1"); status != http.StatusOK || said != "Open WebUI: /c/1" {
		t.Errorf("Open WebUI: %d %s", status, said)
	}
}
