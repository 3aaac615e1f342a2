package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// TestRealApprovals has a real Hermes ask before it runs a command, and openai-python answer: on the
// page of the link, and by the next message. It needs a Hermes that asks in chats: 0.22 or newer.
func TestRealApprovals(t *testing.T) {
	program, version := installHermes(t)
	h := newApprovalLab(t, program, version, 60)
	h.driver = startPython(t)
	for _, s := range []struct {
		name string
		f    func(t *testing.T)
	}{
		{"what Hermes answers", h.bareAnswers},
		{"link, once", func(t *testing.T) { h.link(t, "once") }},
		{"link, deny", func(t *testing.T) { h.link(t, "deny") }},
		{"reply, approve", func(t *testing.T) { h.reply(t, "approve") }},
		{"reply, deny", func(t *testing.T) { h.reply(t, "deny") }},
		{"run", h.inRun},
		{"session", h.inSession},
	} {
		t.Run(s.name, s.f)
	}
	t.Run("no answer in time", newApprovalLab(t, program, version, 5).timeout)
}

// timeout has nobody answer: Hermes goes on without the command, and an answer that comes then is
// too late.
func (h *approvalLab) timeout(t *testing.T) {
	gone := h.victim(t)
	question := h.question(dangerous)
	first := h.post(t, h.offers+"/v1/chat/completions", chatOf(question))
	link, code := h.offered(t, first)
	before := decode(t, first.rest())
	harness.Until(t, "the page says that it is too late", func() bool {
		return !strings.Contains(h.page(t, http.MethodGet, link, ""), `value="once"`)
	})
	if said := h.page(t, http.MethodPost, link, "once"); strings.Contains(said, "pproved") {
		t.Errorf("the page says that it is approved: %s", said)
	}
	late := decode(t, h.post(t, h.offers+"/v1/chat/completions", chatWith(question, before.Content, "approve "+code)).rest())
	late.CheckGood(t)
	if !strings.HasSuffix(late.Content, "So it is.") || strings.TrimSpace(late.Content) == "So it is." {
		t.Errorf("a late reply gets %q, want the rest after a sentence", late.Content)
	}
	if gone() {
		t.Error("the command has run")
	}
}

// An approvalLab is a real Hermes behind a site that offers a link and a reply, one with only the
// link, and one with the page.
type approvalLab struct {
	*hermesLab
	version string
	offers  string // base URL of the site with both
	links   string // of that with the link alone
	pages   string // of that with the page
	caddy   *sidecar.Process
}

// newApprovalLab starts a Hermes that waits so many seconds for a person.
func newApprovalLab(t *testing.T, program, version string, waits int) *approvalLab {
	h := &approvalLab{hermesLab: &hermesLab{t: t, model: newScriptedModel(t, map[string][]modelTurn{dangerous.prompt(): dangerous.turns})}, version: version}
	h.gateway = newGateway(t, program, h.model.up.Addr, waits, 0)
	h.bare = "http://" + h.listen
	h.serve(t, h.listen)
	h.mended = h.links
	// One that does not ask refuses at once.
	h.victim(t)
	w := h.post(t, h.bare+"/v1/chat/completions", chatOf(h.question(dangerous)))
	if w.until(`"completed"`, approvalRequest); !strings.Contains(w.read.String(), approvalRequest) {
		t.Skipf("Hermes %s asks for no approval in a chat", version)
	}
	w.leave()
	return h
}

// serve starts the sidecar.
func (h *approvalLab) serve(t testing.TB, upstream string) {
	offers, links, pages := harness.FreePort(t), harness.FreePort(t), harness.FreePort(t)
	h.offers, h.links, h.pages = "http://"+offers, "http://"+links, "http://"+pages
	site := func(listen string, lines ...string) string {
		return sidecar.OnLoopback(listen) + "\tlog\n\thermes_resume {\n\t\talways chat 1m\n\t}\n\thermes {\n\t\tapprovals link " + h.pages + "/hermes/approve text\n\t\t" +
			strings.Join(lines, "\n\t\t") + "\n\t}\n\treverse_proxy " + upstream + "\n}\n"
	}
	h.caddy = sidecar.RunCaddyfile(t, t.TempDir(), "{\n\tadmin off\n}\n"+site(offers, "approvals reply")+site(links)+
		sidecar.OnLoopback(pages)+"\tlog\n\thermes_approvals\n}\n")
}

