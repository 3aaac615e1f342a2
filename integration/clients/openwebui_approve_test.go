package clients

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
)

// TestOpenWebUIApprovals has a real Hermes ask a user of a real Open WebUI, who answers in a browser:
// on the page of the link in the message, and in the next message.
func TestOpenWebUIApprovals(t *testing.T) {
	program := openWebUI(t)
	agent, version := installHermes(t)
	a := newApprovalLab(t, agent, version, 120)
	configs := `OPENAI_API_CONFIGS={"0": {"enable": true, "prefix_id": "link"}, "1": {"enable": true, "prefix_id": "reply"}}`
	h := &house{webui: newWebUI(t, startOpenWebUI(t, program, []string{a.links + "/v1", a.offers + "/v1"}, configs,
		"OPENAI_API_KEYS="+hermesKey+";"+hermesKey, "ENABLE_FORWARD_USER_INFO_HEADERS=true"))}
	for _, s := range []struct {
		name, choice string
		f            func(t *testing.T, h *house, choice string)
	}{
		{"link, once", "once", a.clickLink},
		{"link, deny", "deny", a.clickLink},
		{"reply, approve", "approve", a.typeReply},
		{"reply, deny", "deny", a.typeReply},
	} {
		h.scene(t, s.name, func(t *testing.T) { s.f(t, h, s.choice) })
	}
}

// clickLink has the user click on the link in the message, and press a button of the page that opens.
func (h *approvalLab) clickLink(t *testing.T, ui *house, choice string) {
	gone := h.victim(t)
	asked := len(h.model.sent())
	ui.open("link.hermes-agent")
	ui.ask(h.question(dangerous))
	const link = `.chat-assistant a[href*="/hermes/approve/"]`
	ui.Wait(fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, link))
	ui.Wait(`!!` + lastAnswer + `?.querySelector(".status-description")`)
	ui.Picture("open webui approval link")
	ticket := browser.Eval[string](ui.Tab, fmt.Sprintf(`document.querySelector(%q).href`, link))
	page := ui.Follow(link)
	page.Wait(`document.body.innerText.includes("rm -rf victim")`)
	page.Picture("approval page " + choice)
	if gone() {
		t.Error("the command has run")
	}
	if status := page.Submit(fmt.Sprintf(`button[value=%q]`, choice)); status != http.StatusOK || page.Count("button") != 0 {
		t.Errorf("the page that answers: %d, with %d buttons", status, page.Count("button"))
	}
	page.Picture("approval page after " + choice)
	if said := browser.Eval[string](page, `document.body.innerText`); strings.Contains(said, "pproved") != (choice == "once") {
		t.Errorf("the page says %q", said)
	}
	m, raw := ui.ended()
	if m.Error != nil || approvalText(m.Content) != "Let me remove it. So it is." || strings.Count(m.Content, ticket) != 1 {
		t.Errorf("stored is %s", raw)
	}
	if gone() != (choice == "once") {
		t.Errorf("%s, and the command has run: %v", choice, gone())
	}
	ui.goOn(t, h, asked)
	h.wantNotSent(t, asked, ticket[strings.LastIndex(ticket, "/")+1:], "Approval needed")
}

// typeReply has the user send what the message asks for.
func (h *approvalLab) typeReply(t *testing.T, ui *house, verb string) {
	gone := h.victim(t)
	asked := len(h.model.sent())
	ui.open("reply.hermes-agent")
	question := h.question(dangerous)
	ui.ask(question)
	m, raw := ui.ended()
	if m.Error != nil || approvalText(m.Content) != "Let me remove it." {
		t.Fatalf("stored is %s", raw)
	}
	code := codeIn(t, m.Content)
	ui.Picture("open webui approval reply")
	ui.ask(verb + " " + code)
	m, raw = ui.ended()
	if m.Error != nil || m.Content != "So it is." {
		t.Errorf("stored is %s", raw)
	}
	ui.Wait(shows("So it is."))
	ui.Picture("open webui approval replied")
	if gone() != (verb == "approve") {
		t.Errorf("%s, and the command has run: %v", verb, gone())
	}
	if n := h.model.asks(question); n != len(dangerous.turns) {
		t.Errorf("the agent has asked its model %d times, want %d", n, len(dangerous.turns))
	}
	ui.goOn(t, h, asked)
	h.wantNotSent(t, asked, "Approval needed")
	for _, body := range h.model.sent()[asked:] {
		// What the user has typed stands in later prompts for titles. By then it counts no more.
		quoted := strings.Contains(body, "### Task") && strings.Contains(body, "USER: "+verb+" "+code+"\\nASSISTANT: So it is.")
		if n := strings.Count(body, code); n > 1 || n == 1 && !quoted {
			t.Errorf("a request to the model has the code: %s", body)
		}
	}
}

// goOn continues the chat. From the n-th request to the model on, there are prompts for a title and
// the like.
func (h *house) goOn(t *testing.T, a *approvalLab, n int) {
	h.ask("Thank you.")
	if m, raw := h.ended(); m.Error != nil || m.Content == "" {
		t.Errorf("the next answer: %s", raw)
	}
	harness.Until(t, "Open WebUI asks for a title", func() bool {
		return slices.ContainsFunc(a.model.sent()[n:], func(body string) bool { return strings.Contains(body, "### Task") })
	})
}
