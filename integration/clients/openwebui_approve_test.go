package clients

import (
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// TestOpenWebUIApprovals has a real Hermes ask a user of a real Open WebUI, who answers in the next message. On the
// page of the link: TestOpenWebUITeam, and TestRealApprovals with a real Hermes.
func TestOpenWebUIApprovals(t *testing.T) {
	program := openWebUI(t)
	agent, version := installHermes(t)
	a := newApprovalLab(t, agent, version, 120)
	h := &house{webui: newWebUI(t, startOpenWebUI(t, program, []string{a.offers + "/v1"},
		"OPENAI_API_KEYS="+hermesKey, "ENABLE_FORWARD_USER_INFO_HEADERS=true"))}
	for _, verb := range []string{"approve", "deny"} {
		h.scene(t, verb, func(t *testing.T) { a.typeReply(t, h, verb) })
	}
}

// typeReply has the user send what the message asks for.
func (h *approvalLab) typeReply(t *testing.T, ui *house, verb string) {
	gone := h.victim(t)
	asked := len(h.model.sent())
	ui.open("hermes-agent")
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