// chatWith is the body of a request for a stream, whose messages are in turn the user's and the
// assistant's.
func chatWith(messages ...string) string {
	b, err := json.Marshal(map[string]any{"model": "hermes-agent", "stream": true, "messages": turnsOf(messages...)})
	if err != nil {
		panic(err) // of strings
	}
	return string(b)
}

// turnsOf are the messages of a chat.
func turnsOf(messages ...string) (all []map[string]string) {
	for i, text := range messages {
		all = append(all, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	return all
}

// offered reads on to the request for approval, and returns what it offers.
func (h *approvalLab) offered(t testing.TB, w *wire) (link, code string) {
	t.Helper()
	var q struct {
		Link string `json:"hermes_approval_url"`
		Code string `json:"hermes_approval_code"`
	}
	if data := w.frame(approvalRequest); json.Unmarshal([]byte(data), &q) != nil || !strings.HasPrefix(q.Link, h.pages+"/hermes/approve/") {
		t.Fatalf("no link in %s", data)
	}
	return q.Link, q.Code
}

// page opens a page, or presses a button of it, and returns what it says.
func (h *approvalLab) page(t testing.TB, method, link, choice string) string {
	t.Helper()
	w := h.send(t, method, link, url.Values{"choice": {choice}}.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", h.pages)
	return w.rest()
}

// bareAnswers records what Hermes itself says to answers, which the sidecar goes by.
func (h *approvalLab) bareAnswers(t *testing.T) {
	gone := h.victim(t)
	w := h.post(t, h.bare+"/v1/chat/completions", chatOf(h.question(dangerous)))
	var q struct {
		Run string `json:"run_id"`
		ID  string `json:"request_id"`
	}
	if data := w.frame(approvalRequest); json.Unmarshal([]byte(data), &q) != nil {
		t.Fatal(data)
	}
	answer := func(run, body string, want int, code string) {
		t.Helper()
		got := h.post(t, h.bare+"/v1/runs/"+run+"/approval", body)
		if said := got.rest(); got.StatusCode != want || !strings.Contains(said, code) {
			t.Errorf("%s: %s %s, want %d %s", body, got.Status, said, want, code)
		}
	}
	one := func(choice string) string { return fmt.Sprintf(`{"choice": %q, "request_id": %q}`, choice, q.ID) }
	answer(q.Run, one("perhaps"), http.StatusBadRequest, "invalid_approval_choice")
	answer("chatcmpl-0", one("once"), http.StatusNotFound, "run_not_found")
	answer(q.Run, `{"choice": "once", "request_id": "0"}`, http.StatusConflict, "approval_not_pending")
	answer(q.Run, one("once"), http.StatusOK, `"resolved": 1`)
	answer(q.Run, one("once"), http.StatusConflict, "approval_not_")
	if w.rest(); !gone() {
		t.Error("the command has not run")
	}
	answer(q.Run, one("once"), http.StatusConflict, "approval_not_active")
	record(t, "approval once", w.read.String())
}

// asks has openai-python ask, with more of a case.
func (h *approvalLab) asks(more map[string]any) seen {
	c := map[string]any{"base_url": h.offers + "/v1", "api_key": hermesKey}
	maps.Copy(c, more)
	return h.driver.send(c, harness.Patience)
}

// link has the program press a button of the page that it finds in the stream.
func (h *approvalLab) link(t *testing.T, choice string) {
	gone := h.victim(t)
	got := h.asks(map[string]any{"base_url": h.links + "/v1", "prompt": h.question(dangerous), "approve": choice})
	if got.Error != nil || got.hung || got.Finish != "stop" || approvalText(got.Text) != "Let me remove it. So it is." {
		t.Errorf("openai-python sees %+v", got)
	}
	if gone() != (choice == "once") {
		t.Errorf("%s, and the command has run: %v", choice, gone())
	}
}

// approvalText is an answer without the paragraphs that ask, with white space collapsed.
func approvalText(text string) string {
	return strings.Join(strings.Fields(regexp.MustCompile("(?m)^`🔐 Approval needed`.*$").ReplaceAllString(text, "")), " ")
}

// codeIn finds the code in an answer, as its reader does.
func codeIn(t testing.TB, text string) string {
	t.Helper()
	m := regexp.MustCompile("`approve ([A-Z0-9]{4}-[A-Z0-9]{4})`").FindAllStringSubmatch(text, -1)
	if len(m) != 1 {
		t.Fatalf("%d codes in %q", len(m), text)
	}
	return m[0][1]
}

// reply has the program answer with its next request.
func (h *approvalLab) reply(t *testing.T, verb string) {
	gone := h.victim(t)
	question := h.question(dangerous)
	first := h.asks(map[string]any{"prompt": question})
	if first.Error != nil || first.hung || first.Finish != "stop" || approvalText(first.Text) != "Let me remove it." {
		t.Fatalf("openai-python sees %+v", first)
	}
	code := codeIn(t, first.Text)
	before := len(h.model.sent())
	chat := []string{question, first.Text, verb + " " + code}
	rest := h.asks(map[string]any{"messages": turnsOf(chat...)})
	if rest.Error != nil || rest.hung || strings.TrimSpace(rest.Text) != "So it is." || rest.Finish != "stop" {
		t.Errorf("openai-python sees %+v", rest)
	}
	if gone() != (verb == "approve") {
		t.Errorf("%s, and the command has run: %v", verb, gone())
	}
	if n := h.model.asks(question); n != len(dangerous.turns) {
		t.Errorf("the agent has asked its model %d times, want %d", n, len(dangerous.turns))
	}
	// The chat goes on, and its history is that of a chat without approvals.
	more := h.asks(map[string]any{"messages": turnsOf(append(chat, rest.Text, "Thank you.")...)})
	if more.Error != nil || more.Finish != "stop" {
		t.Errorf("the next answer: %+v", more)
	}
	h.wantNotSent(t, before, code, "Approval needed", "/hermes/approve/")
}

// wantNotSent wants that no request to the model has one of the texts, from the n-th on.
func (h *approvalLab) wantNotSent(t testing.TB, n int, texts ...string) {
	t.Helper()
	for i, body := range h.model.sent()[n:] {
		for _, text := range texts {
			if strings.Contains(body, text) {
				t.Errorf("request %d to the model has %q: %s", n+i, text, body)
			}
		}
	}
}

// inRun answers what the events of a run ask.
func (h *approvalLab) inRun(t *testing.T) {
	gone := h.victim(t)
	id, ok := h.run(t, h.links, h.question(dangerous))
	if !ok {
		t.Skip("this Hermes has no runs")
	}
	w := h.get(t, h.links+"/v1/runs/"+id+"/events")
	h.pressIn(t, w, gone)
	if !strings.Contains(w.read.String(), "run.completed") {
		t.Errorf("the events are %s", w.read.String())
	}
}

// inSession answers what a stream of a session asks.
func (h *approvalLab) inSession(t *testing.T) {
	var made struct{ Session struct{ ID string } }
	if w := h.post(t, h.links+"/api/sessions", "{}"); !w.json(&made) || made.Session.ID == "" {
		t.Skip("this Hermes has no sessions")
	}
	gone := h.victim(t)
	w := h.post(t, h.links+"/api/sessions/"+made.Session.ID+"/chat/stream", `{"message": `+hermes.Quoted(h.question(dangerous))+`}`)
	h.pressIn(t, w, gone)
	if !strings.Contains(w.read.String(), "So it is.") {
		t.Errorf("the stream is %s", w.read.String())
	}
}

// linkInEvent is the link in an event, all of it.
var linkInEvent = regexp.MustCompile(`"hermes_approval_url": ?"([^"]+)"`)

// pressIn presses "once" on the page whose link has come in a stream, and reads that to its end.
func (h *approvalLab) pressIn(t *testing.T, w *wire, gone func() bool) {
	t.Helper()
	for !linkInEvent.MatchString(w.read.String()) {
		w.more(linkInEvent)
	}
	link := linkInEvent.FindStringSubmatch(w.read.String())[1]
	if said := h.page(t, http.MethodGet, link, ""); !strings.Contains(said, "rm -rf victim") || gone() {
		t.Errorf("the page says %s, and the command has run: %v", said, gone())
	}
	h.page(t, http.MethodPost, link, "once")
	if w.rest(); !gone() {
		t.Errorf("the command has not run: %s", w.read.String())
	}
}
